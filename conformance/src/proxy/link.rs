//! One connection through the proxy.
//!
//! Each direction has a reader, which takes messages apart and decides of each as it arrives, and a
//! writer, which carries the decisions out, in order within a lane: most protocols have one, and
//! HTTP/2 has one a stream. Between them is a queue without bound, so that a held message stops
//! neither the reader nor the sender.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::message::{Direction, Message};
use super::protocol::{self, Framing, Part, Protocol, Role};
use super::rule::Action;
use super::state::{Cut, Fate, Shared};
use super::writer::{Next, Order, Parcel, write};

/// What both directions of a connection know.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) shared: Arc<Shared>,
    pub(super) number: u64,
    framing: Framing,
    protocol: Arc<Mutex<Box<dyn Protocol>>>,
    pub(super) fate: watch::Sender<Fate>,
}

/// Carries messages between the two until both are done.
pub(super) async fn run(
    shared: Arc<Shared>,
    framing: Framing,
    client: TcpStream,
    server: TcpStream,
) {
    // Without it, an answer of several writes would wait for the peer's acknowledgement.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let fate = watch::Sender::new(Fate::default());
    let number = shared.change(|state| {
        if state.closed {
            fate.send_modify(|fate| fate.cut = Cut::Both);
        }
        state.counts.accepted += 1;
        state.counts.open += 1;
        state.links.insert(state.counts.accepted, fate.clone());
        state.counts.accepted
    });
    let protocol = Arc::new(Mutex::new(framing.open()));
    let link = Link { shared, number, framing, protocol, fate };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (requests, of_client) = mpsc::unbounded_channel();
    let (answers, of_server) = mpsc::unbounded_channel();
    let onward = Way { link: link.clone(), direction: Direction::ToServer, back: answers.clone() };
    let back = Way { link: link.clone(), direction: Direction::ToClient, back: requests.clone() };
    tokio::join!(
        carry(onward, from_client, to_server, requests, of_client),
        carry(back, from_server, to_client, answers, of_server),
    );
    link.shared.change(|state| {
        state.counts.open -= 1;
        state.links.remove(&link.number);
    });
}

/// One direction of a connection.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) link: Link,
    pub(super) direction: Direction,
    /// To the writer of the other direction.
    back: mpsc::UnboundedSender<Next>,
}

impl Way {
    /// Counts a message that will never arrive, and gives its sender what he needs to go on.
    pub(super) fn lose(&self, credit: Option<Arc<[u8]>>) {
        self.link.shared.change(|state| state.counts.flow_mut(self.direction).dropped += 1);
        self.refund(credit);
    }

    pub(super) fn refund(&self, credit: Option<Arc<[u8]>>) {
        if let Some(bytes) = credit {
            // A connection that ends needs none.
            let _ = self.back.send(Some((0, Order::Control(bytes))));
        }
    }
}

async fn carry(
    way: Way,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    orders: mpsc::UnboundedSender<Next>,
    queue: mpsc::UnboundedReceiver<Next>,
) {
    tokio::join!(read(&way, from, orders), write(&way, to, queue));
    way.link.shared.change(|state| state.forget(way.direction, way.link.number));
}

async fn read(way: &Way, mut from: OwnedReadHalf, orders: mpsc::UnboundedSender<Next>) {
    let Way { link, direction, .. } = way;
    let direction = *direction;
    let gone = match direction {
        Direction::ToServer => Cut::Client,
        Direction::ToClient => Cut::Both,
    };
    let mut fate = link.fate.subscribe();
    let mut buffer = Vec::new();
    let mut silent = false;
    loop {
        let more = tokio::select! {
            more = from.read_buf(&mut buffer) => more,
            fate = fate.wait_for(|fate| fate.cut >= gone) => {
                if fate.is_ok_and(|fate| fate.cut == Cut::Reset) {
                    let _ = from.as_ref().set_zero_linger();
                }
                break;
            }
        };
        if !matches!(more, Ok(1..)) {
            end_may_pass(link, direction, silent, &mut fate).await;
            break;
        }
        loop {
            let part = {
                let mut protocol = link.protocol();
                let taken = protocol::take(&mut **protocol, direction, &mut buffer);
                let Some(bytes) = taken else { break };
                protocol.part(direction, bytes)
            };
            let lane = part.lane;
            if let Some(order) = judge(way, part, &mut silent) {
                // The writer goes last; while there is a reader it is there.
                let _ = orders.send(Some((lane, order)));
            }
        }
    }
    let _ = orders.send(None);
}

