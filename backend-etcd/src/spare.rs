//! Leases that were asked for and came to no use: each is ended, by the call that asked for it or,
//! where that was dropped or failed, by the reaper.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use leasehold_api::{BootClock, Clock, Instant, Owner};

use crate::carrier::OwnLease;

/// The leases that are to be ended.
#[derive(Debug, Default)]
pub(crate) struct Spares(Mutex<Vec<Unused>>);

/// A lease that nobody needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unused {
    pub(crate) id: i64,
    /// When it ends by itself.
    until: Instant,
}

/// A lease that is asked for, unused so far. Dropped so, it is to be ended.
#[derive(Debug)]
#[must_use = "dropped, it is to be ended"]
pub(crate) struct Spare<'a> {
    spares: &'a Spares,
    lease: Unused,
    may_be_used: bool,
}

impl Spares {
    /// A number for a lease of so many seconds, which is asked for from now on.
    pub(crate) fn ask(&self, seconds: i64) -> Spare<'_> {
        let id = OwnLease::number(Owner::random());
        let lasts = Duration::from_secs(seconds.unsigned_abs());
        let lease = Unused { id, until: BootClock.now().saturating_add(lasts) };
        Spare { spares: self, lease, may_be_used: false }
    }

    /// Those to be ended now.
    pub(crate) fn take(&self) -> Vec<Unused> {
        std::mem::take(&mut *self.unused())
    }

    /// It could not be ended, and is to be later, unless it ends by itself.
    pub(crate) fn put_back(&self, lease: Unused) {
        if BootClock.now() < lease.until {
            self.unused().push(lease);
        }
    }

    fn unused(&self) -> MutexGuard<'_, Vec<Unused>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

impl Spare<'_> {
    pub(crate) fn id(&self) -> i64 {
        self.lease.id
    }

    /// A request that puts something on it goes out.
    pub(crate) fn may_be_used(&mut self) {
        self.may_be_used = true;
    }

    /// That request did nothing.
    pub(crate) fn is_unused(&mut self) {
        self.may_be_used = false;
    }

    /// It is used, or has ended.
    pub(crate) fn keep(mut self) {
        self.may_be_used = true;
    }
}

impl Drop for Spare<'_> {
    fn drop(&mut self) {
        if !self.may_be_used {
            self.spares.unused().push(self.lease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spares;

    #[test]
    fn what_came_to_no_use_is_to_be_ended_until_it_ends_by_itself() {
        let spares = Spares::default();
        let unused = spares.ask(60).id();
        spares.ask(60).keep();
        let mut sent = spares.ask(60);
        sent.may_be_used();
        drop(sent);
        let mut refused = spares.ask(0);
        refused.may_be_used();
        refused.is_unused();
        let over = refused.id();
        drop(refused);
        let taken = spares.take();
        assert_eq!(taken.iter().map(|lease| lease.id).collect::<Vec<_>>(), [unused, over]);
        assert!(spares.take().is_empty());
        taken.into_iter().for_each(|lease| spares.put_back(lease));
        assert_eq!(spares.take().iter().map(|lease| lease.id).collect::<Vec<_>>(), [unused]);
    }
}
