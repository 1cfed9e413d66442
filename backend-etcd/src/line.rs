//! The queue of one name as its waiters in this process see it.
//!
//! ```text
//!   opened --> [ entering ] -- the claim's own transaction told who is before it --> [ waiting ]
//!                  |                                                                  |     |
//!                  | events are kept until then                      the last one before|     | its own
//!                  +--------------------------------------------+   it was deleted      |     | key was
//!                                                               |                       v     v
//!                       the watch broke: nothing is known ----> [ unknown ]        [ first ] [ gone ]
//! ```
//!
//! *First* needs no reading: the watch was open before the claim entered, and tells all deletions
//! in order, its own included.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{BootClock, Clock, Instant, Owner};
use tokio::sync::{Notify, watch};

use crate::carrier::Carrier;

/// For how long a watch stays open that nobody waits on: to open it again costs a round trip.
const LINGERS: Duration = Duration::from_secs(10);

/// Which key of a name an event is about: what follows the name in it.
pub(crate) type Place = Box<[u8]>;

/// The waiters of this process for one name, and their watch.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) watched: watch::Sender<Watched>,
    slots: HashMap<Owner, Slot>,
    idle_since: Instant,
}

/// How far a watch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    No,
    /// Asked for, under this number.
    Asked(i64),
    /// Every event from now on comes.
    Yes(i64),
}

#[derive(Debug)]
struct Slot {
    woken: Arc<Notify>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// `proven` says that the watch was open before, so no event is missing.
    Entering {
        events: Vec<Event>,
        proven: bool,
    },
    /// `since` is the revision at which the store was seen so: what the watch tells of earlier
    /// times comes late, and is in it.
    Waiting {
        mine: Mine,
        before: HashSet<Place>,
        proven: bool,
        since: i64,
    },
    First(First),
    /// The key is gone, or nobody knows: the claim has to look.
    Unknown,
}

/// A claim's own key.
#[derive(Debug, Clone)]
pub(crate) struct Mine {
    pub(crate) created: i64,
    pub(crate) floor: u64,
    pub(crate) carrier: Carrier,
}

/// A claim that holds the name, and since which revision.
#[derive(Debug, Clone)]
pub(crate) struct First {
    pub(crate) mine: Mine,
    pub(crate) since: i64,
}

/// What happened to a key.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) revision: i64,
    pub(crate) place: Place,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Deleted,
    /// Written again: a name that was closed, or an operator's hand.
    Changed,
}

impl Line {
    pub(crate) fn new() -> Self {
        let watched = watch::Sender::new(Watched::No);
        Self { watched, slots: HashMap::new(), idle_since: BootClock.now() }
    }

    /// Opens the slot of a claim that is about to enter, or to look again.
    pub(crate) fn open(&mut self, owner: Owner) {
        let slot = self
            .slots
            .entry(owner)
            .or_insert_with(|| Slot { woken: Arc::default(), state: State::Unknown });
        let proven = matches!(*self.watched.borrow(), Watched::Yes(_));
        slot.state = State::Entering { events: Vec::new(), proven };
    }

    /// The same for one that is open already, once the line is watched.
    pub(crate) fn open_again(&mut self, owner: Owner) {
        if self.slots.contains_key(&owner) {
            self.open(owner);
        }
    }

    /// Closes a slot; says whether there was one.
    pub(crate) fn close(&mut self, owner: Owner) -> bool {
        let closed = self.slots.remove(&owner).is_some();
        if closed && self.slots.is_empty() {
            self.idle_since = BootClock.now();
        }
        closed
    }

    /// What wakes a slot.
    pub(crate) fn woken(&self, owner: Owner) -> Option<Arc<Notify>> {
        self.slots.get(&owner).map(|slot| slot.woken.clone())
    }

    /// Whether nobody has waited for so long that the watch may go.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.slots.is_empty() && now.since(self.idle_since) >= LINGERS
    }

    /// The claim's key stands in the store, at this revision of the store behind these.
    pub(crate) fn entered(
        &mut self,
        owner: Owner,
        mine: Mine,
        before: HashSet<Place>,
        revision: i64,
    ) {
        let Some(slot) = self.slots.get_mut(&owner) else { return };
        let (events, proven) = match std::mem::replace(&mut slot.state, State::Unknown) {
            State::Entering { events, proven } => (events, proven),
            // The watch broke meanwhile.
            _ => (Vec::new(), false),
        };
        slot.state = State::Waiting { mine, before, proven, since: revision };
        for event in events {
            slot.sees(owner, &event);
        }
    }

    /// The claim's own key, as far as it is known.
    pub(crate) fn mine(&self, owner: Owner) -> Option<&Mine> {
        match &self.slots.get(&owner)?.state {
            State::Waiting { mine, .. } | State::First(First { mine, .. }) => Some(mine),
            State::Entering { .. } | State::Unknown => None,
        }
    }

    /// Whether the claim holds the name: proven by a watch that is still open.
    pub(crate) fn first(&self, owner: Owner) -> Option<First> {
        if !matches!(*self.watched.borrow(), Watched::Yes(_)) {
            return None;
        }
        match &self.slots.get(&owner)?.state {
            State::First(first) => Some(first.clone()),
            _ => None,
        }
    }

    /// The watch tells.
    pub(crate) fn sees(&mut self, event: &Event) {
        for (owner, slot) in &mut self.slots {
            slot.sees(*owner, event);
        }
    }

    /// The watch broke: each waiter has to look.
    pub(crate) fn breaks(&mut self) {
        self.watched.send_replace(Watched::No);
        for slot in self.slots.values_mut() {
            slot.state = State::Unknown;
            slot.woken.notify_one();
        }
    }
}