/// Waits while the end of a stream is swallowed or kept back like everything else.
async fn end_may_pass(
    link: &Link,
    direction: Direction,
    silent: bool,
    fate: &mut watch::Receiver<Fate>,
) {
    let passes = link.shared.until(|state| {
        let action = state.standing[direction.index()];
        let passes = !matches!(action, Action::Hold | Action::Drop | Action::Silence);
        (passes && !silent).then_some(())
    });
    tokio::select! {
        () = passes => (),
        _ = fate.wait_for(|fate| fate.cut != Cut::No) => (),
    }
}

/// Decides of a part; `None` if it goes nowhere.
fn judge(way: &Way, part: Part, silent: &mut bool) -> Option<Order> {
    let Way { link, direction, .. } = way;
    let direction = *direction;
    let Part { bytes, lane, role, credit } = part;
    let paired = match role {
        Role::Message(paired) => paired,
        besides => {
            return link.shared.change(|state| {
                state.counts.flow_mut(direction).bytes += bytes.len() as u64;
                let standing = state.standing[direction.index()];
                *silent |= standing == Action::Silence;
                match besides {
                    _ if *silent => None,
                    Role::More => Some(Order::More(Parcel { bytes, credit })),
                    _ if standing == Action::Drop => None,
                    Role::Cancel => Some(Order::Cancel(bytes)),
                    _ => Some(Order::Control(bytes)),
                }
            });
        }
    };
    if paired.surplus {
        return None;
    }
    let order = link.shared.change(|state| {
        let number = state.arrived(direction, bytes.len());
        let message = Message {
            bytes: &bytes,
            direction,
            connection: link.number,
            number,
            request: paired.request.as_deref(),
            push: paired.push,
            stream: lane,
            command: paired.command.as_deref(),
            framing: link.framing,
        };
        let action = if *silent { Action::Silence } else { state.decide(&message) };
        let parcel = Parcel { bytes: bytes.clone(), credit: credit.clone() };
        match action {
            Action::Silence => {
                *silent = true;
                state.counts.flow_mut(direction).dropped += 1;
                None
            }
            Action::Cut => Some(Order::Cut(Arc::default())),
            Action::HalfClose => Some(Order::HalfClose),
            Action::Truncate(length) => Some(Order::Cut(bytes[..length.min(bytes.len())].into())),
            Action::Drop => Some(Order::Lost),
            _ if paired.unwanted => Some(Order::Lost),
            Action::Pass => Some(Order::Write(parcel)),
            Action::Hold => Some(Order::WriteWhen(state.hold(direction, link.number), parcel)),
            // Not in HTTP/2, where it would be a second message in the same call.
            Action::Duplicate if lane > 0 => Some(Order::Write(parcel)),
            Action::Duplicate => Some(Order::WriteTwice(parcel)),
            Action::Delay(delay) => Some(Order::WriteAt(after(delay), parcel)),
            Action::Jitter(least, most) => {
                Some(Order::WriteAt(after(between(least, most)), parcel))
            }
        }
    });
    if let Some(Order::Lost) = order {
        way.lose(credit);
    }
    order
}

fn after(delay: Duration) -> Instant {
    Instant::now() + delay
}

/// A time by chance.
fn between(least: Duration, most: Duration) -> Duration {
    // Each such state has other keys.
    let chance = RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64;
    least + most.saturating_sub(least).mul_f64(chance)
}

/// Closes further, never less.
pub(super) fn raise(fate: &mut Fate, to: Cut) -> bool {
    let more = fate.cut < to;
    fate.cut = to.max(fate.cut);
    more
}

impl Link {
    pub(super) fn protocol(&self) -> MutexGuard<'_, Box<dyn Protocol>> {
        self.protocol.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
