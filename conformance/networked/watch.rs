//! Clients of the facade whose holds are recorded, for the checker of histories.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::{Guard, Locks};
use leasehold_api::{BootClock, Clock};
use leasehold_conformance::history::{Event, History, What};
use leasehold_conformance::{Failure, Verdict};

use crate::dice::Dice;

/// What all clients of a test saw.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    events: Vec<Event>,
    /// No two events have the same time.
    last: u64,
}

/// How a client works.
pub(crate) struct Work {
    pub(crate) client: usize,
    pub(crate) names: u64,
    pub(crate) ttl: Duration,
    /// The longest that it holds a lock.
    pub(crate) hold: Duration,
    pub(crate) until: tokio::time::Instant,
}

impl Watch {
    /// Acquires, holds and lets go until the time is over; says how many times, and how many of
    /// them were lost.
    pub(crate) async fn work(
        &self,
        locks: &Locks,
        work: Work,
        mut dice: Dice,
    ) -> Result<(usize, usize), Failure> {
        let (mut granted, mut lost) = (0, 0);
        while tokio::time::Instant::now() < work.until {
            let name = format!("name-{}", dice.below(work.names));
            let lock = locks.lock(&name)?.ttl(work.ttl);
            let asked = self.tick();
            let Ok(guard) = lock.acquire_within(2 * work.ttl).await else { continue };
            granted += 1;
            let until = self.granted(work.client, &guard, asked);
            let hold = dice.between(Duration::ZERO, work.hold);
            lost += usize::from(!self.hold(work.client, &guard, hold, until).await);
            if dice.below(4) == 0 {
                drop(guard);
            } else {
                let _ = guard.release().await;
            }
        }
        Ok((granted, lost))
    }

    /// What was seen can have been a lock.
    pub(crate) fn verdict(&self, label: &str) -> Verdict {
        History::new(self.seen().events.clone()).verdict(label)
    }

    fn granted(&self, client: usize, guard: &Guard, asked: u64) -> u64 {
        let owner = guard.owner().to_string();
        self.add_at(asked, client, guard, &owner, What::Claim);
        // A guard that is lost already tells no token, and was never believed in.
        let Ok(token) = guard.token() else { return 0 };
        let until = deadline(guard);
        let at = self.tick();
        self.add_at(at, client, guard, &owner, What::Granted { token: token.get(), until });
        until
    }

    /// Looks at it again and again; false if it was lost.
    async fn hold(&self, client: usize, guard: &Guard, time: Duration, mut until: u64) -> bool {
        let owner = guard.owner().to_string();
        let end = tokio::time::Instant::now() + time;
        let mut held = true;
        while held && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(3)).await;
            let next = deadline(guard);
            held = guard.is_held();
            if held && next > until {
                until = next;
                let at = self.tick();
                self.add_at(at, client, guard, &owner, What::Renewed { until });
            }
        }
        let at = self.tick();
        let what = if held { What::Release } else { What::Lost };
        self.add_at(at, client, guard, &owner, what);
        held
    }

    /// The time now, and no other event's.
    fn tick(&self) -> u64 {
        let mut seen = self.seen();
        seen.last = nanos(BootClock.now()).max(seen.last + 1);
        seen.last
    }

    fn add_at(&self, at: u64, client: usize, guard: &Guard, owner: &str, what: What) {
        let (name, owner) = (guard.name().to_string(), owner.to_owned());
        self.seen().events.push(Event { at, client, name, owner, what });
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn deadline(guard: &Guard) -> u64 {
    let now = BootClock.now();
    nanos(now.saturating_add(guard.remaining()))
}

fn nanos(instant: leasehold_api::Instant) -> u64 {
    u64::try_from(instant.since_origin().as_nanos()).unwrap_or(u64::MAX)
}
