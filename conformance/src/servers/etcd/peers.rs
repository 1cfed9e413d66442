//! How members of a cluster reach each other, and how that is made to fail.
//!
//! All members know a member by one address, so a proxy in front of it could not tell who calls.
//! Where links are to be cut, members therefore have addresses that lead nowhere (192.0.2.0/24 is
//! for documentation), and each member has a SOCKS proxy of its own, which etcd takes from
//! `HTTP_PROXY` as every Go program does for addresses that are not loopback. It leads each
//! connection through the fault proxy of that ordered pair of members: everything that one sends to
//! another passes there, also renewals of leases that it passes on to the leader.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::ports::Port;
use crate::proxy::{Carrier, Framing, Proxy};

/// The port of the addresses that lead nowhere.
const NOWHERE: u16 = 2380;

/// Runs the links: a cluster may outlive the runtime of the test that started it.
static LINKS: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("leasehold-links")
        .enable_all()
        .build()
        .expect("the system gives a thread")
});

/// The members' places among each other.
#[derive(Debug)]
pub(super) struct Peers {
    /// Where each listens for the others.
    ports: Vec<Port>,
    /// Tells this cluster's members from another's.
    token: String,
    /// By the member that calls; empty where they call directly.
    callers: Vec<Caller>,
}

/// What leads one member's calls.
#[derive(Debug)]
struct Caller {
    socks: Port,
    /// By the member that is called; that to itself is never used.
    links: Vec<Proxy>,
    task: JoinHandle<()>,
}

impl Peers {
    pub(super) async fn new(count: usize, separable: bool) -> io::Result<Self> {
        let ports = (0..count).map(|_| Port::reserve()).collect::<io::Result<Vec<_>>>()?;
        let token = format!("leasehold-{}-{}", std::process::id(), ports[0].number());
        let mut callers = Vec::new();
        for _ in 0..if separable { count } else { 0 } {
            let targets = ports.iter().map(|port| (Ipv4Addr::LOCALHOST, port.number()).into());
            let links = targets.map(|target| Proxy::detached(target, Framing::Chunks));
            callers.push(Caller::start(links.collect::<io::Result<_>>()?).await?);
        }
        Ok(Self { ports, token, callers })
    }

    pub(super) fn count(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The port where a member listens for the others.
    pub(super) fn port(&self, index: usize) -> u16 {
        self.ports[index].number()
    }

    /// The address by which the others know a member.
    pub(super) fn address(&self, index: usize) -> SocketAddr {
        if self.callers.is_empty() {
            return (Ipv4Addr::LOCALHOST, self.port(index)).into();
        }
        let last = u8::try_from(index + 1).expect("a test has few members");
        (Ipv4Addr::new(192, 0, 2, last), NOWHERE).into()
    }

    /// What a member must find in its environment.
    pub(super) fn environment(&self, index: usize) -> Vec<(String, String)> {
        let Some(caller) = self.callers.get(index) else { return Vec::new() };
        let proxy = format!("socks5://127.0.0.1:{}", caller.socks.number());
        // What the machine's own settings except must not except ours.
        let all = [("HTTP_PROXY", proxy), ("NO_PROXY", "nothing.invalid".to_owned())];
        all.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// The connections that one member opens to another, if they pass here.
    pub(super) fn calls(&self, from: usize, to: usize) -> Option<&Proxy> {
        self.callers.get(from)?.links.get(to).filter(|_| from != to)
    }
}

impl Caller {
    async fn start(links: Vec<Proxy>) -> io::Result<Self> {
        let socks = Port::reserve()?;
        let address = (Ipv4Addr::LOCALHOST, socks.number());
        let carriers: Vec<_> = links.iter().map(Proxy::carrier).collect();
        let task = LINKS.spawn(async move {
            let listener = TcpListener::bind(address).await?;
            let task = tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(lead(stream, carriers.clone()));
                }
            });
            io::Result::Ok(task)
        });
        let task = task.await.map_err(io::Error::other)??;
        Ok(Self { socks, links, task })
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Hears where a connection wants to go, and leads it there.
async fn lead(mut stream: TcpStream, links: Vec<Carrier>) {
    // Who speaks something else is not a member.
    if let Ok(Some(link)) = greet(&mut stream).await.map(|to| links.into_iter().nth(to)) {
        link.carry(stream).await;
    }
}

/// The member that is called, by RFC 1928 without authentication.
async fn greet(stream: &mut TcpStream) -> io::Result<usize> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).await?;
    let mut methods = vec![0; usize::from(head[1])];
    stream.read_exact(&mut methods).await?;
    stream.write_all(&[5, 0]).await?;
    // Version, "connect", reserved, "an IPv4 address", which is 192.0.2.x, and the port.
    let mut request = [0; 10];
    stream.read_exact(&mut request).await?;
    let [5, 1, 0, 1, 192, 0, 2, last, ..] = request else {
        return Err(io::Error::other("it calls somebody else"));
    };
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    usize::from(last).checked_sub(1).ok_or_else(|| io::Error::other("no such member"))
}
