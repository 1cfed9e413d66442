//! What `run` is asked for, checked before anything is sent.

use std::time::Duration;

use leasehold::{Error, Guard, Lock, LockName, Locks};
use leasehold_api::{BootClock, Clock, Label, Ttl};
use tokio::time::Instant;

use crate::args::Run;
use crate::channel::Limits;
use crate::exit::{Failure, USAGE};
use crate::target::{Place, Settings};
use crate::waiting::Patience;

/// What the command line and the configuration ask for, checked.
pub(crate) struct Plan {
    pub(crate) name: LockName,
    pub(crate) ttl: Duration,
    ttl_stands_in: Place,
    kill_after: Duration,
    min_hold: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    label: Option<String>,
    pub(crate) patience: Patience,
}

const DAY: u64 = 24 * 60 * 60;

/// What a TTL and a max-hold may be.
const ALLOWED: &str = "allowed are 1 s to 30 days";

/// What wins, and where it stands: the command line, then the file, then the URL.
fn first<T>(flag: Option<T>, file: Option<T>, url: Option<T>) -> Option<(T, Place)> {
    flag.map(|value| (value, Place::Flag))
        .or_else(|| file.map(|value| (value, Place::File)))
        .or_else(|| url.map(|value| (value, Place::Url)))
}

/// As people write it.
fn shown(duration: Duration) -> String {
    match duration.as_secs() / DAY {
        // humantime would tell 31 days as a month and a rest.
        days @ 1.. if duration == Duration::from_secs(days * DAY) => format!("{days}days"),
        _ => humantime::format_duration(duration).to_string(),
    }
}

impl Plan {
    /// Below that no command can be started and ended.
    const SHORTEST: Duration = Duration::from_secs(1);

    pub(crate) fn new(asked: &Run, settings: &Settings) -> Result<Self, Failure> {
        let file = &settings.configured.client;
        let name =
            LockName::new(&asked.name).map_err(|error| Failure::from(error).with_status(USAGE))?;
        let ttl = first(asked.ttl, file.ttl, settings.of_url("ttl"));
        let (ttl, ttl_stands_in) = ttl.unwrap_or((Duration::from_secs(30), Place::Url));
        if ttl < Self::SHORTEST || Ttl::new(ttl).is_err() {
            return Err(settings.refuse(ttl_stands_in, "ttl", &shown(ttl), ALLOWED));
        }
        let min_hold = first(asked.min_hold, file.min_hold, None);
        let max_hold = first(asked.max_hold, file.max_hold, None);
        if let Some((min, place)) = min_hold.filter(|(min, _)| *min > Ttl::MAX.get()) {
            return Err(settings.refuse(
                place,
                "min_hold",
                &shown(min),
                "allowed are 0 s to 30 days",
            ));
        }
        let held = Self::SHORTEST..=Ttl::MAX.get();
        if let Some((max, place)) = max_hold.filter(|(max, _)| !held.contains(max)) {
            return Err(settings.refuse(place, "max_hold", &shown(max), ALLOWED));
        }
        if let (Some((min, min_in)), Some((max, max_in))) = (min_hold, max_hold)
            && min > max
        {
            let place = if max_in == Place::Flag { max_in } else { min_in };
            let why = format!("it is over max-hold, which is {}", shown(max));
            return Err(settings.refuse(place, "min_hold", &shown(min), &why));
        }
        let (min_hold, max_hold) = (min_hold.map(|(min, _)| min), max_hold.map(|(max, _)| max));
        // The time in which the command may end by itself is part of what it has.
        let held = max_hold.unwrap_or(ttl).min(ttl);
        let kill_after = first(asked.kill_after, settings.configured.kill_after, None);
        let (kill_after, place) =
            kill_after.unwrap_or(((held / 4).min(Duration::from_secs(10)), Place::Url));
        if kill_after > held / 2 {
            let of_a_flag = asked.ttl.is_some() || asked.max_hold.is_some();
            let place = if of_a_flag { Place::Flag } else { place };
            let mut why = format!("it is over half of the TTL, which is {}", shown(ttl));
            if let Some(max) = max_hold {
                why = format!("{why}, or of max-hold, which is {}", shown(max));
            }
            return Err(settings.refuse(place, "kill_after", &shown(kill_after), &why));
        }
        let label = first(asked.label.clone(), file.label.clone(), None);
        if let Some((label, place)) = &label {
            Label::new(label).map_err(|error| {
                let error = error.to_string();
                let why = error.strip_prefix("configure: ").unwrap_or(&error);
                settings.refuse(*place, "label", label, why)
            })?;
        }
        let label = label.map(|(label, _)| label);
        let wait = asked.wait.or(file.wait).or_else(|| settings.of_url("wait"));
        let patience = match wait {
            _ if asked.no_wait => Patience::None,
            // A wait without an end is none.
            Some(wait) => Instant::now()
                .checked_add(wait)
                .map_or(Patience::Unlimited, |end| Patience::Until(end, wait)),
            None => Patience::Unlimited,
        };
        Ok(Self { name, ttl, ttl_stands_in, kill_after, min_hold, max_hold, label, patience })
    }

    /// Refuses a TTL that is below what the server keeps.
    pub(crate) fn check(&self, locks: &Locks, settings: &Settings) -> Result<(), Failure> {
        let floor = locks.profile().ttl_floor;
        if self.ttl >= floor {
            return Ok(());
        }
        let why = format!("the lock server takes {} or more", shown(floor));
        Err(settings.refuse(self.ttl_stands_in, "ttl", &shown(self.ttl), &why))
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
