//! How guards end: release, drop, `max_hold`, `min_hold`, no renewal, close.

use std::time::Duration;

use futures_util::future::{join, try_join_all};
use leasehold_api::{Backend, ErrorKind, Loss, margin};

use super::super::steps::{free_between, held, is_free, kept, now, pass};
use super::steps::{deadline, error, falls_free, guard, is_lost_between, settle, stays_lost};
use crate::bench::Bench;
use crate::effort::rounds;
use crate::ensure;
use crate::scripted::{Effect, Step, Verb};
use crate::subject::Time;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Release:
    released_guard_frees_the_name [policy], "5.1", "after release the name is free at once";
    c78_c156_dropped_guard_frees_the_name [policy], "D3.2", "a dropped guard's name is free within a request's time";
    c157_guard_dropped_off_the_runtime_frees_the_name [policy], "D3.2", "so is that of one dropped on a thread without a runtime";
    c114_aborted_task_frees_the_name [policy], "D4.5", "so is that of a task that is aborted, or panics";
    unkept_guard_simply_ends [policy], "D3.2", "without keep_alive nothing is renewed, and the loss comes at the deadline";
    c18_max_hold_ends_a_guard [policy], "D3.2", "the loss comes just before max_hold, however many TTLs that is: endless work is stopped, and the name is free at it";
    f13_max_hold_ends_a_forgotten_guard [policy], "D3.2", "so it does when the guard was leaked";
    min_hold_keeps_the_name_closed [policy], "D3.2, 5.6", "released early, the name stays closed for the rest of min_hold, for local waiters too";
    close_ends_every_guard [policy], "D3.2, D4.5", "close tells guards that they are lost, frees their names, and ends waits";
    closed_client_refuses [policy], "D3.2", "after close every call says Closed";
    close_during_hand_overs_says_closed [policy], "D3.2", "who is cut off by it while the name goes from hand to hand is told that it was closed, and nothing else";
    close_over_a_silent_store_ends_in_time [policy], "D3.2, D4.8", "it says Indeterminate within the longest TTL, at most 10 s, and a second close finds nothing left";
}

async fn released_guard_frees_the_name(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    for _ in 0..3 {
        let guard = guard(bench, &locks, &name, 20).await?;
        held(&*client, &bench.claim(&name)).await?;
        guard.release().await?;
        is_free(bench, &*client, &name).await?;
    }
    Ok(())
}

async fn c78_c156_dropped_guard_frees_the_name(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    drop(guard(bench, &locks, &name, 20).await?);
    falls_free(bench, &*client, &name, now(&*client)).await
}

async fn c157_guard_dropped_off_the_runtime_frees_the_name(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let guard = guard(bench, &locks, &name, 20).await?;
    let dropped = std::thread::spawn(move || drop(guard)).join();
    ensure!(dropped.is_ok(), "dropping a guard off the runtime panics");
    falls_free(bench, &*client, &name, now(&*client)).await
}

