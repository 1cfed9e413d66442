//! Steps that many checks of policy share.

use std::time::Duration;

use leasehold::{Guard, Locks};
use leasehold_api::{Backend, Error, ErrorKind, Instant, LockName, margin};

use super::super::steps::{free_between, now, pass};
use crate::bench::Bench;
use crate::ensure;
use crate::subject::Time;
use crate::verdict::{Failure, Verdict};

/// A guard of a free name, for `n` TTLs.
pub(super) async fn guard(
    bench: &Bench,
    locks: &Locks,
    name: &LockName,
    n: u32,
) -> Result<Guard, Failure> {
    let lock = bench.lock(locks, name, n)?;
    lock.try_acquire().await?.ok_or_else(|| Failure::failed(format!("{name} must be free")))
}

/// Shows that a name falls free within what the driver needs for one request, or by `latest`.
pub(super) async fn falls_free(
    bench: &Bench,
    client: &dyn Backend,
    name: &LockName,
    latest: Instant,
) -> Verdict {
    let lease = free_between(bench, client, name, now(client), latest).await?;
    super::super::steps::release(client, &lease.ticket()).await
}

/// The error that a call must end with.
pub(super) fn error<T>(answer: Result<T, Error>, kind: ErrorKind) -> Result<Error, Failure> {
    match answer {
        Err(error) if error.kind() == kind => Ok(error),
        Err(error) => {
            Err(Failure::failed(format!("{kind:?} is due, not {:?}: {error}", error.kind())))
        }
        Ok(_) => Err(Failure::failed(format!("{kind:?} is due, but the call succeeded"))),
    }
}

/// Waits for the loss of a guard, which must come neither before `earliest` nor after `latest`
/// (plus what the bench allows), and stay.
pub(super) async fn is_lost_between(
    bench: &Bench,
    client: &dyn Backend,
    guard: &Guard,
    earliest: Instant,
    latest: Instant,
) -> Result<leasehold_api::Loss, Failure> {
    let latest = latest.saturating_add(bench.late());
    let clock = client.clock();
    let loss = tokio::select! {
        loss = guard.lost() => loss,
        () = clock.sleep_until(latest) => {
            return Err(Failure::failed("the loss was not signalled in time"));
        }
    };
    let early = earliest.since(clock.now());
    ensure!(early.is_zero(), "lost ({loss}) {early:?} too early");
    stays_lost(guard)?;
    Ok(loss)
}

/// Shows that every way to ask says lost.
pub(super) fn stays_lost(guard: &Guard) -> Verdict {
    ensure!(!guard.is_held(), "a lost guard says that it is held");
    ensure!(guard.remaining() == Duration::ZERO, "a lost guard has time left");
    ensure!(guard.lost_token().is_cancelled(), "a lost guard's token is not cancelled");
    error(guard.token(), ErrorKind::Lost).map(drop)
}

/// The latest deadline of a lease that was granted by now.
pub(super) fn deadline(bench: &Bench, client: &dyn Backend, n: u32) -> Instant {
    let ttl = bench.ttls(n).get();
    now(client).saturating_add(ttl - margin(ttl))
}

/// Lets the facade's workers move.
pub(super) async fn settle(bench: &Bench, client: &dyn Backend) {
    pass(client, bench.late()).await;
}

/// Stops this thread; on paused time, makes the clock jump.
pub(super) async fn freeze(bench: &Bench, time: Duration) {
    match bench.time() {
        Time::Paused => tokio::time::advance(time).await,
        Time::Real => std::thread::sleep(time),
    }
}
