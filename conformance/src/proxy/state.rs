//! What the tasks of a proxy share: rules, counters, held messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};

use super::message::{Direction, Message};
use super::rule::{Action, Match};

/// What has gone through a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests.
    pub to_server: Flow,
    /// Answers and pushed messages.
    pub to_client: Flow,
    /// Connections so far that reached the server.
    pub accepted: u64,
    /// Connections that were closed at once, because the server was not there.
    pub in_vain: u64,
    /// Connections that are open now, on either side.
    pub open: usize,
}

/// What has gone in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flow {
    /// Messages that arrived at the proxy.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that were written on, a duplicated one once.
    pub delivered: u64,
    /// Messages that will never be: dropped, discarded, cut, or left over on a dead connection.
    pub dropped: u64,
    /// Messages that are held now; not those that wait behind them.
    pub held: usize,
}

impl Counts {
    /// One direction's.
    pub fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }

    pub(super) fn flow_mut(&mut self, direction: Direction) -> &mut Flow {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}

/// The state, and word of each change.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) standing: [Action; 2],
    pub(super) rules: Vec<Standing>,
    pub(super) counts: Counts,
    pub(super) links: BTreeMap<u64, watch::Sender<Fate>>,
    /// The last handle is gone.
    pub(super) closed: bool,
    held: [VecDeque<Held>; 2],
}

/// A rule in force.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) direction: Direction,
    pub(super) which: Match,
    pub(super) action: Action,
    pub(super) fired: Fired,
}

/// How often a rule took a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Fired(Arc<AtomicU64>);

impl Fired {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[derive(Debug)]
struct Held {
    link: u64,
    go: oneshot::Sender<Go>,
}

/// What becomes of a message that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    Deliver,
    Discard,
}

/// What the proxy did to a connection as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    pub(super) cut: Cut,
    /// By direction: its receiver was told that the stream has ended.
    pub(super) ended: [bool; 2],
}

/// How far a connection was closed by the proxy; each includes the ones before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cut {
    #[default]
    No,
    /// The client's side; what is under way to the server still arrives.
    Client,
    /// Both sides.
    Both,
    /// Both sides, with a reset.
    Reset,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A match that panicked changed nothing yet.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the state.
    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock())
    }

    /// Changes the state and wakes all that wait for something.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_waiters();
        result
    }

    /// Waits until this gives something.
    pub(super) async fn until<T>(&self, mut ready: impl FnMut(&State) -> Option<T>) -> T {
        loop {
            // Before the look: a change between the look and the wait must not be missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(result) = self.read(&mut ready) {
                return result;
            }
            changed.await;
        }
    }
}

impl State {
    /// Counts a message that has arrived.
    pub(super) fn arrived(&mut self, direction: Direction, bytes: usize) -> u64 {
        let flow = self.counts.flow_mut(direction);
        flow.messages += 1;
        flow.bytes += bytes as u64;
        flow.messages
    }

    /// What becomes of it.
    pub(super) fn decide(&mut self, message: &Message<'_>) -> Action {
        let direction = message.direction;
        let mut rules = self.rules.iter_mut().filter(|rule| rule.direction == direction);
        let Some(rule) = rules.find_map(|rule| rule.which.takes(message).then_some(rule)) else {
            return self.standing[direction.index()];
        };
        rule.fired.0.fetch_add(1, Ordering::SeqCst);
        let action = rule.action;
        self.rules.retain(|rule| !rule.which.spent());
        action
    }

    /// Notes a held message. The receiver tells when it may go.
    pub(super) fn hold(&mut self, direction: Direction, link: u64) -> oneshot::Receiver<Go> {
        let (go, gone) = oneshot::channel();
        self.held[direction.index()].push_back(Held { link, go });
        self.count_held();
        gone
    }

    /// Lets the oldest held messages go, at most `count`; says how many there were.
    pub(super) fn release(&mut self, direction: Direction, count: usize, go: Go) -> usize {
        let held = &mut self.held[direction.index()];
        let count = count.min(held.len());
        for held in held.drain(..count) {
            // Its connection may have ended just now; then it is dropped there.
            let _ = held.go.send(go);
        }
        self.count_held();
        count
    }

    /// Forgets what a dead direction of a connection holds.
    pub(super) fn forget(&mut self, direction: Direction, link: u64) {
        self.held[direction.index()].retain(|held| held.link != link);
        self.count_held();
    }

    fn count_held(&mut self) {
        for direction in Direction::BOTH {
            self.counts.flow_mut(direction).held = self.held[direction.index()].len();
        }
    }
}
