//! The writing end of one direction: carries decisions out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::link::{Way, raise};
use super::message::Direction;
use super::state::{Cut, Fate, Go};

/// What a writer has to do next, in a lane.
#[derive(Debug)]
pub(super) enum Order {
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
pub(super) struct Parcel {
    pub(super) bytes: Arc<[u8]>,
    pub(super) credit: Option<Arc<[u8]>>,
}

/// A writer's next order and its lane; `None` where the sender closed its side.
pub(super) type Next = Option<(u32, Order)>;

/// Carries out what comes by the queue, until its sender or the connection ends.
pub(super) async fn write(way: &Way, to: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Next>) {
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
