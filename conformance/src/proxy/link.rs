//! One connection through the proxy.
//!
//! Each direction has a reader, which takes messages apart and decides of each as it arrives, and a
//! writer, which carries the decisions out, in order within a lane: most protocols have one, and
//! HTTP/2 has one a stream. Between them is a queue without bound, so that a held message stops
//! neither the reader nor the sender.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::message::{Direction, Message};
use super::protocol::{self, Framing, Part, Protocol, Role};
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

/// What a writer has to do next, in a lane.
#[derive(Debug)]
enum Order {
    Write(Parcel),
    WriteTwice(Parcel),
    WriteAt(Instant, Parcel),
    WriteWhen(oneshot::Receiver<Go>, Parcel),
    /// The message is lost already.
    Lost,
    /// More of the last message.
    More(Parcel),
    /// What belongs to no message.
    Control(Arc<[u8]>),
    /// Takes the last message back.
    Cancel(Arc<[u8]>),
    /// Write this much and close both sides.
    Cut(Arc<[u8]>),
    /// End the stream, and lose what comes after.
    HalfClose,
}

/// Bytes, and what their sender must get if they are lost.
#[derive(Clone, Debug)]
struct Parcel {
    bytes: Arc<[u8]>,
    credit: Option<Arc<[u8]>>,
}

/// A writer's next order and its lane; `None` where the sender closed its side.
type Next = Option<(u32, Order)>;

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
struct Way {
    link: Link,
    direction: Direction,
    /// To the writer of the other direction.
    back: mpsc::UnboundedSender<Next>,
}

impl Way {
    /// Counts a message that will never arrive, and gives its sender what he needs to go on.
    fn lose(&self, credit: Option<Arc<[u8]>>) {
        self.link.shared.change(|state| state.counts.flow_mut(self.direction).dropped += 1);
        self.refund(credit);
    }

