//! How guards end: release, drop, `max_hold`, `min_hold`, no renewal, close.

use leasehold_api::{ErrorKind, Loss, margin};

use super::super::steps::{free_between, held, is_free, kept, now, pass};
use super::steps::{deadline, error, falls_free, guard, is_lost_between, settle, stays_lost};
use crate::bench::Bench;
use crate::ensure;
use crate::scripted::Verb;
use crate::table::checks;
use crate::verdict::Verdict;

checks! { Release:
    released_guard_frees_the_name [policy], "5.1", "after release the name is free at once";
    dropped_guard_frees_the_name [policy], "D3.2", "a dropped guard's name is free within a request's time";
    guard_dropped_off_the_runtime_frees_the_name [policy], "D3.2", "so is that of one dropped on a thread without a runtime";
    aborted_task_frees_the_name [policy], "D4.5", "so is that of a task that is aborted, or panics";
    unkept_guard_simply_ends [policy], "D3.2", "without keep_alive nothing is renewed, and the loss comes at the deadline";
    max_hold_ends_a_guard [policy], "D3.2", "the loss comes just before max_hold, and the name is free at it";
    max_hold_ends_a_forgotten_guard [policy], "D3.2", "so it does when the guard was leaked";
    min_hold_keeps_the_name_closed [policy], "D3.2, 5.6", "released early, the name stays closed for the rest of min_hold, for local waiters too";
    close_ends_every_guard [policy], "D3.2, D4.5", "close tells guards that they are lost, frees their names, and ends waits";
    closed_client_refuses [policy], "D3.2", "after close every call says Closed";
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

async fn dropped_guard_frees_the_name(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    drop(guard(bench, &locks, &name, 20).await?);
    falls_free(bench, &*client, &name, now(&*client)).await
}

async fn guard_dropped_off_the_runtime_frees_the_name(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let guard = guard(bench, &locks, &name, 20).await?;
    let dropped = std::thread::spawn(move || drop(guard)).join();
    ensure!(dropped.is_ok(), "dropping a guard off the runtime panics");
    falls_free(bench, &*client, &name, now(&*client)).await
}

async fn aborted_task_frees_the_name(bench: &Bench) -> Verdict {
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

async fn max_hold_ends_a_guard(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let max = bench.ttls(3).get();
    let start = now(&*client);
    let lock = bench.lock(&locks, &name, 1)?.max_hold(max);
    let guard = lock.acquire().await?;
    let end = now(&*client).saturating_add(max);
    let earliest = start.saturating_add(max - margin(max));
    let loss = is_lost_between(bench, &*client, &guard, earliest, end).await?;
    ensure!(loss == Loss::MaxHold, "at its max_hold it says {loss:?}");
    free_between(bench, &*client, &name, now(&*client), end).await?;
    stays_lost(&guard)
}

async fn max_hold_ends_a_forgotten_guard(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let max = bench.ttls(2).get();
    let start = now(&*client);
    let lock = bench.lock(&locks, &name, 1)?.max_hold(max);
    std::mem::forget(lock.acquire().await?);
    let end = now(&*client).saturating_add(max);
    let earliest = start.saturating_add(max - margin(max));
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
