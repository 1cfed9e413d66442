//! Whether the lock is renewed, and since when it was not: what the guard's deadline tells.

use std::time::{Duration, SystemTime};

use leasehold::{Guard, LockName, Loss};
use leasehold_api::{BootClock, Clock, Instant, margin};

use crate::inspect::time;
use crate::output::say;
use crate::plan::Plan;

/// The renewals of one lock, seen from outside.
#[derive(Debug)]
pub(crate) struct Renewals {
    name: LockName,
    ttl: Duration,
    /// The max-hold, and the deadline beyond which no renewal leads because of it.
    max_hold: Option<(Duration, Instant)>,
    deadline: Instant,
    fail: bool,
}

impl Renewals {
    pub(crate) fn new(guard: &Guard, plan: &Plan) -> Self {
        let (name, ttl) = (plan.name.clone(), plan.ttl);
        let deadline = BootClock.now().saturating_add(guard.remaining());
        let max_hold = plan.max_hold.map(|max| {
            let of_ttl = ttl.saturating_sub(margin(ttl));
            let of_max = max.saturating_sub(margin(max.min(ttl)));
            let rest = of_max.saturating_sub(of_ttl.min(of_max));
            (max, deadline.saturating_add(rest))
        });
        Self { name, ttl, max_hold, deadline, fail: false }
    }

    /// Looks at the guard, and says when renewals begin to fail and when they succeed again.
    pub(crate) fn look(&mut self, guard: &Guard) {
        let left = guard.remaining();
        if left.is_zero() {
            return;
        }
        self.deadline = BootClock.now().saturating_add(left);
        // A renewal is due after a third of the TTL, and asked for again each twelfth.
        let fail = left < self.ttl / 2 && self.max_hold_if_over().is_none();
        if std::mem::replace(&mut self.fail, fail) != fail {
            let name = &self.name;
            match fail {
                true => say(&format!("renewals of `{name}` fail: none {}", self.unanswered())),
                false => say(&format!("renewals of `{name}` succeed again")),
            }
        }
    }

    /// Why the command had to end: by the loss that was seen, or without one by the time.
    pub(crate) fn why(&self, loss: Option<Loss>) -> String {
        match (loss, self.max_hold_if_over()) {
            (Some(Loss::MaxHold), _) | (Some(Loss::Deadline) | None, Some(_)) => {
                let max = self.max_hold.map(|(max, _)| max).unwrap_or_default();
                format!("--max-hold {} was over", humantime::format_duration(max))
            }
            (Some(Loss::Deadline) | None, None) => format!("no renewal {}", self.unanswered()),
            (Some(Loss::Gone), _) => {
                "it was evicted, or the server lost its data: its record is gone".to_owned()
            }
            (Some(Loss::TakenOver), _) => {
                "it was evicted or overwritten, or the server lost its data: somebody else has it"
                    .to_owned()
            }
            (Some(loss), _) => loss.to_string(),
        }
    }

    fn unanswered(&self) -> String {
        let answered = self.deadline.saturating_sub(self.ttl.saturating_sub(margin(self.ttl)));
        let ago = BootClock.now().since(answered);
        let at = SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH);
        format!("was answered since {}", time(at))
    }

    /// The max-hold, where the deadline is the one that comes of it.
    fn max_hold_if_over(&self) -> Option<Duration> {
        // The first deadline was read a moment after it was made.
        const SLACK: Duration = Duration::from_millis(20);
        let (max, last) = self.max_hold?;
        (self.deadline.saturating_add(SLACK) >= last).then_some(max)
    }
}
