//! What `run` is asked for, checked before anything is sent.

use std::time::Duration;

use leasehold::{Error, Guard, Lock, LockName, Locks};
use leasehold_api::{BootClock, Clock, Label, Ttl};
use tokio::time::Instant;

use crate::args::Run;
use crate::channel::Limits;
use crate::exit::{Failure, USAGE};
use crate::target::Settings;
use crate::waiting::Patience;

/// What the command line and the configuration ask for, checked.
pub(crate) struct Plan {
    pub(crate) name: LockName,
    pub(crate) ttl: Duration,
    kill_after: Duration,
    min_hold: Option<Duration>,
    max_hold: Option<Duration>,
    label: Option<String>,
    pub(crate) patience: Patience,
}

impl Plan {
    /// Below that no command can be started and ended.
    const SHORTEST: Duration = Duration::from_secs(1);

    pub(crate) fn new(asked: &Run, settings: &Settings) -> Result<Self, Failure> {
        let file = &settings.config;
        let name =
            LockName::new(&asked.name).map_err(|error| Failure::from(error).with_status(USAGE))?;
        let ttl = asked.ttl.or(file.ttl).or_else(|| settings.of_url("ttl"));
        let ttl = ttl.unwrap_or(Duration::from_secs(30));
        if ttl < Self::SHORTEST || Ttl::new(ttl).is_err() {
            let message = format!("a TTL of {ttl:?} is not within 1 s to 30 days");
            return Err(settings.refuse(message, asked.ttl.is_some()));
        }
        let min_hold = asked.min_hold.or(file.min_hold);
        let max_hold = asked.max_hold.or(file.max_hold);
        let longest = Ttl::MAX.get();
        for (what, hold, of_a_flag) in [
            ("min-hold", min_hold, asked.min_hold.is_some()),
            ("max-hold", max_hold, asked.max_hold.is_some()),
        ] {
            if let Some(hold) = hold.filter(|hold| *hold > longest) {
                let message = format!("a {what} of {hold:?} is over 30 days");
                return Err(settings.refuse(message, of_a_flag));
            }
        }
        if let (Some(min), Some(max)) = (min_hold, max_hold)
            && min > max
        {
            let message = format!("min-hold {min:?} is over max-hold {max:?}");
            let of_a_flag = asked.min_hold.is_some() || asked.max_hold.is_some();
            return Err(settings.refuse(message, of_a_flag));
        }
        // The time in which the command may end by itself is part of what it has.
        let held = max_hold.unwrap_or(ttl).min(ttl);
        let kill_after = asked.kill_after.or(file.kill_after);
        let of_a_flag = asked.kill_after.is_some();
        let kill_after = kill_after.unwrap_or((held / 4).min(Duration::from_secs(10)));
        if kill_after > held / 2 {
            let message = format!(
                "kill-after {kill_after:?} is over half of the TTL {ttl:?}{}",
                max_hold.map(|max| format!(" or of max-hold {max:?}")).unwrap_or_default()
            );
            return Err(settings.refuse(message, of_a_flag || asked.ttl.is_some()));
        }
        let label = asked.label.clone().or_else(|| file.label.clone());
        if let Some(label) = &label {
            Label::new(label)
                .map_err(|error| settings.refuse(error.to_string(), asked.label.is_some()))?;
        }
        let wait = asked.wait.or(file.wait).or_else(|| settings.of_url("wait"));
        let patience = match wait {
            _ if asked.no_wait => Patience::None,
            // A wait without an end is none.
            Some(wait) => {
                Instant::now().checked_add(wait).map_or(Patience::Unlimited, Patience::Until)
            }
            None => Patience::Unlimited,
        };
        Ok(Self { name, ttl, kill_after, min_hold, max_hold, label, patience })
    }

    pub(crate) fn lock(&self, locks: &Locks) -> Result<Lock, Error> {
        let mut lock = locks.lock(self.name.as_str())?.ttl(self.ttl);
        if let Some(min_hold) = self.min_hold {
            lock = lock.min_hold(min_hold);
        }
        if let Some(max_hold) = self.max_hold {
            lock = lock.max_hold(max_hold);
        }
        if let Some(label) = &self.label {
            lock = lock.label(label);
        }
        Ok(lock)
    }

    /// What the guard's deadline means for the command: SIGTERM `kill_after` before it, SIGKILL so
    /// early that dying is over by it.
    pub(crate) fn limits(&self, guard: &Guard) -> Limits {
        // Read first: if this process is stopped in between, the deadline comes out too early.
        let now = BootClock.now();
        let deadline = now.saturating_add(guard.remaining());
        // A tenth of the TTL at most for the grace that is asked for, and a twentieth in any case.
        let most = (self.ttl / 10).min(Duration::from_millis(500)).min(self.kill_after / 2);
        let dying = most.max((self.ttl / 20).min(Duration::from_millis(250)));
        let kill = deadline.saturating_sub(dying);
        Limits::new(deadline.saturating_sub(self.kill_after).min(kill), kill)
    }
}
