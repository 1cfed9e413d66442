//! Guards exclude each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::try_join_all;
use leasehold_api::Acquired;

use super::super::steps::{held, pass};
use super::steps::guard;
use crate::bench::Bench;
use crate::effort::rounds;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Exclusion:
    guards_exclude_each_other [policy], "1.2, D4.1", "8 clients with 2 tasks each add 1 under the lock without losing one, tokens rising";
    guard_and_store_agree [policy], "1.2, 2.2", "while a guard says held, nobody else is granted the name";
    c102_c130_renewed_guard_excludes_for_many_ttls [policy], "1.2, 4.1", "nobody gets the name in 5 TTLs of a kept-alive guard";
    f84_guard_is_not_re_entrant [policy], "D3.2", "the same client asking twice gets nothing the second time";
}

async fn guards_exclude_each_other(bench: &Bench) -> Verdict {
    let adds = rounds(3, 40) as u64;
    let name = bench.name();
    let counter = Arc::new(AtomicU64::new(0));
    let last = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for number in 0..16 {
        let locks = bench.locks().await?;
        let lock = bench.lock(&locks, &name, 10)?;
        let (counter, last) = (counter.clone(), last.clone());
        tasks.push(async move {
            for round in 0..adds {
                let guard = lock.acquire_unbounded().await?;
                let token = guard.token()?.get();
                let before = last.swap(token, Ordering::SeqCst);
                ensure!(token > before, "token {token} follows {before}");
                let read = counter.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                ensure!(guard.is_held(), "the guard was lost within a moment");
                counter.store(read + 1, Ordering::SeqCst);
                if (number + round) % 2 == 0 {
                    drop(guard);
                } else {
                    guard.release().await?;
                }
            }
            drop(locks);
            Ok::<_, Failure>(())
        });
    }
    let tasks = tasks.into_iter().map(|task| async {
        tokio::spawn(task).await.expect("the task neither panics nor is aborted")
    });
    try_join_all(tasks).await?;
    let counted = counter.load(Ordering::SeqCst);
    ensure!(counted == 16 * adds, "{counted} of {} adds are left", 16 * adds);
    Ok(())
}

async fn guard_and_store_agree(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let other = bench.client().await?;
    let name = bench.name();
    let lock = bench.lock(&locks, &name, 2)?.keep_alive(false);
    let guard = lock.acquire_within(bench.ttls(4).get()).await?;
    let contender = bench.claim(&name);
    loop {
        let answer = other.acquire(&contender).await?;
        if matches!(answer, Acquired::Granted(_)) {
            ensure!(!guard.is_held(), "another client has the name while the guard says held");
            return Ok(());
        }
        pass(&*other, bench.step()).await;
    }
}

async fn c102_c130_renewed_guard_excludes_for_many_ttls(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let other = bench.client().await?;
    let name = bench.name();
    let guard = guard(bench, &locks, &name, 2).await?;
    let token = guard.token()?;
    let clock = other.clock();
    let end = clock.now().saturating_add(bench.ttls(10).get());
    let contender = bench.claim(&name);
    while clock.now() < end {
        held(&*other, &contender).await?;
        ensure!(guard.is_held(), "a guard was lost whose renewals are answered");
        pass(&*other, bench.step()).await;
    }
    ensure!(guard.token()? == token, "the token changed");
    guard.release().await?;
    Ok(())
}

async fn f84_guard_is_not_re_entrant(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let name = bench.name();
    let lock = bench.lock(&locks, &name, 4)?;
    let guard = guard(bench, &locks, &name, 4).await?;
    ensure!(lock.try_acquire().await?.is_none(), "the same client holds the name twice");
    let again = lock.acquire_within(bench.ttl().get() / 4).await;
    super::steps::error(again, leasehold_api::ErrorKind::NotAcquired)?;
    guard.release().await?;
    ensure!(lock.try_acquire().await?.is_some(), "a released name is not free");
    Ok(())
}
