//! Connecting and waiting for the lock.

use std::io::IsTerminal as _;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Holder, Lock, LockName, Locks};
use leasehold_api::Owner;
use tokio::time::Instant;

use crate::exit::{Failure, NOT_ACQUIRED, UNAVAILABLE};
use crate::inspect::describe;
use crate::output::say;
use crate::plan::Plan;
use crate::target::Settings;

/// An unreachable store is asked for so long, however long the wait.
const UNREACHABLE: Duration = Duration::from_secs(30);

/// How long to wait for the lock, from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    /// One look.
    None,
    /// Until then, which is so long from when it was asked for.
    Until(Instant, Duration),
    Unlimited,
}

impl Patience {
    /// How long a store that can't be reached is asked.
    fn with_an_unreachable_store(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Until(end, _) => end.saturating_duration_since(Instant::now()).min(UNREACHABLE),
            Self::Unlimited => UNREACHABLE,
        }
    }
}

/// Connects, and asks a store that can't be reached again.
pub(crate) async fn connect(settings: &Settings, patience: Patience) -> Result<Locks, Failure> {
    const PAUSE: Duration = Duration::from_millis(500);
    let limit = patience.with_an_unreachable_store();
    if limit.is_zero() {
        // Within the driver's own limit.
        return settings.connect().await.map_err(|error| settings.unconnected(error));
    }
    let until = Instant::now() + limit;
    let mut last = None;
    loop {
        match tokio::time::timeout_at(until, settings.connect()).await {
            Ok(Ok(locks)) => return Ok(locks),
            Ok(Err(error)) if may_mend(&error) && Instant::now() + PAUSE < until => {
                tracing::debug!(%error, "the lock server can't be reached, and is asked again");
                let failure = Failure::from(error);
                if last.is_none() && tell() {
                    say(&format!("{failure}; trying again, for {} in all", rounded(limit)));
                }
                last = Some(failure);
                tokio::time::sleep(PAUSE).await;
            }
            Ok(Err(error)) => return Err(settings.unconnected(error)),
            Err(_) => {
                return Err(last.unwrap_or_else(|| no_answer(limit)));
            }
        }
    }
}

/// Acquires the lock; on a terminal it says who holds it meanwhile.
pub(crate) async fn acquire(locks: &Locks, lock: &Lock, plan: &Plan) -> Result<Guard, Failure> {
    let patience = plan.patience;
    let acquired = async {
        let (waited, acquired) = match patience {
            Patience::None => return try_once(locks, lock).await,
            Patience::Until(end, asked) => {
                let wait = end.saturating_duration_since(Instant::now());
                (asked, lock.acquire_within(wait).await)
            }
            Patience::Unlimited => (Duration::MAX, lock.acquire_unbounded().await),
        };
        match acquired {
            Err(error) if error.kind() == ErrorKind::NotAcquired => {
                let within = format!(" within {}", humantime::format_duration(waited));
                Err(not_acquired(locks, lock, &within, error.holder()).await)
            }
            acquired => acquired.map_err(Failure::from),
        }
    };
    tokio::select! {
        biased;
        acquired = acquired => acquired,
        failure = watch(locks, plan) => Err(failure),
    }
}

async fn try_once(locks: &Locks, lock: &Lock) -> Result<Guard, Failure> {
    if let Some(guard) = lock.try_acquire().await? {
        return Ok(guard);
    }
    Err(not_acquired(locks, lock, "", None).await)
}

/// Says who holds it: as the error has it, else as it is now.
async fn not_acquired(
    locks: &Locks,
    lock: &Lock,
    within: &str,
    holder: Option<&Holder>,
) -> Failure {
    const LIMIT: Duration = Duration::from_secs(2);
    let seen = match holder {
        Some(holder) => Some(holder.clone()),
        None => {
            let look = tokio::time::timeout(LIMIT, locks.backend().inspect(lock.name()));
            look.await.ok().and_then(Result::ok).flatten()
        }
    };
    let why = seen.map_or_else(|| CLOSED.to_owned(), |holder| held_by(&holder));
    Failure::new(NOT_ACQUIRED, format!("not acquired{within}: `{}` is {why}", lock.name()))
}

/// What nobody is seen to hold.
const CLOSED: &str = "closed by a min-hold, or held";