    fn refund(&self, credit: Option<Arc<[u8]>>) {
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

async fn write(way: &Way, to: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Next>) {
    let Way { link, direction, .. } = way;
    // The stream ends when its half is dropped.
    let ended = write_until_cut(way, to, &mut queue).await;
    // A dead end: the rest is lost, but the reader goes on, so that the other side can finish.
    link.shared.change(|state| state.forget(*direction, link.number));
    if ended {
        return;
    }
    while let Some(Some((_, order))) = queue.recv().await {
        link.shared.change(|state| {
            state.forget(*direction, link.number);
            if order.is_under_way() {
                state.counts.flow_mut(*direction).dropped += 1;
            }
        });
    }
}

/// True if the stream was written to its end.
async fn write_until_cut(
    way: &Way,
    mut to: OwnedWriteHalf,
    queue: &mut mpsc::UnboundedReceiver<Next>,
) -> bool {
    let Way { link, direction, .. } = way;
    let gone = match direction {
        Direction::ToServer => Cut::Both,
        Direction::ToClient => Cut::Client,
    };
    let mut fate = link.fate.subscribe();
    let over = |fate: &Fate| fate.cut >= gone || fate.ended[direction.index()];
    tokio::select! {
        ended = Writer::new(way, &mut to).obey(queue) => ended,
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

/// Carries orders out, lane by lane.
struct Writer<'a> {
    way: &'a Way,
    to: &'a mut OwnedWriteHalf,
    lanes: HashMap<u32, Lane>,
    /// What is held or delayed, at most one of each lane.
    waiting: FuturesUnordered<BoxFuture<'static, (u32, Go, Parcel)>>,
}

#[derive(Debug, Default)]
struct Lane {
    /// Its message waits; these wait behind it.
    behind: Option<VecDeque<Order>>,
    /// Its last message is lost.
    lost: bool,
    /// Its last message went on later than it came.
    late: bool,
}

/// The connection takes no more.
struct Stop;

impl<'a> Writer<'a> {
    fn new(way: &'a Way, to: &'a mut OwnedWriteHalf) -> Self {
        Self { way, to, lanes: HashMap::new(), waiting: FuturesUnordered::new() }
    }

    /// True after the last order, false if the connection takes no more.
    async fn obey(mut self, queue: &mut mpsc::UnboundedReceiver<Next>) -> bool {
        let mut ended = false;
        while !ended || !self.waiting.is_empty() {
            let done = tokio::select! {
                Some((lane, go, parcel)) = self.waiting.next(), if !self.waiting.is_empty() => {
                    self.go_on(lane, go, parcel).await
                }
                next = queue.recv(), if !ended => match next.flatten() {
                    Some((lane, order)) => self.take(lane, order).await,
                    None => {
                        ended = true;
                        Ok(())
                    }
                }
            };
            if let Err(Stop) = done {
                return false;
            }
        }
        if self.way.direction == Direction::ToServer {
            self.late_answers().await;
        }
        let _ = self.to.shutdown().await;
        true
    }

    /// Waits until what went on late is answered.
    async fn late_answers(&mut self) {
        let late = self.lanes.iter().filter(|(_, lane)| lane.late);
        let late: Vec<u32> = late.map(|(lane, _)| *lane).collect();
        let link = &self.way.link;
        link.shared
            .until(|_| {
                let protocol = link.protocol();
                late.iter().all(|lane| protocol.answered(*lane)).then_some(())
            })
            .await;
    }

    /// Carries an order out, unless something waits in its lane.
    async fn take(&mut self, lane: u32, order: Order) -> Result<(), Stop> {
        match self.lanes.get_mut(&lane).and_then(|lane| lane.behind.as_mut()) {
            Some(behind) => {
                behind.push_back(order);
                Ok(())
            }
            None => self.carry_out(lane, order).await,
        }
    }

    /// What waited may go, or never; then what is behind it.
    async fn go_on(&mut self, lane: u32, go: Go, parcel: Parcel) -> Result<(), Stop> {
        let state = self.lanes.entry(lane).or_default();
        let mut behind = state.behind.take().unwrap_or_default();
        state.lost = go == Go::Discard;
        state.late = go == Go::Deliver;
        match go {
            Go::Deliver => self.deliver(&parcel, 1).await?,
            Go::Discard => self.way.lose(parcel.credit),
        }
        while let Some(order) = behind.pop_front() {
            self.carry_out(lane, order).await?;
            if let Some(waiting) = self.lanes.get_mut(&lane).and_then(|lane| lane.behind.as_mut()) {
                waiting.append(&mut behind);
            }
        }
        Ok(())
    }

    async fn carry_out(&mut self, lane: u32, order: Order) -> Result<(), Stop> {
        if order.is_a_message() {
            let lost = matches!(order, Order::Lost);
            if lost || self.lanes.contains_key(&lane) {
                *self.lanes.entry(lane).or_default() = Lane { lost, ..Lane::default() };
            }
        }
        match order {
            Order::Write(parcel) => self.deliver(&parcel, 1).await,
            Order::WriteTwice(parcel) => self.deliver(&parcel, 2).await,
            Order::WriteAt(when, parcel) => {
                self.wait(lane, async move {
                    sleep_until(when).await;
                    (lane, Go::Deliver, parcel)
                });
                Ok(())
            }
            Order::WriteWhen(go, parcel) => {
                self.wait(lane, async move { (lane, go.await.unwrap_or(Go::Discard), parcel) });
                Ok(())
            }
            Order::Lost => Ok(()),
            Order::More(parcel) if self.is(lane, |lane| lane.lost) => {
                self.way.refund(parcel.credit);
                Ok(())
            }
            Order::Cancel(_) if self.is(lane, |lane| lane.late) => Ok(()),
            Order::Control(bytes) | Order::Cancel(bytes) | Order::More(Parcel { bytes, .. }) => {
                self.write(&bytes).await
            }
            Order::Cut(bytes) => {
                let _ = self.to.write_all(&bytes).await;
                self.way.lose(None);
                self.way.link.fate.send_if_modified(|fate| raise(fate, Cut::Both));
                Err(Stop)
            }
            Order::HalfClose => {
                self.way.lose(None);
                Err(Stop)
            }
        }
    }

    fn is(&self, lane: u32, what: impl Fn(&Lane) -> bool) -> bool {
        self.lanes.get(&lane).is_some_and(what)
    }

    fn wait(&mut self, lane: u32, until: impl Future<Output = (u32, Go, Parcel)> + Send + 'static) {
        self.lanes.entry(lane).or_default().behind = Some(VecDeque::new());
        self.waiting.push(until.boxed());
    }

    /// Writes a message this often.
    async fn deliver(&mut self, parcel: &Parcel, copies: usize) -> Result<(), Stop> {
        let Way { link, direction, .. } = self.way;
        for copy in 0..copies {
            if *direction == Direction::ToServer {
                // Before the write: the answer must not come first.
                link.protocol().asked(&parcel.bytes, copy > 0);
            }
            if let Err(stop) = self.write(&parcel.bytes).await {
                self.way.lose(None);
                return Err(stop);
            }
        }
        link.shared.change(|state| state.counts.flow_mut(*direction).delivered += 1);
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.to.write_all(bytes).await.map_err(|_| Stop)
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let behind = self.lanes.values().flat_map(|lane| lane.behind.iter().flatten());
        let left = behind.filter(|order| order.is_under_way()).count() as u64;
        let direction = self.way.direction;
        self.way.link.shared.change(|state| state.counts.flow_mut(direction).dropped += left);
    }
}

impl Order {
    /// Whether it is a message that has not been counted as lost.
    fn is_under_way(&self) -> bool {
        self.is_a_message() && !matches!(self, Self::Lost)
    }

    fn is_a_message(&self) -> bool {
        !matches!(self, Self::More(_) | Self::Control(_) | Self::Cancel(_))
    }
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
