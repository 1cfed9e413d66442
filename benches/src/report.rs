//! What was measured.

use std::time::Duration;

use crate::figures::median;
use crate::under::Kind;

/// What was measured.
#[derive(Debug)]
pub struct Report {
    /// The server.
    pub kind: Kind,
    /// Its name and version.
    pub version: String,
    /// The part of the processors' time that went to other virtual machines.
    pub stolen: f64,
    /// Uncontended pairs, by the number of tasks.
    pub pairs: Vec<Pair>,
    /// Hand-overs within a process, by the number of waiters.
    pub local: Vec<HandOver>,
    /// Over how many processes the others are spread.
    pub over: usize,
    /// Hand-overs over several processes, likewise.
    pub processes: Vec<HandOver>,
    /// Many held locks.
    pub held: Held,
}

/// What the raw limit and the lock did in turns.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    /// Of the limit, the median of its turns.
    pub limit: f64,
    /// Of the lock, likewise.
    pub lock: f64,
    /// The least and the most that a turn of the lock was of the limit's turn before it.
    pub between: (f64, f64),
}

impl Ratio {
    pub(crate) fn of(limit: &[f64], lock: &[f64]) -> Self {
        let each = limit.iter().zip(lock).map(|(limit, lock)| lock / limit);
        let between = each
            .fold((f64::MAX, f64::MIN), |(least, most), ratio| (ratio.min(least), ratio.max(most)));
        let (limit, lock) = (median(limit.iter().copied()), median(lock.iter().copied()));
        Self { limit, lock, between }
    }

    /// The lock's of the limit's.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.lock / self.limit
    }
}

/// Acquire and release of a name that nobody else wants.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// Tasks of one client, each with a name of its own.
    pub tasks: usize,
    /// Pairs a second.
    pub speed: Ratio,
    /// The client's processor time a pair, in seconds.
    pub processor: Ratio,
    /// Requests to the server a pair.
    pub requests: f64,
}

/// The same name from waiter to waiter.
#[derive(Debug, Clone, Copy)]
pub struct HandOver {
    /// Who wait, all together.
    pub waiters: usize,
    /// Hand-overs a second.
    pub speed: Ratio,
    /// Requests to the server a turn of the lock.
    pub requests: f64,
    /// Jain's index over the waiters' turns: raw limit, lock.
    pub fairness: (f64, f64),
    /// From one's letting go to the next one's having it, half and 99 in 100 of the lock's.
    pub gap: (Duration, Duration),
    /// The limit's, 99 in 100.
    pub limit_gap: Duration,
}

/// Many locks held by one client.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// How many.
    pub locks: usize,
    /// Renewed each third of it.
    pub ttl: Duration,
    /// Resident memory of the client a lock.
    pub bytes: usize,
    /// The server's, where it tells.
    pub server_bytes: Option<usize>,
    /// One round of renewals: raw limit, lock.
    pub round: (Duration, Duration),
    /// Requests a round.
    pub requests: f64,
    /// Requests a second that keep the guards alive.
    pub requests_per_second: f64,
    /// An acquire of another client, 99 in 100: alone; while raw rounds, and while the driver's,
    /// follow each other without a pause.
    pub bystander: (Duration, Duration, Duration),
}