/// Looks at the lock while it is waited for, and says what it sees. Ends with a failure if the
/// store can't be reached for too long.
async fn watch(locks: &Locks, plan: &Plan) -> Failure {
    const FIRST: Duration = Duration::from_millis(200);
    const EVERY: Duration = Duration::from_secs(2);
    let Plan { name, ttl, patience, .. } = plan;
    let limit = patience.with_an_unreachable_store();
    let mut well = Instant::now();
    let mut told = Told::default();
    tokio::time::sleep(FIRST).await;
    loop {
        let asked = Instant::now();
        let looked = tokio::time::timeout(UNREACHABLE, locks.backend().inspect(name)).await;
        let failure = match looked {
            Ok(Ok(holder)) => {
                well = Instant::now();
                told.is_answered_after(well - asked, *ttl);
                told.sees(name, holder);
                None
            }
            Ok(Err(error)) if may_mend(&error) => Some(error.into()),
            // It is for `acquire` to say what this is.
            Ok(Err(_)) => {
                well = Instant::now();
                None
            }
            Err(_) => Some(no_answer(UNREACHABLE)),
        };
        if let Some(failure) = failure {
            if well.elapsed() >= limit {
                return failure;
            }
            told.fails(&failure, limit);
        }
        let pause = if told.nobody == 1 { FIRST } else { EVERY };
        tokio::time::sleep(pause.min(limit.max(FIRST))).await;
    }
}

/// What was said while the lock is waited for; each thing is said once.
#[derive(Debug, Default)]
struct Told {
    holder: Option<Owner>,
    /// How often in a row nobody was seen to hold it.
    nobody: u32,
    fails: bool,
    slow: bool,
    itself: bool,
}

impl Told {
    fn sees(&mut self, name: &LockName, holder: Option<Holder>) {
        self.fails = false;
        let owner = holder.as_ref().map(|holder| holder.owner);
        let new = std::mem::replace(&mut self.holder, owner) != owner;
        let Some(holder) = holder else {
            self.nobody += 1;
            // The first time it may be on its way from one to the next.
            if self.nobody == 2 && tell() {
                say(&format!("waiting for `{name}`, which is {CLOSED}"));
            }
            return;
        };
        self.nobody = 0;
        if is_around_us(&holder) {
            if !std::mem::replace(&mut self.itself, true) {
                say(&format!(
                    "waiting for `{name}`, which is held by the `leasehold run` that this one runs \
                     under: a lock is not re-entrant"
                ));
            }
        } else if new && tell() {
            say(&format!("waiting for `{name}`, {}", held_by(&holder)));
        }
    }

    /// A claim whose answer takes longer than a third of the TTL is given up, each time.
    fn is_answered_after(&mut self, took: Duration, ttl: Duration) {
        let most = ttl / 3;
        if took > most && !std::mem::replace(&mut self.slow, true) {
            say(&format!(
                "the lock server took {} to answer; a lock with a TTL of {} needs answers within {}",
                rounded(took),
                humantime::format_duration(ttl),
                rounded(most)
            ));
        }
    }

    fn fails(&mut self, failure: &Failure, limit: Duration) {
        if !std::mem::replace(&mut self.fails, true) && tell() {
            say(&format!("{failure}; trying again, for {} in all", rounded(limit)));
        }
    }
}

/// Whether people read along.
fn tell() -> bool {
    std::io::stderr().is_terminal()
}

/// Whether the holder started this process, as its command or further below.
fn is_around_us(holder: &Holder) -> bool {
    std::env::var("LEASEHOLD_OWNER").is_ok_and(|owner| owner == holder.owner.to_string())
}

fn held_by(holder: &Holder) -> String {
    format!("held by {}", describe(holder))
}

fn no_answer(limit: Duration) -> Failure {
    let limit = rounded(limit);
    Failure::new(UNAVAILABLE, format!("the lock server has not answered for {limit}"))
}

/// A duration for people.
fn rounded(duration: Duration) -> humantime::FormattedDuration {
    let to = match duration.as_secs() {
        0 => 10,
        1..10 => 100,
        _ => 1_000,
    };
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX - to);
    humantime::format_duration(Duration::from_millis((millis + to / 2) / to * to))
}

/// Whether the same request may go better later.
fn may_mend(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unreachable | ErrorKind::Busy | ErrorKind::NotPrimary | ErrorKind::Indeterminate
    )
}

#[cfg(test)]
mod tests {
    use super::rounded;
    use std::time::Duration;

    #[test]
    fn durations_are_rounded() {
        for (millis, says) in [(1_999, "2s"), (1_444, "1s 400ms"), (29_999, "30s"), (297, "300ms")]
        {
            assert_eq!(rounded(Duration::from_millis(millis)).to_string(), says);
        }
    }
}
