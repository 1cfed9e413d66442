//! Connecting and waiting for the lock.

use std::io::IsTerminal as _;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Holder, Lock, LockName, Locks};
use tokio::time::Instant;

use crate::exit::{Failure, NOT_ACQUIRED, UNAVAILABLE};
use crate::inspect::describe;
use crate::output::say;
use crate::target::Settings;

/// An unreachable store is asked for so long, however long the wait.
const UNREACHABLE: Duration = Duration::from_secs(30);

/// How long to wait for the lock, from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    /// One look.
    None,
    Until(Instant),
    Unlimited,
}

impl Patience {
    /// How long a store that can't be reached is asked.
    fn with_an_unreachable_store(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Until(end) => end.saturating_duration_since(Instant::now()).min(UNREACHABLE),
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
                last = Some(error);
                tokio::time::sleep(PAUSE).await;
            }
            Ok(Err(error)) => return Err(settings.unconnected(error)),
            Err(_) => {
                return Err(last.map_or_else(|| no_answer(limit), Failure::from));
            }
        }
    }
}

/// Acquires the lock; on a terminal it says who holds it meanwhile.
pub(crate) async fn acquire(
    locks: &Locks,
    lock: &Lock,
    patience: Patience,
) -> Result<Guard, Failure> {
    let acquired = async {
        match patience {
            Patience::None => return try_once(locks, lock).await,
            Patience::Until(end) => {
                let wait = end.saturating_duration_since(Instant::now());
                lock.acquire_within(wait).await
            }
            Patience::Unlimited => lock.acquire_unbounded().await,
        }
        .map_err(Failure::from)
    };
    tokio::select! {
        biased;
        acquired = acquired => acquired,
        failure = watch(locks, lock.name(), patience) => Err(failure),
    }
}

async fn try_once(locks: &Locks, lock: &Lock) -> Result<Guard, Failure> {
    if let Some(guard) = lock.try_acquire().await? {
        return Ok(guard);
    }
    let holder = locks.backend().inspect(lock.name()).await.ok().flatten();
    let holder = holder.map_or_else(|| "closed, or held".to_owned(), |holder| held_by(&holder));
    Err(Failure::new(NOT_ACQUIRED, format!("`{}` is {holder}", lock.name())))
}

/// Looks at the lock while it is waited for. Ends with a failure if the store can't be reached for
/// too long.
async fn watch(locks: &Locks, name: &LockName, patience: Patience) -> Failure {
    const FIRST: Duration = Duration::from_millis(200);
    const EVERY: Duration = Duration::from_secs(2);
    let limit = patience.with_an_unreachable_store();
    let tell = std::io::stderr().is_terminal();
    let mut well = Instant::now();
    let mut told = None;
    tokio::time::sleep(FIRST).await;
    loop {
        let looked = tokio::time::timeout(UNREACHABLE, locks.backend().inspect(name)).await;
        let failure = match looked {
            Ok(Ok(holder)) => {
                well = Instant::now();
                let owner = holder.as_ref().map(|holder| holder.owner);
                if tell
                    && told != owner
                    && let Some(holder) = holder
                {
                    say(&format!("waiting for `{name}`, {}", held_by(&holder)));
                }
                told = owner;
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
        if let Some(failure) = failure
            && well.elapsed() >= limit
        {
            return failure;
        }
        tokio::time::sleep(EVERY.min(limit.max(FIRST))).await;
    }
}

fn held_by(holder: &Holder) -> String {
    format!("held by {}", describe(holder))
}

fn no_answer(limit: Duration) -> Failure {
    let limit = Duration::from_millis(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    let limit = humantime::format_duration(limit);
    Failure::new(UNAVAILABLE, format!("the lock server has not answered for {limit}"))
}

/// Whether the same request may go better later.
fn may_mend(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unreachable | ErrorKind::Busy | ErrorKind::NotPrimary | ErrorKind::Indeterminate
    )
}
