//! The client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{Backend, Error, ErrorKind, LockName, Loss, Operation, Profile};
use tokio::sync::oneshot;

use crate::cleanup::Job;
use crate::client::Lifeline;
use crate::lock::Lock;
use crate::terms::Wishes;
use crate::trace;

/// A client of one backend. Cloning is cheap, and clones are the same client: one connection, two
/// background tasks, one line of waiters a name.
///
/// With the last of its handles (clients, locks, guards) gone, it finishes queued releases and
/// ends. [`close`](Locks::close) does that now and waits for it.
#[derive(Clone)]
pub struct Locks {
    client: Arc<Lifeline>,
}

impl Locks {
    /// A client of a driver's value, with the default TTL and wait of 30 s.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled: its background tasks live there.
    #[must_use]
    pub fn with_backend(backend: Arc<dyn Backend>) -> Self {
        Self::start(backend, Wishes::default())
    }

    pub(crate) fn start(backend: Arc<dyn Backend>, defaults: Wishes) -> Self {
        Self { client: crate::client::Client::start(backend, defaults) }
    }

    /// The lock of this name, with the client's defaults. Nothing is sent.
    ///
    /// # Errors
    ///
    /// `BadInput` for a name that is empty, over 512 bytes of UTF-8 or has a control character;
    /// `Closed`; `Forked`.
    pub fn lock(&self, name: &str) -> Result<Lock, Error> {
        self.client.check_usable(Operation::Configure)?;
        Ok(Lock::new(self.client.clone(), LockName::new(name)?))
    }

    /// What the backend, as configured, says of itself.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        self.client.backend.profile()
    }

    /// The driver, for operators' verbs: `inspect`, `list`, `evict`, `fencing_token`,
    /// `raise_tokens`. A lease acquired through it is nobody's guard.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.client.backend
    }

    /// Ends the client: its guards are told that they are lost (`Closed`) and are released, its
    /// waits end with `Closed`; then it waits for queued releases and one round of clean-up, at
    /// most min(longest TTL asked for, 10 s), by its clock. Later calls get `Closed`; a second
    /// close has nothing left to do.
    ///
    /// # Errors
    ///
    /// `Indeterminate` if not all of that was answered in time: what is left ends with its TTL.
    /// `Forked` in a forked child.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, the client is closed, and the releases go on in the background.
    pub async fn close(&self) -> Result<(), Error> {
        const LONGEST: Duration = Duration::from_secs(10);
        let client = &self.client;
        if client.is_forked() {
            return client.check_usable(Operation::Release);
        }
        if client.stop.is_cancelled() {
            return Ok(()); // an earlier close has done what could be done
        }
        client.closed.cancel();
        let leases = client.schedule.close();
        trace::closing(client, leases.len());
        for held in leases {
            held.lose(Loss::Closed);
            client.settle_loss(&held);
        }
        client.acquisitions.close();
        let limit = client.longest_ttl().unwrap_or(LONGEST).min(LONGEST);
        let done = async {
            // What they may have left is queued before they count as gone.
            client.acquisitions.wait().await;
            let (flush, flushed) = oneshot::channel();
            client.queue_job(Job::Flush(flush));
            // An error means that the cleaner is gone, and with it all that was queued.
            let _ = flushed.await;
            Ok(())
        };
        let outcome = client.bounded(Operation::Close, limit, done).await;
        client.stop.cancel();
        trace::closed(client, outcome.is_ok());
        outcome.map_err(|_| {
            let message = format!(
                "not all releases were answered within {limit:?}; what is left ends with its TTL"
            );
            let backend = client.backend.profile().backend;
            Error::new(ErrorKind::Indeterminate, Operation::Close, message).with_backend(backend)
        })
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("backend", &self.profile().backend)
            .field("closed", &self.client.closed.is_cancelled())
            .finish_non_exhaustive()
    }
}
