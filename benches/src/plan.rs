//! How much is measured.

use std::time::Duration;

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How often limit and lock alternate.
    pub(crate) rounds: usize,
    /// How long either runs before it is the other's turn.
    pub(crate) slice: Duration,
    /// For how many tasks an uncontended pair is measured.
    pub(crate) tasks: Vec<usize>,
    /// For how many waiters a hand-over is measured.
    pub(crate) waiters: Vec<usize>,
    /// Over how many processes waiters are spread.
    pub(crate) processes: usize,
    /// How many locks are held, and their TTL.
    pub(crate) held: usize,
    pub(crate) ttl: Duration,
}

impl Plan {
    /// What the documented figures are measured by; about three minutes a server.
    #[must_use]
    pub fn full() -> Self {
        Self {
            rounds: 10,
            slice: Duration::from_millis(500),
            tasks: vec![1, 16, 256],
            waiters: vec![2, 16, 128],
            processes: 4,
            held: 10_000,
            ttl: Duration::from_secs(9),
        }
    }

    /// Enough to count by, in a few seconds; its times mean nothing.
    #[must_use]
    pub fn smoke() -> Self {
        Self {
            rounds: 1,
            slice: Duration::from_millis(100),
            tasks: vec![1, 16],
            waiters: vec![2, 16],
            processes: 2,
            held: 2560,
            ttl: Duration::from_secs(2),
        }
    }
}
