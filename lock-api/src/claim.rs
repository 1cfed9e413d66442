//! What is asked of a driver, and what it answers.

use std::time::Duration;

use crate::lease::{Grant, Holder, Loss, Metadata, Owner, Token, Ttl, Validity};
use crate::name::LockName;

/// What is asked of a backend. Shared and counted locks will be a claim's mode.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Claim {
    /// What to lock.
    pub name: LockName,
    /// Who asks.
    pub owner: Owner,
    /// How long the lease lasts without renewal.
    pub ttl: Ttl,
    /// What the holder will tell people of itself.
    pub metadata: Metadata,
    /// Whether the lease will be renewed until it is released.
    pub keep_alive: bool,
    /// Whether to enter the store's wait list or queue if the name is held.
    pub queue: bool,
    /// The token must be strictly above this one.
    pub above: Option<Token>,
}

impl Claim {
    /// A claim that is kept alive and does not queue, with metadata of this process.
    #[must_use]
    pub fn new(name: LockName, owner: Owner, ttl: Ttl) -> Self {
        let metadata = Metadata::of_this_process();
        Self { name, owner, ttl, metadata, keep_alive: true, queue: false, above: None }
    }

    /// Sets what the holder tells of itself.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets whether the lease will be renewed.
    #[must_use]
    pub fn with_keep_alive(mut self, keep_alive: bool) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// Sets whether to queue.
    #[must_use]
    pub fn with_queue(mut self, queue: bool) -> Self {
        self.queue = queue;
        self
    }

    /// Sets what the token must be above.
    #[must_use]
    pub fn with_above(mut self, above: Option<Token>) -> Self {
        self.above = above;
        self
    }
}

/// The answer to an acquire. "Held by somebody else" is an answer, not an error.
#[derive(Debug, Clone)]
pub enum Acquired {
    /// The claim holds the name.
    Granted(Grant),
    /// Somebody else does, or the name is closed.
    Held {
        /// Who, where the store says.
        holder: Option<Holder>,
        /// When the name falls free if nobody renews it, by the store's clock.
        free_in: Option<Duration>,
    },
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease was re-armed to its TTL.
    Renewed(Validity),
    /// The lease is not mine any more; nothing was changed.
    NotMine(Loss),
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// `Ok` if a lease was released (or had been closed by the same ticket before), else why it
    /// was not mine.
    pub outcome: Result<(), Loss>,
    /// Whether no earlier request of this owner can still land.
    pub settled: bool,
}

/// The answer to a hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandedOver {
    /// The old lease is released and the claim holds the name.
    Granted(Grant),
    /// The old lease was not mine; nothing was changed.
    NotMine(Loss),
    /// The old lease is released; the claim is queued behind the others, one of whom was woken.
    Yielded,
}

/// For which names [`raise_tokens`](crate::Backend::raise_tokens) counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names<'a> {
    /// This name (others may be raised with it).
    One(&'a LockName),
    /// All names under the driver's prefix.
    All,
}