impl Slot {
    fn sees(&mut self, owner: Owner, event: &Event) {
        let is_mine = |event: &Event| *event.place == *owner.to_string().as_bytes();
        match &mut self.state {
            State::Entering { events, .. } => events.push(event.clone()),
            State::Waiting { since, .. } if event.revision <= *since => {}
            State::Waiting { mine, before, proven, .. } => {
                if is_mine(event) {
                    self.state = State::Unknown;
                    self.woken.notify_one();
                } else if event.what == What::Changed {
                    // The holder has closed the name, or is no holder any more.
                    if before.len() == 1 && before.contains(&event.place) {
                        self.woken.notify_one();
                    }
                } else if before.remove(&event.place) && before.is_empty() {
                    self.state = match proven {
                        true => State::First(First { mine: mine.clone(), since: event.revision }),
                        false => State::Unknown,
                    };
                    self.woken.notify_one();
                }
            }
            State::First(_) if is_mine(event) => {
                self.state = State::Unknown;
                self.woken.notify_one();
            }
            State::First(_) | State::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Line, Mine, Place, Watched, What};
    use crate::carrier::Carrier;
    use leasehold_api::Owner;
    use std::collections::HashSet;

    fn place(owner: u128) -> Place {
        Owner::from_bits(owner).to_string().into_bytes().into()
    }

    fn before<const N: usize>(owners: [u128; N]) -> HashSet<Place> {
        owners.into_iter().map(place).collect()
    }

    fn deleted(revision: i64, owner: u128) -> Event {
        Event { revision, place: place(owner), what: What::Deleted }
    }

    fn mine(created: i64) -> Mine {
        Mine { created, floor: 1, carrier: Carrier::own_for_tests() }
    }

    /// A line with owner 9 in it, entered at revision 10 behind these.
    fn line<const N: usize>(behind: [u128; N]) -> (Line, Owner) {
        let (mut line, owner) = (Line::new(), Owner::from_bits(9));
        line.watched.send_replace(Watched::Yes(1));
        line.open(owner);
        line.entered(owner, mine(10), before(behind), 10);
        (line, owner)
    }

    fn is_woken(line: &Line, owner: Owner) -> bool {
        use futures_util::FutureExt;
        line.woken(owner).unwrap().notified().now_or_never().is_some()
    }

    #[test]
    fn the_last_deletion_before_it_makes_a_claim_the_first() {
        let (mut line, owner) = line([1, 2]);
        line.sees(&deleted(11, 2));
        assert!(line.first(owner).is_none() && !is_woken(&line, owner));
        line.sees(&deleted(12, 1));
        assert_eq!(line.first(owner).unwrap().since, 12);
        assert!(is_woken(&line, owner));
    }

    #[test]
    fn what_happened_while_it_entered_counts_by_revision() {
        let (mut line, owner) = (Line::new(), Owner::from_bits(9));
        line.watched.send_replace(Watched::Yes(1));
        line.open(owner);
        line.sees(&deleted(9, 1)); // before it entered: the transaction did not list it
        line.sees(&deleted(12, 2)); // after, and before its answer was read
        line.entered(owner, mine(10), before([2]), 10);
        assert_eq!(line.first(owner).unwrap().since, 12);
    }

    #[test]
    fn what_is_told_late_of_the_time_before_it_entered_does_not_count() {
        let (mut line, owner) = line([1, 2]);
        // 1 was deleted, and stood there again before this claim entered at 10.
        line.sees(&deleted(8, 1));
        line.sees(&deleted(11, 2));
        assert!(line.first(owner).is_none(), "1 is still before it");
    }

    #[test]
    fn its_own_deletion_is_no_grant() {
        let (mut line, owner) = line([1]);
        line.sees(&deleted(11, 9));
        assert!(is_woken(&line, owner), "it has to look");
        line.sees(&deleted(12, 1));
        assert!(line.first(owner).is_none());
        let (mut line, owner) = self::line([1]);
        line.sees(&deleted(11, 1));
        line.sees(&deleted(12, 9));
        assert!(line.first(owner).is_none(), "it was the first, and is no more");
    }

    #[test]
    fn a_broken_watch_proves_nothing() {
        let (mut line, owner) = line([1]);
        line.sees(&deleted(11, 1));
        line.breaks();
        assert!(line.first(owner).is_none() && is_woken(&line, owner));
        line.watched.send_replace(Watched::Yes(2));
        assert!(line.first(owner).is_none(), "what was known is forgotten");
    }

    #[test]
    fn a_watch_that_opened_after_the_claim_entered_proves_nothing() {
        let (mut line, owner) = (Line::new(), Owner::from_bits(9));
        line.open(owner);
        line.entered(owner, mine(10), before([1]), 10);
        line.watched.send_replace(Watched::Yes(1));
        // Its own key may have gone before the watch was there.
        line.sees(&deleted(12, 1));
        assert!(line.first(owner).is_none() && is_woken(&line, owner));
    }

    #[test]
    fn a_watch_that_broke_while_the_claim_entered_proves_nothing() {
        let (mut line, owner) = (Line::new(), Owner::from_bits(9));
        line.watched.send_replace(Watched::Yes(1));
        line.open(owner);
        line.breaks();
        line.watched.send_replace(Watched::Yes(2));
        line.entered(owner, mine(10), before([1]), 10);
        line.sees(&deleted(12, 1));
        assert!(line.first(owner).is_none());
    }

    #[test]
    fn a_changed_key_wakes_the_next_in_line_only() {
        let (mut line, owner) = line([1, 2]);
        let changed = |revision| Event { revision, place: place(1), what: What::Changed };
        line.sees(&changed(11));
        assert!(!is_woken(&line, owner));
        line.sees(&deleted(12, 2));
        line.sees(&changed(13));
        assert!(is_woken(&line, owner));
        assert!(line.first(owner).is_none());
    }
}
