//! What the caller holds.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_api::{Error, Lease, LockName, Loss, Operation, Owner, Token};
use tokio_util::sync::CancellationToken;

use crate::cleanup::Job;
use crate::client::Lifeline;
use crate::held::{Held, Over};
use crate::release::let_go;

/// A held lock: keeps the lease alive, knows when it is lost, releases it.
///
/// Dropping it releases in the background: it never blocks and never panics, with or without a
/// runtime. Where the client's runtime is gone (also at the end of `main`), the lease ends with its
/// TTL: call [`release`](Guard::release), or [`Locks::close`](crate::Locks::close) at shutdown.
///
/// A guard that is forgotten (`std::mem::forget`, a leaked task) is renewed until its `max_hold`,
/// or until the client is closed.
#[must_use = "a dropped guard releases its lock: bind it to a name (`_guard`), not to `_`"]
pub struct Guard {
    client: Arc<Lifeline>,
    held: Arc<Held>,
}

impl Guard {
    pub(crate) fn new(client: Arc<Lifeline>, held: Arc<Held>) -> Self {
        Self { client, held }
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.held.lease
    }

    /// What is held.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.held.lease.name
    }

    /// The owner of this acquisition, as the store has it.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.held.lease.owner
    }

    /// The fencing token, to be passed with every write that the lock protects.
    ///
    /// No network: the deadline is compared with the clock.
    ///
    /// # Errors
    ///
    /// `Lost` once the lock is lost, with the reason; `Forked` in a forked child.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let locks = leasehold::connect("memory:").await?;
    /// let guard = locks.lock("order:1001")?.acquire().await?;
    /// assert!(guard.token()?.get() > 0);
    /// # guard.release().await
    /// # }
    /// ```
    pub fn token(&self) -> Result<Token, Error> {
        if self.client.is_forked() {
            self.client.check_usable(Operation::Hold)?;
        }
        match self.held.live(self.client.clock.now()) {
            Ok(_) => Ok(self.held.lease.token),
            Err(over) => Err(self.lost_error(Operation::Hold, over)),
        }
    }

    /// Whether it is held: before its deadline and not seen lost. No network. In a forked child
    /// it is not.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.client.is_forked() && self.held.live(self.client.clock.now()).is_ok()
    }

    /// Time until the deadline, by the client's clock; zero once lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let now = self.client.clock.now();
        if self.client.is_forked() {
            return Duration::ZERO;
        }
        self.held.live(now).map_or(Duration::ZERO, |deadline| deadline.since(now))
    }

    /// Ends when the lock is lost, and says why; no later than its deadline. It never ends for a
    /// lock that is kept.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn lost(&self) -> Loss {
        loop {
            match self.held.live(self.client.clock.now()) {
                Err(Over::Lost(loss)) => return loss,
                Err(Over::Ended) => std::future::pending().await,
                Ok(deadline) => tokio::select! {
                    () = self.held.lost().cancelled() => {}
                    () = self.client.clock.sleep_until(deadline) => {}
                },
            }
        }
    }

    /// A token that is cancelled when the lock is lost, to stop tasks that work under it. A
    /// release does not cancel it. It is cancelled by the client's worker, or by the first look
    /// of a guard method past the deadline.
    #[must_use]
    pub fn lost_token(&self) -> CancellationToken {
        self.held.lost().child_token()
    }

    /// Runs `work`, and stops it the moment the lock is lost: before each poll of it the deadline
    /// is compared with the clock. If the work ends in the poll in which the lock is lost, its
    /// output is returned; [`release`](Guard::release) then says `Lost`.
    ///
    /// # Errors
    ///
    /// `Lost` with the reason, the work having been dropped; `Forked` in a forked child.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work. The guard stays as it is.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        self.token()?;
        let mut lost = pin!(self.lost());
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            if let Poll::Ready(loss) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(self.lost_error(Operation::Hold, Over::Lost(loss))));
            }
            if let Err(over) = self.held.live(self.client.clock.now()) {
                return Poll::Ready(Err(self.lost_error(Operation::Hold, over)));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Gives the lock back, from the caller's task. From the first poll on the guard's lock
    /// counts as not held. A waiter of this client gets it in the same step.
    ///
    /// With a `min_hold` that is not over, the name stays closed for the rest of it.
    ///
    /// # Errors
    ///
    /// `Lost` if it was lost before, here or in the store. `Indeterminate` if the store does not
    /// answer within a third of the TTL (10 s at most), or what the backend says: the client then
    /// goes on freeing the name in the background until that is certain. `Forked` in a forked
    /// child.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, the release goes on in the background.
    pub async fn release(self) -> Result<(), Error> {
        if self.client.is_forked() {
            return self.client.check_usable(Operation::Release);
        }
        match self.held.end(self.client.clock.now()) {
            Ok(()) => {
                let released = let_go(&self.client, self.held.clone()).await;
                released.map_err(|error| error.with_lock(self.name()))
            }
            Err(over) => Err(self.lost_error(Operation::Release, over)),
        }
    }

    fn lost_error(&self, operation: Operation, over: Over) -> Error {
        let loss = match over {
            Over::Lost(loss) => loss,
            // Only a guard that is being consumed has an ended lease.
            Over::Ended => Loss::Gone,
        };
        let backend = self.client.backend.profile().backend;
        Error::lost(operation, loss).with_backend(backend).with_lock(self.name())
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = &self.held.lease;
        f.debug_struct("Guard")
            .field("name", &lease.name)
            .field("owner", &lease.owner)
            .field("token", &lease.token)
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.client.is_forked() {
            return;
        }
        if self.held.end(self.client.clock.now()).is_ok() {
            self.client.queue_job(Job::LetGo(self.held.clone()));
        }
    }
}
