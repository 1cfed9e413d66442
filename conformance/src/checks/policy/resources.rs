//! What guards and clients cost.

use std::time::{Duration, Instant};

use leasehold_api::Backend;

use super::super::steps::{is_free, now, pass};
use super::steps::{falls_free, guard};
use crate::bench::Bench;
use crate::ensure;
use crate::table::checks;
use crate::verdict::Verdict;

checks! { Resources:
    guards_need_no_tasks [policy], "D10", "300 held locks run as many tasks as one";
    c159_dropped_client_ends_its_tasks [policy], "D3.2", "a client is dropped at once, and once its guards are gone, no task is left";
    guard_outlives_its_client_handle [policy], "D3.2", "a guard whose `Locks` was dropped is kept alive and released";
}

pub(super) fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Shows that no more tasks than these are left, once what was queued is done.
pub(super) async fn tasks_fall_to(bench: &Bench, client: &dyn Backend, want: usize) -> Verdict {
    let end = now(client).saturating_add(bench.ttls(6).get());
    while tasks() > want && now(client) < end {
        pass(client, bench.step()).await;
    }
    ensure!(tasks() <= want, "{want} tasks became {}", tasks());
    Ok(())
}

async fn guards_need_no_tasks(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let mut guards = vec![guard(bench, &locks, &bench.name(), 10).await?];
    pass(&*client, bench.late()).await;
    let one = tasks();
    for _ in 1..300 {
        guards.push(guard(bench, &locks, &bench.name(), 10).await?);
    }
    pass(&*client, bench.ttls(5).get()).await;
    let many = tasks();
    ensure!(many <= one, "{one} tasks for one guard became {many} for 300");
    ensure!(guards.iter().all(leasehold::Guard::is_held), "some guards were lost");
    for guard in guards {
        guard.release().await?;
    }
    Ok(())
}

async fn c159_dropped_client_ends_its_tasks(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let name = bench.name();
    is_free(bench, &*client, &name).await?;
    let before = tasks();
    // More than once: what comes last, the release or the end, is for chance to say.
    for _ in 0..8 {
        let locks = bench.locks().await?;
        let kept = guard(bench, &locks, &name, 4).await?;
        guard(bench, &locks, &bench.name(), 4).await?.release().await?;
        pass(&*client, bench.step()).await;
        ensure!(tasks() > before, "a client needs its workers");
        let start = Instant::now();
        drop(locks);
        drop(kept);
        let took = start.elapsed();
        ensure!(took < Duration::from_millis(100), "dropping a client took {took:?}");
        tasks_fall_to(bench, &*client, before).await?;
        is_free(bench, &*client, &name).await?;
    }
    Ok(())
}

async fn guard_outlives_its_client_handle(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let name = bench.name();
    let locks = bench.locks().await?;
    let guard = guard(bench, &locks, &name, 4).await?;
    drop(locks);
    for _ in 0..6 {
        pass(&*client, bench.ttls(2).get()).await;
        ensure!(guard.is_held(), "the guard was lost with its client's handle");
        super::super::steps::held(&*client, &bench.claim(&name)).await?;
    }
    guard.release().await?;
    falls_free(bench, &*client, &name, now(&*client)).await
}