async fn c114_aborted_task_frees_the_name(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let (aborted, panicked) = (bench.name(), bench.name());
    let first = guard(bench, &locks, &aborted, 20).await?;
    let task = tokio::spawn(async move { first.run(std::future::pending::<()>()).await });
    pass(&*client, bench.step()).await;
    task.abort();
    ensure!(task.await.is_err_and(|end| end.is_cancelled()), "the task ended by itself");
    falls_free(bench, &*client, &aborted, now(&*client)).await?;
    let second = guard(bench, &locks, &panicked, 20).await?;
    let task = tokio::spawn(async move {
        let _second = second;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    ensure!(task.await.is_err_and(|end| end.is_panic()), "the task did not panic");
    falls_free(bench, &*client, &panicked, now(&*client)).await
}

async fn unkept_guard_simply_ends(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let ttl = bench.ttl().get();
    let earliest = now(&*client).saturating_add(ttl - margin(ttl));
    let lock = bench.lock(&locks, &name, 1)?.keep_alive(false);
    let guard = lock.acquire().await?;
    let latest = deadline(bench, &*client, 1);
    let loss = is_lost_between(bench, &*client, &guard, earliest, latest).await?;
    ensure!(loss == Loss::Deadline, "a lease that ends says {loss:?}");
    ensure!(scripted.count(Verb::Renew) == 0, "it was renewed");
    drop(guard);
    falls_free(bench, &*client, &name, latest.saturating_add(ttl)).await
}

async fn c18_max_hold_ends_a_guard(bench: &Bench) -> Verdict {
    let ttl = bench.ttls(2).get();
    let many = if bench.time() == Time::Paused { 1000 } else { 4 };
    try_join_all([ttl / 2, ttl * 2, ttl * many].map(|max| max_hold_of(bench, max))).await.map(drop)
}

async fn max_hold_of(bench: &Bench, max: Duration) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let start = now(&*client);
    let lock = bench.lock(&locks, &name, 2)?.max_hold(max);
    let guard = lock.acquire().await?;
    let granted = now(&*client);
    let before = just_before(bench.ttls(2).get(), max);
    let (earliest, latest) = (start.saturating_add(before), granted.saturating_add(before));
    let loses = is_lost_between(bench, &*client, &guard, earliest, latest);
    let (loss, stopped) = join(loses, guard.run(std::future::pending::<()>())).await;
    let loss = loss?;
    error(stopped, ErrorKind::Lost)?;
    ensure!(loss == Loss::MaxHold, "at its max_hold of {max:?} it says {loss:?}");
    let end = granted.saturating_add(max);
    free_between(bench, &*client, &name, now(&*client), end).await?;
    stays_lost(&guard)
}

/// How long a guard of this TTL is held at most: the margin is that of the lease, not of what may
/// be a thousand of them.
fn just_before(ttl: Duration, max_hold: Duration) -> Duration {
    max_hold - margin(ttl.min(max_hold))
}

async fn f13_max_hold_ends_a_forgotten_guard(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let (ttl, max) = (bench.ttls(2).get(), bench.ttls(4).get());
    let start = now(&*client);
    let lock = bench.lock(&locks, &name, 2)?.max_hold(max);
    std::mem::forget(lock.acquire().await?);
    let end = now(&*client).saturating_add(max);
    let earliest = start.saturating_add(just_before(ttl, max));
    free_between(bench, &*client, &name, earliest, end).await?;
    Ok(())
}

async fn min_hold_keeps_the_name_closed(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    for dropped in [false, true] {
        let name = bench.name();
        let min = bench.ttls(3).get();
        let lock = bench.lock(&locks, &name, 4)?;
        let earliest = now(&*client).saturating_add(min);
        let guard = lock.clone().min_hold(min).acquire().await?;
        let latest = now(&*client).saturating_add(kept(&*client, bench.ttls(3)));
        let waiter = tokio::spawn(async move { lock.acquire_unbounded().await });
        pass(&*client, bench.step()).await;
        if dropped {
            drop(guard);
        } else {
            guard.release().await?;
        }
        let answer = held(&*client, &bench.claim(&name)).await?;
        if !dropped {
            ensure!(answer.holder.is_none(), "a closed name has a holder: {:?}", answer.holder);
        }
        // The local waiter polls at a third of its TTL at most.
        let latest = latest.saturating_add(bench.ttls(4).get() / 3);
        let next = waiter.await??;
        let at = now(&*client);
        ensure!(at.saturating_add(bench.step()) >= earliest, "a local waiter came before min_hold");
        let late = at.since(latest.saturating_add(bench.late()));
        ensure!(late.is_zero(), "a local waiter came {late:?} late");
        next.release().await?;
        is_free(bench, &*client, &name).await?;
    }
    Ok(())
}

async fn close_ends_every_guard(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let (mine, theirs) = (bench.name(), bench.name());
    let guard = guard(bench, &locks, &mine, 20).await?;
    let blocker = super::super::steps::take(&*client, &bench.long_claim(&theirs, 60)).await?;
    let waits = bench.lock(&locks, &theirs, 20)?;
    let waits = tokio::spawn(async move { waits.acquire_unbounded().await });
    settle(bench, &*client).await;
    let start = now(&*client);
    locks.close().await?;
    let took = now(&*client).since(start);
    ensure!(took <= bench.late() * 4, "close took {took:?}");
    ensure!(guard.lost().await == Loss::Closed, "the guard is not lost by the close");
    stays_lost(&guard)?;
    is_free(bench, &*client, &mine).await?;
    error(waits.await?, ErrorKind::Closed)?;
    super::super::steps::release(&*client, &blocker.ticket()).await?;
    settle(bench, &*client).await;
    is_free(bench, &*client, &theirs).await
}

async fn closed_client_refuses(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let name = bench.name();
    let lock = bench.lock(&locks, &name, 4)?;
    let guard = guard(bench, &locks, &name, 4).await?;
    locks.close().await?;
    error(lock.try_acquire().await, ErrorKind::Closed)?;
    error(lock.acquire().await, ErrorKind::Closed)?;
    error(locks.lock(name.as_str()), ErrorKind::Closed)?;
    error(guard.release().await, ErrorKind::Lost)?;
    locks.close().await?;
    Ok(())
}

async fn close_during_hand_overs_says_closed(bench: &Bench) -> Verdict {
    const TASKS: usize = 3;
    let client = bench.client().await?;
    for round in 0..rounds(12, 100) {
        let locks = bench.locks().await?;
        let name = bench.name();
        let lock = bench.lock(&locks, &name, 40)?;
        let first = guard(bench, &locks, &name, 40).await?;
        let mut tasks = Vec::new();
        for _ in 0..TASKS {
            let lock = lock.clone();
            tasks
                .push(tokio::spawn(async move { lock.acquire_unbounded().await?.release().await }));
        }
        settle(bench, &*client).await;
        if round % 2 == 0 {
            // The close comes before the next holder gets to see that it is one.
            first.release().await?;
        } else {
            // Each round it comes a little later.
            tasks.push(tokio::spawn(first.release()));
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
        }
        locks.close().await?;
        for task in tasks {
            let Err(told) = task.await? else { continue };
            let closed = match told.kind() {
                ErrorKind::Lost => told.loss() == Some(Loss::Closed),
                kind => kind == ErrorKind::Closed,
            };
            ensure!(closed, "in round {round} one who was cut off is told: {told}");
        }
        falls_free(bench, &*client, &name, now(&*client)).await?;
    }
    Ok(())
}

async fn close_over_a_silent_store_ends_in_time(bench: &Bench) -> Verdict {
    const LONGEST: Duration = Duration::from_secs(10);
    let client = bench.client().await?;
    silent_close(bench, &*client, [2, 3], bench.ttls(3).get()).await?;
    if bench.time() == Time::Paused {
        silent_close(bench, &*client, [2, 60], LONGEST).await?;
    }
    Ok(())
}

async fn silent_close(
    bench: &Bench,
    client: &dyn Backend,
    ttls: [u32; 2],
    limit: Duration,
) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let mut guards = Vec::new();
    for n in ttls {
        guards.push(guard(bench, &locks, &bench.name(), n).await?);
    }
    scripted.always(Verb::Release, Step::Never(Effect::Not));
    let start = now(client);
    let told = locks.close().await;
    let took = now(client).since(start);
    ensure!(took <= limit + bench.late(), "it took {took:?}, not {limit:?}");
    error(told, ErrorKind::Indeterminate)?;
    for guard in &guards {
        stays_lost(guard)?;
    }
    let again = now(client);
    let second = locks.close().await;
    second.map_err(|told| Failure::failed(format!("a second close says: {told}")))?;
    let took = now(client).since(again);
    ensure!(took <= limit + bench.late(), "a second close took {took:?}, not {limit:?}");
    Ok(())
}
