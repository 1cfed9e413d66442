//! The proxy as a test holds it.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use url::Url;

use super::link::{self, raise};
use super::message::Direction;
use super::protocol::Framing;
use super::rule::{Action, Match, Rule};
use super::state::{Counts, Cut, Fired, Go, Shared, Standing};
use crate::ports::Port;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A proxy on loopback; clones are handles to the same one.
///
/// Its tasks live on the runtime that started it. It closes everything when the last handle is
/// dropped.
#[derive(Clone)]
#[must_use = "the proxy ends when its last handle is dropped"]
pub struct Proxy(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    framing: Framing,
    target: Arc<Mutex<SocketAddr>>,
    address: SocketAddr,
    _port: Port,
    door: Mutex<Door>,
}

/// Where connections come in.
///
/// The port is bound to all the time: a child of this process that has not begun its own program
/// yet has a copy of the socket that listened, and would keep another from being bound there.
#[derive(Default)]
enum Door {
    #[default]
    None,
    Closed(TcpSocket),
    Open(Arc<TcpListener>, JoinHandle<()>),
}

impl Proxy {
    /// Starts one in front of this server, which need not be up. Everything passes.
    ///
    /// # Errors
    ///
    /// If no port can be had.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn start(target: SocketAddr, framing: Framing) -> io::Result<Self> {
        let proxy = Self::new(target, framing)?;
        proxy.accept().await?;
        Ok(proxy)
    }

    /// One that accepts nothing: connections come by its [carrier](Self::carrier).
    #[cfg(feature = "etcd")]
    pub(crate) fn detached(target: SocketAddr, framing: Framing) -> io::Result<Self> {
        Self::new(target, framing)
    }

    fn new(target: SocketAddr, framing: Framing) -> io::Result<Self> {
        let port = Port::reserve()?;
        Ok(Self(Arc::new(Inner {
            shared: Arc::default(),
            framing,
            target: Arc::new(Mutex::new(target)),
            address: (Ipv4Addr::LOCALHOST, port.number()).into(),
            _port: port,
            door: Mutex::default(),
        })))
    }

    /// Its own address, for the client.
    pub fn addr(&self) -> SocketAddr {
        self.0.address
    }

    /// The server's URL with this proxy's host and port.
    ///
    /// # Panics
    ///
    /// If it is not a URL with a host.
    pub fn url(&self, server: &str) -> String {
        let mut url = Url::parse(server).expect("a server's URL");
        // A certificate is for `localhost`, as a server's TLS URL says.
        if url.host_str() != Some("localhost") {
            url.set_host(Some("127.0.0.1")).expect("a URL with a host");
        }
        url.set_port(Some(self.addr().port())).expect("a URL with a host");
        url.to_string()
    }

    /// What becomes from now on of messages that no rule takes. At first they pass.
    pub fn set(&self, direction: Direction, action: Action) {
        self.0.shared.change(|state| state.standing[direction.index()] = action);
    }

    /// Swallows everything in both directions, also the ends of connections, and resets nothing.
    ///
    /// A connection that lost something stays silent for ever: what comes after a gap is never
    /// delivered. For a network that comes back with what both kernels kept,
    /// [`set`](Self::set) [`Action::Hold`] and later [`heal`](Self::heal).
    pub fn blackhole(&self) {
        for direction in Direction::BOTH {
            self.set(direction, Action::Silence);
        }
    }

    /// Adds a rule. The first of the rules that takes a message decides of it; the older comes first.
    pub fn on(&self, direction: Direction, which: Match, action: Action) -> Rule {
        let fired = Fired::default();
        let rule = Standing { direction, which, action, fired: fired.clone() };
        self.0.shared.change(|state| state.rules.push(rule));
        Rule { shared: self.0.shared.clone(), fired }
    }

    /// Delivers all messages that are held now, and says how many. Later ones are held as before.
    pub fn deliver(&self, direction: Direction) -> usize {
        self.0.shared.change(|state| state.release(direction, usize::MAX, Go::Deliver))
    }

    /// Delivers the message that has been held for the longest time; false if none is.
    pub fn deliver_next(&self, direction: Direction) -> bool {
        self.0.shared.change(|state| state.release(direction, 1, Go::Deliver)) == 1
    }

    /// Makes all messages that are held now disappear, and says how many.
    pub fn discard(&self, direction: Direction) -> usize {
        self.0.shared.change(|state| state.release(direction, usize::MAX, Go::Discard))
    }

    /// Closes every open connection on both sides.
    pub fn cut(&self) {
        self.close(Cut::Both);
    }

    /// Closes every open connection on the client's side only. What is held for the server can still
    /// be delivered: a request that arrives after its client is gone.
    pub fn cut_clients(&self) {
        self.close(Cut::Client);
    }

    /// Closes every open connection on both sides with a reset.
    pub fn reset(&self) {
        self.close(Cut::Reset);
    }

    /// Ends one direction of every open connection: its receiver sees the end of the stream, and
    /// what is still sent that way is lost. The other direction goes on.
    pub fn half_close(&self, direction: Direction) {
        self.0.shared.read(|state| {
            for link in state.links.values() {
                link.send_modify(|fate| fate.ended[direction.index()] = true);
            }
        });
    }

    /// Leads new connections to this server from now on, as a name or an address does that moves
    /// with a failover. Open connections stay where they are.
    pub fn aim(&self, target: SocketAddr) {
        *lock(&self.0.target) = target;
    }

    /// Refuses new connections as a closed port does. Open ones stay.
    ///
    /// # Cancel safety
    ///
    /// They are refused a moment later all the same.
    pub async fn refuse(&self) {
        let opened = {
            let mut door = self.0.door();
            let Door::Open(listener, accepts) = std::mem::take(&mut *door) else { return };
            // The next one is bound before this one goes. Without it, the port is bound anew.
            *door = bound(self.0.address).map(Door::Closed).unwrap_or_default();
            // Its copies listen no more, either; a system that can't do so closes it soon enough.
            let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
            accepts.abort();
            accepts
        };
        // The port is closed when the task is gone; that it was aborted is no news.
        let _ = opened.await;
    }

    /// Accepts new connections (again).
    ///
    /// # Errors
    ///
    /// If another program has taken the port meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Nothing changed.
    pub async fn accept(&self) -> io::Result<()> {
        let mut door = self.0.door();
        let socket = match std::mem::take(&mut *door) {
            Door::None => bound(self.0.address)?,
            Door::Closed(socket) => socket,
            open @ Door::Open(..) => {
                *door = open;
                return Ok(());
            }
        };
        let listener = Arc::new(socket.listen(BACKLOG)?);
        let (accepting, carrier) = (listener.clone(), self.carrier());
        let accepts = tokio::spawn(async move {
            loop {
                let Ok((client, _)) = accepting.accept().await else {
                    // Of one connection that was gone before it was accepted; or there are too many
                    // open files, and others must be let close theirs.
                    tokio::task::yield_now().await;
                    continue;
                };
                tokio::spawn(carrier.clone().carry(client));
            }
        });
        *door = Door::Open(listener, accepts);
        Ok(())
    }

    /// What leads connections to the server; it does not keep the proxy alive.
    pub(crate) fn carrier(&self) -> Carrier {
        Carrier {
            shared: self.0.shared.clone(),
            framing: self.0.framing,
            target: self.0.target.clone(),
        }
    }

    /// Ends every fault but refusal: rules go, everything passes, what is held is delivered.
    /// What was [silenced](Action::Silence) stays silent.
    pub fn heal(&self) {
        self.0.shared.change(|state| {
            state.rules.clear();
            state.standing = [Action::Pass; 2];
            for direction in Direction::BOTH {
                state.release(direction, usize::MAX, Go::Deliver);
            }
        });
    }

    /// Waits until at least this many messages are held.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; wait again.
    pub async fn held(&self, direction: Direction, count: usize) {
        self.until(|counts| counts.flow(direction).held >= count).await;
    }

    /// Waits until this is true of the counters, and gives them. It must not call the proxy.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; wait again.
    pub async fn until(&self, mut ready: impl FnMut(&Counts) -> bool) -> Counts {
        self.0.shared.until(|state| ready(&state.counts).then_some(state.counts)).await
    }

    /// The counters as they are.
    pub fn counts(&self) -> Counts {
        self.0.shared.read(|state| state.counts)
    }

    fn close(&self, how: Cut) {
        self.0.close(how);
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.0.address)
            .field("target", &*lock(&self.0.target))
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// Leads connections to a proxy's server.
#[derive(Clone, Debug)]
pub(crate) struct Carrier {
    shared: Arc<Shared>,
    framing: Framing,
    target: Arc<Mutex<SocketAddr>>,
}

impl Carrier {
    /// Carries this one to its end.
    pub(crate) async fn carry(self, client: TcpStream) {
        let target = *lock(&self.target);
        // A server that is down closes the client's connection.
        match TcpStream::connect(target).await {
            Ok(server) => link::run(self.shared, self.framing, client, server).await,
            Err(_) => self.shared.change(|state| state.counts.in_vain += 1),
        }
    }
}

impl Inner {
    fn door(&self) -> MutexGuard<'_, Door> {
        lock(&self.door)
    }

    fn close(&self, how: Cut) {
        self.shared.read(|state| {
            for link in state.links.values() {
                link.send_if_modified(|fate| raise(fate, how));
            }
        });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Door::Open(_, accepts) = &*self.door() {
            accepts.abort();
        }
        // A connection that is being made now must see it too.
        self.shared.change(|state| state.closed = true);
        self.close(Cut::Both);
    }
}

/// A socket that has this address, and refuses what comes until it listens.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is half changed under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
