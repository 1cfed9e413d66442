//! The locks that this client holds, as far as a renewal or a release wants to know.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use leasehold_api::{BootClock, Clock, Instant, LockName, Loss, Owner, Token};

use crate::carrier::Carrier;
use crate::line::Watched;

/// When a held key comes under a watch: short holds cost none.
const WATCHED_AFTER: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct Holdings(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_owner: HashMap<Owner, Holding>,
    /// Who is to be watched, and when, the earliest first.
    due: VecDeque<(Instant, Owner)>,
}

/// A held lock.
#[derive(Debug, Clone)]
pub(crate) struct Holding {
    pub(crate) name: LockName,
    pub(crate) token: Token,
    /// The create revision of its key. Untouched since, it is the key's mod revision too.
    pub(crate) created: i64,
    /// Nothing happened to it up to this revision.
    pub(crate) since: i64,
    pub(crate) carrier: Carrier,
    pub(crate) watched: Watched,
    /// A release is under way: what happens to the key now is its doing.
    pub(crate) leaving: bool,
    pub(crate) lost: Option<Loss>,
}

impl Holdings {
    /// Notes a grant; says whether the watcher has to be told that somebody will be due, and which
    /// watch nobody needs any more, where the owner was granted it before.
    pub(crate) fn add(&self, owner: Owner, holding: Holding) -> (bool, Option<i64>) {
        let mut inner = self.inner();
        let first = inner.due.is_empty();
        inner.due.push_back((BootClock.now().saturating_add(WATCHED_AFTER), owner));
        let before = inner.by_owner.insert(owner, holding);
        (first, before.and_then(|holding| holding.watch()))
    }

    pub(crate) fn get(&self, owner: Owner) -> Option<Holding> {
        self.inner().by_owner.get(&owner).cloned()
    }

    /// Notes that a release goes out.
    pub(crate) fn leave(&self, owner: Owner) {
        if let Some(holding) = self.inner().by_owner.get_mut(&owner) {
            holding.leaving = true;
        }
    }

    /// It is over; answers the watch it was under.
    pub(crate) fn remove(&self, owner: Owner) -> Option<i64> {
        self.inner().by_owner.remove(&owner)?.watch()
    }

    /// All that a lease carries is lost; who did not know.
    pub(crate) fn lose_all_on(&self, lease: i64, loss: Loss) -> Vec<Owner> {
        let mut lost = Vec::new();
        for (owner, holding) in &mut self.inner().by_owner {
            if holding.carrier.lease() == lease && !holding.leaving && holding.lost.is_none() {
                holding.lost = Some(loss);
                lost.push(*owner);
            }
        }
        lost
    }

    /// A watch of this number is asked for, of what comes after `since`; says whether the lock is
    /// held at all.
    pub(crate) fn asked(&self, owner: Owner, id: i64, since: i64) -> bool {
        let mut inner = self.inner();
        let Some(holding) = inner.by_owner.get_mut(&owner) else { return false };
        holding.watched = Watched::Asked(id);
        holding.since = since;
        true
    }

    /// The watch of this number is open.
    pub(crate) fn opened(&self, owner: Owner, id: i64) {
        if let Some(holding) = self.inner().by_owner.get_mut(&owner)
            && holding.watched == Watched::Asked(id)
        {
            holding.watched = Watched::Yes(id);
        }
    }

    /// What the watch of this number is over.
    pub(crate) fn under(&self, owner: Owner, id: i64) -> Option<Holding> {
        self.get(owner).filter(|holding| holding.is_under(id))
    }

    /// The watch of this number told of a loss; says whether it is one nobody knew of.
    pub(crate) fn lose_by(&self, owner: Owner, id: i64, loss: Loss) -> bool {
        match self.inner().by_owner.get_mut(&owner) {
            Some(holding) if holding.is_under(id) && !holding.leaving && holding.lost.is_none() => {
                holding.lost = Some(loss);
                true
            }
            _ => false,
        }
    }

    /// The watches broke; all that were watched are due again.
    pub(crate) fn break_watches(&self) {
        let mut inner = self.inner();
        let Inner { by_owner, due } = &mut *inner;
        let now = BootClock.now();
        for (owner, holding) in by_owner {
            if holding.watched != Watched::No {
                holding.watched = Watched::No;
                due.push_front((now, *owner));
            }
        }
    }

    /// Whether somebody is to be watched by now, and when the next one is.
    pub(crate) fn peek_due(&self, now: Instant) -> (bool, Option<Instant>) {
        let mut inner = self.inner();
        let Inner { by_owner, due } = &mut *inner;
        while let Some((at, owner)) = due.front() {
            match by_owner.get(owner) {
                Some(holding) if holding.watched == Watched::No && holding.lost.is_none() => {
                    return (*at <= now, Some(*at));
                }
                _ => _ = due.pop_front(),
            }
        }
        (false, None)
    }

    /// Who is to be watched by now, and when the next one is.
    pub(crate) fn take_due(&self, now: Instant) -> (Vec<(Owner, Holding)>, Option<Instant>) {
        let mut inner = self.inner();
        let Inner { by_owner, due } = &mut *inner;
        let mut taken = Vec::new();
        while let Some((at, owner)) = due.front().copied() {
            match by_owner.get(&owner) {
                // Short holds are over by now; nobody is woken for them.
                None => {}
                Some(_) if at > now => return (taken, Some(at)),
                Some(holding) if holding.watched == Watched::No && holding.lost.is_none() => {
                    taken.push((owner, holding.clone()));
                }
                Some(_) => {}
            }
            due.pop_front();
        }
        (taken, None)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner().by_owner.is_empty()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

impl Holding {
    /// The watch it is under, or soon will be.
    fn watch(&self) -> Option<i64> {
        match self.watched {
            Watched::No => None,
            Watched::Asked(id) | Watched::Yes(id) => Some(id),
        }
    }

    fn is_under(&self, id: i64) -> bool {
        self.watch() == Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::{Holding, Holdings};
    use crate::carrier::Carrier;
    use crate::line::Watched;
    use leasehold_api::{LockName, Loss, Owner, Token};

    fn holding(created: i64) -> Holding {
        Holding {
            name: LockName::new("a").unwrap(),
            token: Token::new(created.unsigned_abs()).unwrap(),
            created,
            since: created,
            carrier: Carrier::own_for_tests(),
            watched: Watched::No,
            leaving: false,
            lost: None,
        }
    }

    #[test]
    fn a_watch_of_what_was_held_before_tells_nothing_of_what_is_held_now() {
        let (holdings, owner) = (Holdings::default(), Owner::from_bits(1));
        holdings.add(owner, holding(5));
        assert!(holdings.asked(owner, 7, 5));
        assert_eq!(holdings.remove(owner), Some(7));
        // Its cancellation is not done yet, and what it told has not been read yet.
        holdings.add(owner, holding(9));
        holdings.opened(owner, 7);
        assert_eq!(holdings.get(owner).unwrap().watched, Watched::No, "nobody watches it");
        assert!(!holdings.lose_by(owner, 7, Loss::Gone), "that was the one before");
        assert!(holdings.under(owner, 7).is_none());
        assert!(holdings.asked(owner, 8, 9));
        holdings.opened(owner, 8);
        assert_eq!(holdings.get(owner).unwrap().watched, Watched::Yes(8));
        assert!(holdings.under(owner, 8).is_some());
        assert!(holdings.lose_by(owner, 8, Loss::Gone));
        assert!(!holdings.lose_by(owner, 8, Loss::Gone), "it is known");
        assert_eq!(holdings.add(owner, holding(9)).1, Some(8), "found again, it is watched anew");
    }
}
