//! What all handles of one client share, and the two workers that live with it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_api::{
    Backend, Clock, Error, ErrorKind, Instant, Lease, LockName, Loss, Operation, Owner, Ticket, Ttl,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cleanup::{self, Job};
use crate::held::{Held, Over};
use crate::keeper::{self, Schedule};
use crate::queue::Queue;
use crate::terms::Wishes;
use crate::trace;

/// No single request takes longer, however long the TTL: it is asked again then.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// What handles and workers share.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) queue: Queue,
    pub(crate) schedule: Schedule,
    pub(crate) defaults: Wishes,
    pub(crate) host: Arc<str>,
    /// Fires when the client is closed: waits end.
    pub(crate) closed: CancellationToken,
    /// Fires when the last handle is gone, or the client is closed: the workers finish.
    pub(crate) stop: CancellationToken,
    /// The acquisitions under way: a close waits until they have left.
    pub(crate) acquisitions: TaskTracker,
    jobs: mpsc::UnboundedSender<Job>,
    /// The longest TTL that was asked for, in milliseconds.
    longest_ttl: AtomicU64,
    warned_of_self_wait: AtomicBool,
    pid: u32,
}

/// A handle's share of a client: with the last one gone, the workers finish what is queued and
/// end.
#[derive(Debug)]
pub(crate) struct Lifeline(Arc<Client>);

impl Deref for Lifeline {
    type Target = Arc<Client>;

    fn deref(&self) -> &Arc<Client> {
        &self.0
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        if self.0.is_forked() {
            return; // the workers are the parent's
        }
        self.0.stop.cancel();
    }
}

impl Client {
    /// Starts the two workers on the current runtime.
    pub(crate) fn start(backend: Arc<dyn Backend>, defaults: Wishes) -> Arc<Lifeline> {
        // Panics here, as documented, and not in the workers.
        drop(tokio::time::sleep(Duration::ZERO));
        let (jobs, queued) = mpsc::unbounded_channel();
        let client = Arc::new(Self {
            clock: backend.clock(),
            backend,
            queue: Queue::default(),
            schedule: Schedule::default(),
            defaults,
            host: host_name(),
            closed: CancellationToken::new(),
            stop: CancellationToken::new(),
            acquisitions: TaskTracker::new(),
            jobs,
            longest_ttl: AtomicU64::new(0),
            warned_of_self_wait: AtomicBool::new(false),
            pid: std::process::id(),
        });
        trace::started(&client);
        tokio::spawn(keeper::run(client.clone(), client.backend.losses()));
        tokio::spawn(cleanup::run(client.clone(), queued));
        Arc::new(Lifeline(client))
    }

    /// Gives work to the cleaner. Without one (its runtime is gone) the TTL has to do.
    pub(crate) fn queue_job(&self, job: Job) {
        let Err(unsent) = self.jobs.send(job) else { return };
        match unsent.0 {
            Job::LetGo(held) => {
                self.schedule.remove(held.lease.owner);
                self.queue.vacate(&held);
                trace::nobody_frees(self, &held.lease.ticket());
            }
            Job::Free { ticket, .. } => trace::nobody_frees(self, &ticket),
            Job::Flush(_) => {} // nothing is left to wait for
        }
    }

    /// Frees in the background what an owner may have of a name, until that is certain.
    pub(crate) fn free(&self, name: LockName, owner: Owner, ttl: Ttl) {
        let ticket = Ticket::by_owner(name, owner);
        let not_before = self.clock.now();
        trace::cleaning_up(self, &ticket);
        self.queue_job(Job::Free { ticket, ttl, closed_until: None, not_before, expired: false });
    }

    /// The same for a lease that is over: from `not_before` on, and obeying its `min_hold`. By
    /// owner too: a claim of its that lands late has another token.
    pub(crate) fn free_held(&self, held: &Held, not_before: Instant) {
        let Lease { name, owner, ttl, .. } = &held.lease;
        let ticket = Ticket::by_owner(name.clone(), *owner);
        let closed_until = held.closed_until();
        let expired = matches!(held.live(not_before), Err(Over::Lost(Loss::Deadline)));
        trace::cleaning_up(self, &ticket);
        self.queue_job(Job::Free { ticket, ttl: *ttl, closed_until, not_before, expired });
    }

    /// How long a single request for a lease of `ttl` may take.
    pub(crate) fn limit(ttl: Ttl) -> Duration {
        (ttl.get() / 3).min(LONGEST_REQUEST)
    }

    /// What a lost lease leaves to do: the local queue moves on, the store is told. Done once for
    /// each lease, by who takes it off the schedule.
    pub(crate) fn settle_loss(&self, held: &Held) {
        let now = self.clock.now();
        // What a guard ended, its letting-go takes care of.
        let Err(Over::Lost(loss)) = held.live(now) else { return };
        trace::lost(self, &held.lease, loss);
        self.queue.vacate(held);
        match loss {
            // The store has said that nothing of it is left.
            Loss::Gone | Loss::TakenOver if !held.strays() => {}
            Loss::MaxHold => self.free_held(held, held.max_end().unwrap_or(now)),
            _ => self.free_held(held, now),
        }
    }

    /// Refuses to act in a forked child, or once closed.
    pub(crate) fn check_usable(&self, operation: Operation) -> Result<(), Error> {
        if self.is_forked() {
            let message = "this client belongs to the parent of this forked process; connect anew";
            return Err(Error::new(ErrorKind::Forked, operation, message));
        }
        if self.closed.is_cancelled() {
            return Err(self.closed_error(operation));
        }
        Ok(())
    }

    /// Notes that a lease of `ttl` is asked for.
    pub(crate) fn note_ttl(&self, ttl: Ttl) {
        self.longest_ttl.fetch_max(ttl.as_millis(), Ordering::Relaxed);
    }

    /// The longest TTL that was asked for, if any was.
    pub(crate) fn longest_ttl(&self) -> Option<Duration> {
        let millis = self.longest_ttl.load(Ordering::Relaxed);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Whether this is the first time that a task waits for itself.
    pub(crate) fn warns_of_self_wait(&self) -> bool {
        !self.warned_of_self_wait.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }

    pub(crate) fn closed_error(&self, operation: Operation) -> Error {
        Error::new(ErrorKind::Closed, operation, "the client was closed")
    }

    /// `call`, or `Indeterminate` after `limit`.
    pub(crate) async fn bounded<T>(
        &self,
        operation: Operation,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let end = self.clock.now().saturating_add(limit);
        tokio::select! {
            biased;
            answer = call => answer,
            () = self.clock.sleep_until(end) => {
                Err(self.unanswered(operation, limit))
            }
        }
    }

    pub(crate) fn unanswered(&self, operation: Operation, limit: Duration) -> Error {
        let message = format!("no answer within {limit:?}; it may have taken effect");
        let backend = self.backend.profile().backend;
        Error::new(ErrorKind::Indeterminate, operation, message).with_backend(backend)
    }
}

/// The host's name, for people to read; empty where the system doesn't tell.
fn host_name() -> Arc<str> {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    name.into()
}
