//! How the checks get at a backend, and at the store behind it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_api::{Backend, LockName, Token};

use crate::verdict::{Failure, Verdict};

/// A backend under test. One value of it, given to [`suite!`](crate::suite), runs all checks.
#[async_trait]
pub trait Subject: Send + Sync + 'static {
    /// Names the report.
    fn name(&self) -> &str;

    /// A store for one check.
    ///
    /// # Errors
    ///
    /// [`Failure::missing`] if there is no such store on this machine.
    ///
    /// # Cancel safety
    ///
    /// Must leave nothing behind when dropped.
    async fn store(&self, share: Share) -> Result<Box<dyn Store>, Failure>;

    /// On which clock its time passes.
    fn time(&self) -> Time {
        Time::Real
    }

    /// The TTL that the checks use: short, but long beside what a request takes.
    fn ttl(&self) -> Duration {
        match self.time() {
            Time::Real => Duration::from_millis(500),
            Time::Paused => Duration::from_secs(1),
        }
    }

    /// How late an expired lease may fall free, or a wake-up come, before a check calls it wrong.
    fn late(&self) -> Duration {
        match self.time() {
            Time::Real => Duration::from_millis(250),
            Time::Paused => Duration::from_millis(5),
        }
    }
}

/// On which clock a backend's time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// The machine's: checks run on a runtime of two threads.
    Real,
    /// Tokio's: checks run on one thread with the clock paused, so waiting takes no time.
    Paused,
}

/// Whether other checks may use the store at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// They may, under other names.
    Shared,
    /// This check will restart it, empty it, or use its tokens up.
    Private,
}

/// What a restart leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// All that was acknowledged.
    Kept,
    /// Nothing.
    Lost,
}

/// What the link between a client and the store does. A subject that has no such state says that
/// the check is not applicable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// Passes everything, also what was held before.
    Healthy,
    /// Resets what is open and refuses what is new.
    Refused,
    /// Swallows everything, without a reset.
    Blackholed,
    /// Delivers requests and swallows their answers.
    AnswersLost,
    /// Delivers requests and keeps their answers until it is healthy again.
    AnswersHeld,
    /// Keeps requests until it is healthy again.
    RequestsHeld,
    /// Delivers each request twice, and the answer to the first.
    RequestsDoubled,
    /// Is cut at a request: so many pass, the next is lost with its connection, later ones pass.
    CutAtRequest(u64),
    /// Is cut at an answer, likewise.
    CutAtAnswer(u64),
}

/// What a store says of a name, by other means than the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What is left of it; `None` is for ever.
    pub remaining: Option<Duration>,
    /// The token, where the record holds it.
    pub token: Option<Token>,
}

/// A store, and the ways to reach it.
///
/// Only [`connect`](Store::connect) is needed. Each other method is a hook: by default it answers
/// that it is not there, and the checks that need it show as not applicable, with that reason.
#[async_trait]
pub trait Store: Send + Sync {
    /// A fresh client, with connections of its own.
    ///
    /// # Errors
    ///
    /// What the driver's connect answers.
    ///
    /// # Cancel safety
    ///
    /// Must leave no connection behind when dropped: checks drop it at each await.
    async fn connect(&self) -> Result<Arc<dyn Backend>, Failure>;

    /// Restarts the store, and waits until it answers. Private stores only.
    ///
    /// # Errors
    ///
    /// Not applicable without this hook; else what went wrong.
    ///
    /// # Cancel safety
    ///
    /// No check drops it. It may be done half way then.
    async fn restart(&self, data: Data) -> Verdict {
        let _ = data;
        no_hook("restart")
    }

    /// Makes the store forget everything while it runs. Private stores only.
    ///
    /// # Errors
    ///
    /// Not applicable without this hook; else what went wrong.
    ///
    /// # Cancel safety
    ///
    /// No check drops it. It may be done half way then.
    async fn lose_data(&self) -> Verdict {
        no_hook("lose_data")
    }

    /// Deletes the record of a held name, as an operator might.
    ///
    /// # Errors
    ///
    /// Not applicable without this hook; else what went wrong.
    ///
    /// # Cancel safety
    ///
    /// No check drops it. It may be done half way then.
    async fn delete_record(&self, name: &LockName) -> Verdict {
        let _ = name;
        no_hook("delete_record")
    }

    /// Puts another owner's record, without an end, in the place of a held name's.
    ///
    /// # Errors
    ///
    /// Not applicable without this hook; else what went wrong.
    ///
    /// # Cancel safety
    ///
    /// No check drops it. It may be done half way then.
    async fn overwrite_record(&self, name: &LockName) -> Verdict {
        let _ = name;
        no_hook("overwrite_record")
    }

    /// What the store keeps as the record of a name, read by other means than the driver.
    ///
    /// # Errors
    ///
    /// Not applicable without this hook; else what went wrong.
    ///
    /// # Cancel safety
    ///
    /// It only reads: dropping it must have no effect.
    async fn record(&self, name: &LockName) -> Result<Option<Record>, Failure> {
        let _ = name;
        no_hook("record")
    }

    /// All that the store keeps of a name, read by other means than the driver; what many names
    /// share does not count.
    ///
    /// # Errors
    ///
    /// Not applicable without this hook; else what went wrong.
    ///
    /// # Cancel safety
    ///
    /// It only reads: dropping it must have no effect.
    async fn leftovers(&self, name: &LockName) -> Result<Vec<String>, Failure> {
        let _ = name;
        no_hook("leftovers")
    }

    /// How many connections are open to the store. Private stores only.
    ///
    /// # Errors
    ///
    /// Not applicable without this hook; else what went wrong.
    ///
    /// # Cancel safety
    ///
    /// It only reads: dropping it must have no effect.
    async fn connections(&self) -> Result<usize, Failure> {
        no_hook("connections")
    }

    /// A fresh client whose traffic passes the link that [`link`](Store::link) sets.
    ///
    /// # Errors
    ///
    /// Not applicable without this hook; else what the driver's connect answers.
    ///
    /// # Cancel safety
    ///
    /// As [`connect`](Store::connect).
    async fn connect_by_link(&self) -> Result<Arc<dyn Backend>, Failure> {
        no_hook("connect_by_link")
    }

    /// Sets what the link does from now on.
    ///
    /// # Errors
    ///
    /// Not applicable without this hook; else what went wrong.
    ///
    /// # Cancel safety
    ///
    /// No check drops it. It may be done half way then.
    async fn link(&self, link: Link) -> Verdict {
        let _ = link;
        no_hook("link")
    }
}

fn no_hook<T>(hook: &str) -> Result<T, Failure> {
    Err(Failure::not_applicable(format!("the subject has no hook `{hook}`")))
}
