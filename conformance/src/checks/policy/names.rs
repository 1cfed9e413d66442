//! Bad input stops before anything is sent.

use std::time::Duration;

use leasehold::Lock;
use leasehold_api::{ErrorKind, LockName, Ttl};

use super::super::steps::now;
use super::steps::error;
use crate::bench::Bench;
use crate::ensure;
use crate::table::checks;
use crate::verdict::Verdict;

checks! { Names:
    f69_bad_names_are_refused [policy], "9.3, D4.10", "each bad name is bad input that says what is allowed, and sends nothing";
    f67_c70_bad_durations_are_refused [policy], "9.3, D4.10", "so are a TTL below the floor or above 30 days, and holds that are none";
    f68_waits_do_not_overflow [policy], "D4.10", "the longest wait there is, and none, are waits like others";
    bad_labels_are_refused [policy], "9.3, D4.10", "so are labels that are too long or have control characters";
}

async fn f69_bad_names_are_refused(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let long = "x".repeat(LockName::MAX_BYTES + 1);
    let huge = "x".repeat(1 << 20);
    for name in ["", "a\0b", "a\nb", "\u{7f}", &long, &huge] {
        let refused = error(locks.lock(name), ErrorKind::BadInput)?;
        let says = refused.to_string().contains("512");
        ensure!(says, "the message does not say what is allowed: {refused}");
    }
    ensure!(scripted.calls().is_empty(), "something was sent");
    Ok(())
}

async fn f67_c70_bad_durations_are_refused(bench: &Bench) -> Verdict {
    type Change = fn(Lock, Duration) -> Lock;
    let (scripted, locks) = bench.scripted().await?;
    let floor = locks.profile().ttl_floor;
    let over = Ttl::MAX.get() + Duration::from_millis(1);
    // Past what whole milliseconds, or seconds, of 64 bits hold.
    let huge =
        [Duration::MAX, Duration::from_millis(i64::MAX as u64), Duration::from_secs(u64::MAX)];
    let changes: [Change; 3] = [
        |lock, time| lock.ttl(time),
        |lock, time| lock.max_hold(time),
        |lock, time| lock.min_hold(time),
    ];
    let lock = bench.lock(&locks, &bench.name(), 1)?;
    let mut bad: Vec<Lock> =
        changes.iter().flat_map(|change| huge.map(|time| change(lock.clone(), time))).collect();
    let short = Duration::from_millis(1);
    let shorts = [Duration::ZERO, Duration::from_nanos(1), short, floor - Duration::from_nanos(1)];
    bad.extend(shorts.into_iter().filter(|ttl| *ttl < floor).map(|ttl| lock.clone().ttl(ttl)));
    bad.push(lock.clone().ttl(over));
    bad.push(lock.clone().max_hold(Duration::ZERO));
    for lock in bad {
        let refused = error(lock.try_acquire().await, ErrorKind::BadInput)?;
        let says = refused.to_string().contains("30 days");
        ensure!(says, "the message does not say what is allowed: {refused}");
        error(lock.acquire_within(Duration::MAX).await, ErrorKind::BadInput)?;
        error(lock.acquire_unbounded().await, ErrorKind::BadInput)?;
    }
    ensure!(scripted.calls().is_empty(), "something was sent");
    Ok(())
}

async fn f68_waits_do_not_overflow(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let lock = bench.lock(&locks, &bench.name(), 10)?;
    lock.acquire_within(Duration::MAX).await?.release().await?;
    let guard = lock.acquire_within(Duration::ZERO).await?;
    let client = bench.client().await?;
    let start = now(&*client);
    error(lock.acquire_within(Duration::ZERO).await, ErrorKind::NotAcquired)?;
    let beside = bench.lock(&bench.locks().await?, lock.name(), 10)?;
    error(beside.acquire_within(Duration::ZERO).await, ErrorKind::NotAcquired)?;
    let took = now(&*client).since(start);
    ensure!(took <= bench.late(), "waits of nothing took {took:?}");
    let waits = lock.clone();
    let waits = tokio::spawn(async move { waits.acquire_within(Duration::MAX).await });
    tokio::task::yield_now().await;
    guard.release().await?;
    waits.await??.release().await?;
    Ok(())
}

async fn bad_labels_are_refused(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let long = "x".repeat(129);
    for label in [long.as_str(), "a\nb", "\0"] {
        let lock = bench.lock(&locks, &bench.name(), 1)?.label(label);
        let refused = error(lock.try_acquire().await, ErrorKind::BadInput)?;
        ensure!(refused.to_string().contains("128"), "it does not say what is allowed: {refused}");
    }
    ensure!(scripted.calls().is_empty(), "something was sent");
    Ok(())
}
