//! What becomes of a call.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{Clock, ErrorKind};
use tokio::sync::watch;

use crate::subject::Time;

/// A verb of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// `acquire`
    Acquire,
    /// `renew`, also each lease of a `renew_all`
    Renew,
    /// `release`
    Release,
    /// `fencing_token`
    FencingToken,
    /// `raise_tokens`
    RaiseTokens,
    /// `wake`; it has no error, so an error is as good as never
    Wake,
    /// `hand_over`
    HandOver,
    /// `inspect`
    Inspect,
    /// `list`
    List,
    /// `evict`
    Evict,
}

/// What becomes of one call.
#[derive(Debug, Clone)]
pub enum Step {
    /// It takes effect and is answered.
    Ok,
    /// It is answered with an error.
    Error(ErrorKind, Effect),
    /// It is answered later.
    Late(Delay, Landing),
    /// It is answered later with an error, and takes no effect.
    LateError(Delay, ErrorKind),
    /// It is never answered.
    Never(Effect),
}

/// Whether a call takes effect that is not answered as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It takes effect at once.
    Done,
    /// It never does.
    Not,
}

/// When a late call takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// Before the delay: the answer is slow.
    Before,
    /// After the delay, unless the caller dropped the call meanwhile: it had not been sent.
    After,
    /// After the delay, whatever the caller does: it was on its way.
    Surely,
}

/// How late.
#[derive(Debug, Clone)]
pub enum Delay {
    /// By this much on the driver's clock.
    For(Duration),
    /// Until the gate is opened.
    Until(Gate),
    /// By this much, in which nothing else of this thread moves either, as after a suspend. On
    /// paused time the clock jumps.
    Frozen(Duration, Time),
}

/// A gate that calls wait at. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets all pass, those that wait and those to come.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Ends when the gate is open.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn passed(&self) {
        // No error: the gate holds its own sender.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl Delay {
    pub(super) async fn passes(&self, clock: &dyn Clock) {
        match self {
            Self::For(time) => clock.sleep_until(clock.now().saturating_add(*time)).await,
            Self::Until(gate) => gate.passed().await,
            Self::Frozen(time, kind) => {
                // Whoever bounds the call has begun to count by then.
                tokio::task::yield_now().await;
                match kind {
                    Time::Paused => tokio::time::advance(*time).await,
                    Time::Real => std::thread::sleep(*time),
                }
            }
        }
    }
}
