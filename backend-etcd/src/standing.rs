//! What this client may have in the store: every owner that it sent a claim for, until a release
//! of it was confirmed.
//!
//! On a shared lease a key outlives its TTL for as long as somebody renews another lock of that
//! lease. So the TTL of each claim is kept here, by this client's own clock: what nobody has
//! renewed or asked for again by then is given back (`reaper.rs`). What is on a lease of its own
//! ends by itself, and is given back all the same: an attempt of the same owner may have joined a
//! shared one, and what is kept of it here has to go.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use leasehold_api::{BootClock, Clock, Instant, LockName, Owner, Ticket};

/// How long after its TTL a claim is given back: its own clean-up comes first.
const GRACE: Duration = Duration::from_millis(100);

/// How long after an attempt that failed the next is made.
const AGAIN: Duration = Duration::from_secs(1);

/// No attempt to give something back is waited for any longer: its task may have ended.
const REAPED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Standing(Mutex<HashMap<Owner, Entry>>);

#[derive(Debug)]
struct Entry {
    name: LockName,
    until: Instant,
    /// It may be on a lease of its own.
    own: bool,
    /// It was released by owner: a call of this owner that is still under way sends no more.
    given_up: bool,
    /// Until when the reaper may be giving it back.
    reaped_until: Option<Instant>,
}

impl Standing {
    /// A claim goes out, or is asked for again; not while it is being given back, as then what it
    /// gets could be taken from it: says whether it may.
    pub(crate) fn claims(&self, owner: Owner, name: &LockName, until: Instant) -> bool {
        let mut entries = self.entries();
        let entry = entries.entry(owner).or_insert_with(|| Entry {
            name: name.clone(),
            until,
            own: false,
            given_up: false,
            reaped_until: None,
        });
        if entry.reaped_until.is_some_and(|reaped| BootClock.now() < reaped) {
            return false;
        }
        entry.until = entry.until.max(until);
        entry.given_up = false;
        true
    }

    /// The reaper is through with it, if only for now.
    pub(crate) fn was_reaped(&self, owner: Owner) {
        if let Some(entry) = self.entries().get_mut(&owner) {
            entry.reaped_until = None;
        }
    }

    /// A release by owner begins.
    pub(crate) fn gives_up(&self, owner: Owner) {
        if let Some(entry) = self.entries().get_mut(&owner) {
            entry.given_up = true;
        }
    }

    /// Whether a call of this owner that is under way must send no more.
    pub(crate) fn is_given_up(&self, owner: Owner) -> bool {
        self.entries().get(&owner).is_none_or(|entry| entry.given_up)
    }

    /// It goes out on a lease of its own.
    pub(crate) fn is_on_its_own(&self, owner: Owner) {
        if let Some(entry) = self.entries().get_mut(&owner) {
            entry.own = true;
        }
    }

    /// That lease has ended, and nothing can come to be on it.
    pub(crate) fn is_not_on_its_own(&self, owner: Owner) {
        if let Some(entry) = self.entries().get_mut(&owner) {
            entry.own = false;
        }
    }

    pub(crate) fn may_be_on_its_own(&self, owner: Owner) -> bool {
        self.entries().get(&owner).is_some_and(|entry| entry.own)
    }

    /// Its lock was renewed; says whether that comes before anybody began to give it back.
    pub(crate) fn renewed(&self, owner: Owner, until: Instant) -> bool {
        match self.entries().get_mut(&owner) {
            Some(entry) if !entry.given_up && entry.reaped_until.is_none() => {
                entry.until = entry.until.max(until);
                true
            }
            _ => false,
        }
    }

    /// Nothing of it is in the store, and nothing can come.
    pub(crate) fn is_over(&self, owner: Owner) {
        self.entries().remove(&owner);
    }

    /// What nobody cared for in time; each is answered once in a while until it is over.
    pub(crate) fn left_behind(&self, most: usize) -> Vec<Ticket> {
        let now = BootClock.now();
        let mut entries = self.entries();
        let is_late = |entry: &Entry| now >= entry.until.saturating_add(GRACE);
        let late = entries.iter_mut().filter(|(_, entry)| is_late(entry));
        let give_back = |(owner, entry): (&Owner, &mut Entry)| {
            entry.until = now.saturating_add(AGAIN);
            entry.reaped_until = Some(now.saturating_add(REAPED_WITHIN));
            Ticket::by_owner(entry.name.clone(), *owner)
        };
        late.take(most).map(give_back).collect()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Owner, Entry>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::Standing;
    use leasehold_api::{BootClock, Clock, LockName, Owner};
    use std::time::Duration;

    #[test]
    fn what_nobody_renewed_is_left_behind_and_asked_for_once_in_a_while() {
        let (standing, name) = (Standing::default(), LockName::new("a").unwrap());
        let [late, renewed, over] = [1, 2, 3].map(Owner::from_bits);
        let past = BootClock.now().saturating_sub(Duration::from_secs(1));
        for owner in [late, renewed, over] {
            standing.claims(owner, &name, past);
        }
        standing.renewed(renewed, BootClock.now().saturating_add(Duration::from_secs(60)));
        standing.is_over(over);
        let left = standing.left_behind(10);
        assert_eq!(left.iter().map(|ticket| ticket.owner).collect::<Vec<_>>(), [late]);
        assert!(standing.left_behind(10).is_empty(), "it is being given back");
        let until = BootClock.now().saturating_add(Duration::from_secs(60));
        assert!(standing.renewed(renewed, until) && !standing.renewed(late, until), "too late");
        assert!(!standing.claims(late, &name, until), "what it got would be given back");
        standing.was_reaped(late);
        assert!(standing.claims(late, &name, until));
    }

    #[test]
    fn what_was_given_up_or_is_over_sends_no_more_until_it_claims_again() {
        let (standing, name) = (Standing::default(), LockName::new("a").unwrap());
        let owner = Owner::from_bits(1);
        assert!(standing.is_given_up(owner), "it has not claimed");
        standing.claims(owner, &name, BootClock.now());
        assert!(!standing.is_given_up(owner));
        standing.gives_up(owner);
        assert!(standing.is_given_up(owner));
        standing.claims(owner, &name, BootClock.now());
        assert!(!standing.is_given_up(owner));
        standing.is_over(owner);
        assert!(standing.is_given_up(owner));
    }

    #[test]
    fn what_was_once_on_a_lease_of_its_own_is_left_behind_as_well() {
        let (standing, name) = (Standing::default(), LockName::new("a").unwrap());
        let owner = Owner::from_bits(1);
        standing.claims(owner, &name, BootClock.now().saturating_sub(Duration::from_secs(1)));
        // A later attempt may have joined a shared lease, which nothing ends.
        standing.is_on_its_own(owner);
        assert_eq!(standing.left_behind(10).len(), 1);
        assert!(standing.may_be_on_its_own(owner), "till that has ended");
        standing.is_not_on_its_own(owner);
        assert!(!standing.may_be_on_its_own(owner), "nothing is left to revoke");
    }
}
