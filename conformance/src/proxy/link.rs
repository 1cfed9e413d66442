//! One connection through the proxy.
//!
//! Each direction has a reader, which takes messages apart and decides of each as it arrives, and a
//! writer, which carries the decisions out in order. Between them is a queue without bound, so that
//! a held message stops neither the reader nor the sender.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::message::{Direction, Message};
use super::protocol::{self, Framing, Paired, Protocol};
use super::rule::Action;
use super::state::{Cut, Fate, Go, Shared};

/// What both directions of a connection know.
#[derive(Clone, Debug)]
struct Link {
    shared: Arc<Shared>,
    number: u64,
    framing: Framing,
    protocol: Arc<Mutex<Box<dyn Protocol>>>,
    fate: watch::Sender<Fate>,
}

/// What a writer has to do next.
#[derive(Debug)]
enum Order {
    Write(Arc<[u8]>),
    WriteTwice(Arc<[u8]>),
    WriteAt(Instant, Arc<[u8]>),
    WriteWhen(oneshot::Receiver<Go>, Arc<[u8]>),
    /// Write this much and close both sides.
    Cut(Arc<[u8]>),
    /// End the stream, and lose what comes after.
    HalfClose,
    /// The sender closed its side.
    End,
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
    tokio::join!(
        carry(link.clone(), Direction::ToServer, from_client, to_server),
        carry(link.clone(), Direction::ToClient, from_server, to_client),
    );
    link.shared.change(|state| {
        state.counts.open -= 1;
        state.links.remove(&link.number);
    });
}

async fn carry(link: Link, direction: Direction, from: OwnedReadHalf, to: OwnedWriteHalf) {
    let (orders, queue) = mpsc::unbounded_channel();
    tokio::join!(read(&link, direction, from, orders), write(&link, direction, to, queue));
    link.shared.change(|state| state.forget(direction, link.number));
}

async fn read(
    link: &Link,
    direction: Direction,
    mut from: OwnedReadHalf,
    orders: mpsc::UnboundedSender<Order>,
) {
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
            let Some(message) = protocol::take(&mut **link.protocol(), direction, &mut buffer)
            else {
                break;
            };
            // The writer goes last; while there is a reader it is there.
            let _ = orders.send(match judge(link, direction, message, &mut silent) {
                Some(order) => order,
                None => continue,
            });
        }
    }
    let _ = orders.send(Order::End);
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

/// Decides of a message; `None` if it goes nowhere.
fn judge(link: &Link, direction: Direction, bytes: Arc<[u8]>, silent: &mut bool) -> Option<Order> {
    let paired = match direction {
        Direction::ToClient => link.protocol().came(&bytes),
        Direction::ToServer => {
            let request = link.protocol().pairs().then(|| bytes.clone());
            Paired { request, ..Paired::default() }
        }
    };
    if paired.surplus {
        return None;
    }
    link.shared.change(|state| {
        let number = state.arrived(direction, bytes.len());
        let message = Message {
            bytes: &bytes,
            direction,
            connection: link.number,
            number,
            request: paired.request.as_deref(),
            push: paired.push,
            framing: link.framing,
        };
        let action = if *silent { Action::Drop } else { state.decide(&message) };
        let order = match action {
            Action::Pass => Order::Write(bytes),
            Action::Hold => Order::WriteWhen(state.hold(direction, link.number), bytes),
            Action::Duplicate => Order::WriteTwice(bytes),
            Action::Delay(delay) => Order::WriteAt(after(delay), bytes),
            Action::Jitter(least, most) => Order::WriteAt(after(between(least, most)), bytes),
            Action::Cut => Order::Cut(Arc::default()),
            Action::HalfClose => Order::HalfClose,
            Action::Truncate(length) => Order::Cut(bytes[..length.min(bytes.len())].into()),
            Action::Drop | Action::Silence => {
                *silent |= action == Action::Silence;
                state.counts.flow_mut(direction).dropped += 1;
                return None;
            }
        };
        Some(order)
    })
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

async fn write(
    link: &Link,
    direction: Direction,
    to: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Order>,
) {
    // The stream ends when its half is dropped.
    let ended = write_until_cut(link, direction, to, &mut queue).await;
    // A dead end: the rest is lost, but the reader goes on, so that the other side can finish.
    link.shared.change(|state| state.forget(direction, link.number));
    if ended {
        return;
    }
    while let Some(order) = queue.recv().await {
        if let Order::End = order {
            break;
        }
        link.shared.change(|state| {
            state.forget(direction, link.number);
            state.counts.flow_mut(direction).dropped += 1;
        });
    }
}

/// True if the stream was written to its end.
async fn write_until_cut(
    link: &Link,
    direction: Direction,
    mut to: OwnedWriteHalf,
    queue: &mut mpsc::UnboundedReceiver<Order>,
) -> bool {
    let gone = match direction {
        Direction::ToServer => Cut::Both,
        Direction::ToClient => Cut::Client,
    };
    let mut fate = link.fate.subscribe();
    let over = |fate: &Fate| fate.cut >= gone || fate.ended[direction.index()];
    tokio::select! {
        ended = obey(link, direction, &mut to, queue) => ended,
        fate = fate.wait_for(over) => {
            if fate.is_ok_and(|fate| fate.cut == Cut::Reset) {
                let _ = to.as_ref().set_zero_linger();
                // Dropping it would end the stream in good order first.
                to.forget();
            }
            false
        }
    }
}

/// Carries out orders; true after the last, false if the connection takes no more.
async fn obey(
    link: &Link,
    direction: Direction,
    to: &mut OwnedWriteHalf,
    queue: &mut mpsc::UnboundedReceiver<Order>,
) -> bool {
    while let Some(order) = queue.recv().await {
        let (bytes, copies) = match order {
            Order::Write(bytes) => (bytes, 1),
            Order::WriteTwice(bytes) => (bytes, 2),
            Order::WriteAt(when, bytes) => {
                sleep_until(when).await;
                (bytes, 1)
            }
            Order::WriteWhen(go, bytes) => match go.await {
                Ok(Go::Deliver) => (bytes, 1),
                _ => (bytes, 0),
            },
            Order::Cut(bytes) => {
                let _ = to.write_all(&bytes).await;
                link.shared.change(|state| state.counts.flow_mut(direction).dropped += 1);
                link.fate.send_if_modified(|fate| raise(fate, Cut::Both));
                return false;
            }
            Order::HalfClose => {
                link.shared.change(|state| state.counts.flow_mut(direction).dropped += 1);
                return false;
            }
            Order::End => {
                let _ = to.shutdown().await;
                return true;
            }
        };
        for copy in 0..copies {
            if direction == Direction::ToServer {
                // Before the write: the answer must not come first.
                link.protocol().asked(&bytes, copy > 0);
            }
            if to.write_all(&bytes).await.is_err() {
                link.shared.change(|state| state.counts.flow_mut(direction).dropped += 1);
                return false;
            }
        }
        link.shared.change(|state| match (copies, state.counts.flow_mut(direction)) {
            (0, flow) => flow.dropped += 1,
            (_, flow) => flow.delivered += 1,
        });
    }
    true
}

/// Closes further, never less.
pub(super) fn raise(fate: &mut Fate, to: Cut) -> bool {
    let more = fate.cut < to;
    fate.cut = to.max(fate.cut);
    more
}

impl Link {
    fn protocol(&self) -> MutexGuard<'_, Box<dyn Protocol>> {
        self.protocol.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
