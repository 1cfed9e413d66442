//! Clients of the facade whose holds are recorded, for the checker of histories.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold::{Guard, Locks};
use leasehold_api::{BootClock, Clock};
use leasehold_conformance::history::{Event, History, What};
use leasehold_conformance::{Failure, Verdict};

/// Within so long a waiter must have had its turn, whatever happens to one member of three.
const TURN: Duration = Duration::from_secs(20);

/// What all clients of a test saw.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    events: Vec<Event>,
    /// No two events have the same time.
    last: u64,
}

impl Watch {
    /// Acquires one name, holds it for a moment and releases it, until the time is over; says how
    /// many times. A wait that ends without the lock is a failure.
    pub(crate) async fn work(
        &self,
        client: usize,
        locks: &Locks,
        ttl: Duration,
        until: Instant,
    ) -> Result<usize, Failure> {
        let lock = locks.lock("a")?.ttl(ttl);
        let mut granted = 0;
        while Instant::now() < until {
            let asked = self.tick();
            let waits = lock.acquire_within(TURN).await;
            let guard = waits.map_err(|error| {
                Failure::failed(format!("client {client}, after {granted} grants: {error:?}"))
            })?;
            granted += 1;
            let until = self.granted(client, &guard, asked);
            self.hold(client, &guard, Duration::from_millis(5), until).await;
            let _ = guard.release().await; // one that is lost, or not answered
        }
        Ok(granted)
    }

    /// What was seen can have been a lock.
    pub(crate) fn verdict(&self, label: &str) -> Verdict {
        History::new(self.seen().events.clone()).verdict(label)
    }

    fn granted(&self, client: usize, guard: &Guard, asked: u64) -> u64 {
        self.add_at(asked, client, guard, What::Claim);
        // A guard that is lost already tells no token, and was never believed in.
        let Ok(token) = guard.token() else { return 0 };
        let until = deadline(guard);
        self.add_at(self.tick(), client, guard, What::Granted { token: token.get(), until });
        until
    }

    async fn hold(&self, client: usize, guard: &Guard, time: Duration, mut until: u64) {
        let end = Instant::now() + time;
        let mut held = guard.is_held();
        while held && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let next = deadline(guard);
            held = guard.is_held();
            if held && next > until {
                until = next;
                self.add_at(self.tick(), client, guard, What::Renewed { until });
            }
        }
        let what = if held { What::Release } else { What::Lost };
        self.add_at(self.tick(), client, guard, what);
    }

    /// The time now, and no other event's.
    fn tick(&self) -> u64 {
        let mut seen = self.seen();
        seen.last = nanos(BootClock.now()).max(seen.last + 1);
        seen.last
    }

    fn add_at(&self, at: u64, client: usize, guard: &Guard, what: What) {
        let (name, owner) = (guard.name().to_string(), guard.owner().to_string());
        self.seen().events.push(Event { at, client, name, owner, what });
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
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
