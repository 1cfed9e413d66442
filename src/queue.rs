//! The local queue: one line a name, first in, first out. Only its head talks to the store.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_api::{Claim, LockName, Owner};
use tokio::sync::Notify;

use crate::held::Held;
use crate::terms::Terms;

/// After so many local hand-overs in a row the next one yields to other processes.
const IN_A_ROW: u32 = 16;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    lines: Mutex<HashMap<LockName, Line>>,
}

#[derive(Debug, Default)]
struct Line {
    holder: Option<Arc<Held>>,
    waiters: VecDeque<Place>,
    in_a_row: u32,
}

#[derive(Debug)]
struct Place {
    waiter: Arc<Waiter>,
    turn: Turn,
}

/// One acquisition under way.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) claim: Claim,
    pub(crate) terms: Terms,
    pub(crate) task: Option<tokio::task::Id>,
    moved: Notify,
}

/// What a waiter should do.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    /// Wait: others are before it, or a guard of this client holds the name.
    Parked,
    /// Wait: a hand-over with its claim is on its way.
    Pending,
    /// Talk to the store.
    Store {
        /// Its claim may have left something there.
        traces: bool,
        /// It stands in the store's wait list, with an open slot.
        queued: bool,
    },
    /// It holds the name.
    Granted(Arc<Held>),
}

impl Waiter {
    pub(crate) fn new(claim: Claim, terms: Terms) -> Self {
        Self { claim, terms, task: tokio::task::try_id(), moved: Notify::new() }
    }

    /// One that asks for the same.
    pub(crate) fn with_another_owner(&self) -> Self {
        let mut claim = self.claim.clone();
        claim.owner = Owner::random();
        Self::new(claim, self.terms.clone())
    }

    /// Ends when its turn may have changed.
    pub(crate) async fn moved(&self) {
        self.moved.notified().await;
    }
}

impl Line {
    /// Sends the head to the store, if nobody of this client holds the name.
    fn promote(&mut self) {
        if self.holder.is_none()
            && let Some(head) = self.waiters.front_mut()
            && matches!(head.turn, Turn::Parked)
        {
            head.turn = Turn::Store { traces: false, queued: false };
            head.waiter.moved.notify_one();
        }
    }

    fn position(&self, owner: Owner) -> Option<usize> {
        self.waiters.iter().position(|place| place.waiter.claim.owner == owner)
    }
}

impl Queue {
    /// No step panics half way, so a poisoned queue is still whole.
    fn lines(&self) -> MutexGuard<'_, HashMap<LockName, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stands in line. Answers the holder of this client, if there is one.
    pub(crate) fn enter(&self, waiter: &Arc<Waiter>) -> Option<Arc<Held>> {
        let mut lines = self.lines();
        let line = lines.entry(waiter.claim.name.clone()).or_default();
        line.waiters.push_back(Place { waiter: waiter.clone(), turn: Turn::Parked });
        line.promote();
        line.holder.clone()
    }

    /// Whether nobody of this client holds the name or waits for it.
    pub(crate) fn is_empty(&self, name: &LockName) -> bool {
        !self.lines().contains_key(name)
    }

    /// Who of this client holds the name.
    pub(crate) fn holder(&self, name: &LockName) -> Option<Arc<Held>> {
        self.lines().get(name)?.holder.clone()
    }

    /// What `waiter` should do.
    pub(crate) fn turn(&self, waiter: &Waiter) -> Turn {
        let lines = self.lines();
        let line = lines.get(&waiter.claim.name).expect("a waiter keeps its line");
        let at = line.position(waiter.claim.owner).expect("a waiter keeps its place");
        line.waiters[at].turn.clone()
    }

    /// Leaves the line, and answers what the turn was.
    pub(crate) fn leave(&self, waiter: &Waiter) -> Turn {
        let mut lines = self.lines();
        let name = &waiter.claim.name;
        let line = lines.get_mut(name).expect("a waiter keeps its line");
        let at = line.position(waiter.claim.owner).expect("a waiter keeps its place");
        let place = line.waiters.remove(at).expect("its position was found just now");
        line.promote();
        remove_if_empty(&mut lines, name);
        place.turn
    }

    /// Makes a granted lease the holder; its waiter, if it has one, leaves the line.
    pub(crate) fn hold(&self, held: Arc<Held>) {
        let mut lines = self.lines();
        let line = lines.entry(held.lease.name.clone()).or_default();
        if let Some(at) = line.position(held.lease.owner) {
            line.waiters.remove(at);
        }
        line.in_a_row = 0;
        line.holder = Some(held);
    }

    /// Takes the claim of the head, if it is parked behind this holder: it is pending then. Says
    /// whether this hand-over has to yield to other processes.
    pub(crate) fn next_after(&self, held: &Held) -> Option<(Arc<Waiter>, bool)> {
        let mut lines = self.lines();
        let line = lines.get_mut(&held.lease.name)?;
        if line.holder.as_ref()?.lease.owner != held.lease.owner {
            return None;
        }
        let head = line.waiters.front_mut().filter(|head| matches!(head.turn, Turn::Parked))?;
        head.turn = Turn::Pending;
        let yields = line.in_a_row >= IN_A_ROW;
        if yields {
            line.in_a_row = 0;
        }
        Some((head.waiter.clone(), yields))
    }

    /// Gives a handed-over lease to its waiter. `false` if the waiter has left: the lease is the
    /// holder all the same, for the caller to let go.
    pub(crate) fn deliver(&self, held: Arc<Held>) -> bool {
        let mut lines = self.lines();
        let line = lines.entry(held.lease.name.clone()).or_default();
        line.in_a_row += 1;
        line.holder = Some(held.clone());
        let Some(at) = line.position(held.lease.owner) else { return false };
        let place = &mut line.waiters[at];
        place.turn = Turn::Granted(held);
        place.waiter.moved.notify_one();
        true
    }

    /// This lease is over: the head goes to the store.
    pub(crate) fn vacate(&self, held: &Held) {
        clear_holder(&mut self.lines(), held);
    }

    /// This lease is over, and the hand-over to `pending` did not bring a grant: it goes to the
    /// store, where its claim may be; with `queued` it stands in the wait list there. `false` if
    /// it has left the line: then nobody else frees what its claim has there.
    pub(crate) fn send_to_store(&self, held: &Held, pending: &Waiter, queued: bool) -> bool {
        let mut lines = self.lines();
        let line = lines.get_mut(&held.lease.name);
        let at = line.as_deref().and_then(|line| line.position(pending.claim.owner));
        if let (Some(line), Some(at)) = (line, at) {
            line.waiters[at].turn = Turn::Store { traces: true, queued };
            pending.moved.notify_one();
        }
        clear_holder(&mut lines, held);
        at.is_some()
    }
}

fn clear_holder(lines: &mut HashMap<LockName, Line>, held: &Held) {
    let name = &held.lease.name;
    let Some(line) = lines.get_mut(name) else { return };
    if line.holder.as_ref().is_some_and(|holder| holder.lease.owner == held.lease.owner) {
        line.holder = None;
        line.promote();
    }
    remove_if_empty(lines, name);
}

fn remove_if_empty(lines: &mut HashMap<LockName, Line>, name: &LockName) {
    if lines.get(name).is_some_and(|line| line.holder.is_none() && line.waiters.is_empty()) {
        lines.remove(name);
    }
}
