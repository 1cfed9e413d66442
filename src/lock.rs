//! One named lock and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{Claim, Error, LockName, Metadata, Operation, Owner};

use crate::acquire;
use crate::client::Lifeline;
use crate::guard::Guard;
use crate::queue::Waiter;
use crate::terms::Wishes;

/// A named lock, not yet held. Setters don't fail; each acquire checks all of them before
/// anything is sent. It can be used for many acquisitions, and cloned.
///
/// Not re-entrant: a task that asks for a lock it holds waits like anyone.
#[must_use = "a lock does nothing until it is acquired"]
#[derive(Clone)]
pub struct Lock {
    client: Arc<Lifeline>,
    name: LockName,
    wishes: Wishes,
}

impl Lock {
    pub(crate) fn new(client: Arc<Lifeline>, name: LockName) -> Self {
        let wishes = client.defaults.clone();
        Self { client, name, wishes }
    }

    /// How long a lease lasts without renewal, by the store's clock; rounded up to a
    /// millisecond. Default 30 s, from the driver's floor to 30 days. A crashed holder blocks
    /// others for so long. At least three times the slowest round trip to the store: an answer to
    /// a claim that takes longer than a third of it is not waited for.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.wishes.ttl = ttl;
        self
    }

    /// How long [`acquire`](Lock::acquire) waits, by the client's clock. Default 30 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wishes.wait = wait;
        self
    }

    /// Keeps the name closed at its release for the rest of `min_hold` since the grant: for short
    /// jobs on skewed schedules. After a crash only the TTL protects, so set a TTL of at least
    /// as much. While it is closed nobody holds it: others get `None`, or `NotAcquired` without a
    /// holder. Default none, at most 30 days.
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.wishes.min_hold = min_hold;
        self
    }

    /// The lock is lost just before `max_hold` since the grant, and released at it, also if its
    /// guard was forgotten. Default none, at most 30 days.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.wishes.max_hold = Some(max_hold);
        self
    }

    /// Whether the lease is renewed for as long as the guard lives (the default), or simply ends.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.wishes.keep_alive = keep_alive;
        self
    }

    /// A text of at most 128 bytes that tells people who holds it.
    pub fn label(mut self, label: &str) -> Self {
        self.wishes.label = Some(label.to_owned());
        self
    }

    /// What is locked.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Acquires without waiting: `None` if somebody else holds it (or its `min_hold` closes it), or
    /// another task of this client holds it or waits for it. Ends within a third of the TTL, at
    /// most 5 s. Keep the guard: `let Some(guard) = lock.try_acquire().await? else { return };`
    ///
    /// # Errors
    ///
    /// `BadInput` for an option outside its limits; `Unreachable`, `Auth`, `Refused`,
    /// `NotPrimary`, `Busy` or `Indeterminate` from the backend; `TooLate` for a grant that was
    /// over when it came; `Closed`; `Forked`.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, what it may have left in the store is freed in the background.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        let waiter = self.waiter()?;
        acquire::try_once(&self.client, waiter).await.map_err(|error| error.with_lock(&self.name))
    }

    /// Acquires, waiting for the lock's own [`wait`](Lock::wait).
    ///
    /// # Errors
    ///
    /// As [`acquire_within`](Lock::acquire_within).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_within`](Lock::acquire_within).
    pub async fn acquire(&self) -> Result<Guard, Error> {
        self.acquire_within(self.wishes.wait).await
    }

    /// Acquires, waiting for at most `wait` by the client's clock. A wait of zero asks once.
    ///
    /// Tasks of one client get a name in the order in which they asked. While the backend can't
    /// be reached or is busy, it is asked again until the wait ends. A grant that was over when it
    /// came is released, and the task enters the line anew.
    ///
    /// # Errors
    ///
    /// `NotAcquired`, with the last holder, if the wait ends while somebody else holds it; else
    /// as [`try_acquire`](Lock::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, it leaves the queue, and what it may have left in the store is freed
    /// in the background: no lock, no queue place.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Guard, Error> {
        self.wait_for(Some(wait)).await
    }

    /// Acquires, waiting without limit; also for a backend that can't be reached.
    ///
    /// # Errors
    ///
    /// As [`acquire_within`](Lock::acquire_within), but never `NotAcquired`.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_within`](Lock::acquire_within).
    pub async fn acquire_unbounded(&self) -> Result<Guard, Error> {
        self.wait_for(None).await
    }

    async fn wait_for(&self, wait: Option<Duration>) -> Result<Guard, Error> {
        let waiter = self.waiter()?;
        let acquired = acquire::acquire(&self.client, waiter, wait).await;
        acquired.map_err(|error| error.with_lock(&self.name))
    }

    fn waiter(&self) -> Result<Waiter, Error> {
        self.client.check_usable(Operation::Acquire)?;
        let profile = self.client.backend.profile();
        let terms = self.wishes.check(profile.backend, profile.ttl_floor)?;
        self.client.note_ttl(terms.ttl);
        let mut metadata = Metadata::of_this_process();
        metadata.host = self.client.host.clone();
        metadata.label = terms.label.clone();
        let claim = Claim::new(self.name.clone(), Owner::random(), terms.ttl)
            .with_metadata(metadata)
            .with_keep_alive(terms.keep_alive);
        Ok(Waiter::new(claim, terms))
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.name).field("wishes", &self.wishes).finish()
    }
}
