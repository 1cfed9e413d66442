//! How a loss is told, and when: by a future and by a look, before anything else may happen.

use std::thread;

use leasehold::{Guard, Locks};
use leasehold_api::{Backend, ErrorKind, Loss};
use tokio::runtime::Builder;

use super::super::steps::{held, is_free, is_held_by, now, pass, take};
use super::steps::{error, falls_free, freeze, guard, is_lost_between, stays_lost};
use crate::bench::Bench;
use crate::ensure;
use crate::scripted::{Call, Delay, Gate, Landing, Step, Verb};
use crate::subject::Time;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Loss:
    f5_c13_starved_runtime_keeps_no_lost_lock [policy], "D4.2", "after the only worker was blocked for 2 TTLs the first look says lost, and nothing lost is renewed";
    c115_every_loss_is_told_by_future_and_by_look [policy], "D3.2, D4.2", "deadline, most time, eviction, the driver's own news and close are each told by the future, the look, the token and the time left";
    c151_nothing_is_renewed_once_a_release_is_on_its_way [policy], "D4.6", "locally a lock ends before its release is sent, whether it is released or dropped";
    c12_every_way_to_lose_a_handle_frees_the_name [policy], "D3.2, D4.5", "a guard that is dropped or whose task is aborted is freed at once, a forgotten one when its client closes";
    c57_guard_may_end_in_another_task_thread_or_runtime [policy], "D3.2", "a guard that was sent to another task, thread or runtime is held and released there";
}

async fn f5_c13_starved_runtime_keeps_no_lost_lock(bench: &Bench) -> Verdict {
    match bench.time() {
        Time::Paused => starves(bench).await,
        // A runtime with one worker, which the sleep blocks.
        Time::Real => on_its_own_runtime(|| starves(bench)),
    }
}

fn on_its_own_runtime<F: Future<Output = Verdict>>(work: impl FnOnce() -> F + Send) -> Verdict {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::scope(|scope| {
        let work = scope.spawn(move || runtime.block_on(work()));
        work.join().unwrap_or_else(|_| Err(Failure::failed("it panicked on its runtime")))
    })
}

async fn starves(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let guard = guard(bench, &locks, &name, 1).await?;
    freeze(bench, bench.ttls(2).get()).await;
    let before = scripted.count(Verb::Renew);
    stays_lost(&guard)?;
    let next = take(&*client, &bench.long_claim(&name, 20)).await?;
    pass(&*client, bench.ttls(2).get()).await;
    let renewals = scripted.count(Verb::Renew) - before;
    ensure!(renewals == 0, "a lost lock was renewed {renewals} times");
    stays_lost(&guard)?;
    error(guard.release().await, ErrorKind::Lost)?;
    is_held_by(bench, &*client, &next).await
}

async fn c115_every_loss_is_told_by_future_and_by_look(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let lock = || bench.lock(&locks, &bench.name(), 3);
    let ends = lock()?.keep_alive(false).acquire().await?;
    let bounded = lock()?.max_hold(bench.ttls(2).get()).acquire().await?;
    let told = lock()?.acquire().await?;
    let closed = lock()?.acquire().await?;
    scripted.lose(told.owner(), Loss::SessionGone);
    is_lost(bench, &*client, &told, &[Loss::SessionGone]).await?;
    if client.profile().operator {
        let evicted = lock()?.acquire().await?;
        ensure!(client.evict(evicted.name(), evicted.token()?).await?, "it was not evicted");
        is_lost(bench, &*client, &evicted, &[Loss::Gone, Loss::TakenOver]).await?;
    }
    is_lost(bench, &*client, &bounded, &[Loss::MaxHold]).await?;
    is_lost(bench, &*client, &ends, &[Loss::Deadline]).await?;
    ensure!(closed.is_held(), "a guard was lost with others");
    locks.close().await?;
    is_lost(bench, &*client, &closed, &[Loss::Closed]).await
}

/// Shows that a guard is lost for one of these reasons, which each way to ask tells.
async fn is_lost(bench: &Bench, client: &dyn Backend, guard: &Guard, why: &[Loss]) -> Verdict {
    let start = now(client);
    let latest = start.saturating_add(bench.ttls(4).get());
    let loss = is_lost_between(bench, client, guard, start, latest).await?;
    ensure!(why.contains(&loss), "lost as {loss:?}, not as {why:?}");
    let refused = error(guard.token(), ErrorKind::Lost)?;
    ensure!(
        refused.loss() == Some(loss),
        "the look says {:?}, the future {loss:?}",
        refused.loss()
    );
    let again = guard.lost().await;
    ensure!(again == loss, "asked again it is {again:?}, not {loss:?}");
    Ok(())
}

async fn c151_nothing_is_renewed_once_a_release_is_on_its_way(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    for dropped in [false, true] {
        let (scripted, locks) = bench.scripted().await?;
        let name = bench.name();
        let gate = Gate::closed();
        scripted.next(Verb::Release, [Step::Late(Delay::Until(gate.clone()), Landing::After)]);
        let guard = guard(bench, &locks, &name, 4).await?;
        let owner = guard.owner();
        pass(&*client, bench.ttl().get()).await;
        let release = if dropped {
            drop(guard);
            None
        } else {
            Some(tokio::spawn(guard.release()))
        };
        scripted.made(Verb::Release, 1).await;
        // The renewal would be due now.
        pass(&*client, bench.ttl().get()).await;
        let calls = scripted.calls();
        let released = calls.iter().position(|call| call.verb == Verb::Release);
        let released = released.expect("one was made");
        let renews = |call: &&Call| call.verb == Verb::Renew;
        let late = calls[released..].iter().filter(renews).filter(|c| c.owner == Some(owner));
        let late = late.count();
        ensure!(late == 0, "{late} renewals were sent after the release (dropped: {dropped})");
        gate.open();
        if let Some(release) = release {
            let _ = release.await?; // on a busy machine it was given up before the gate opened
        }
        let soon = now(&*client).saturating_add(bench.ttl().get());
        falls_free(bench, &*client, &name, soon).await?;
    }
    Ok(())
}

async fn c12_every_way_to_lose_a_handle_frees_the_name(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let [dropped, aborted, forgotten] = [bench.name(), bench.name(), bench.name()];
    drop(guard(bench, &locks, &dropped, 20).await?);
    falls_free(bench, &*client, &dropped, now(&*client)).await?;
    let held_by_task = guard(bench, &locks, &aborted, 20).await?;
    let task = tokio::spawn(async move { held_by_task.lost().await });
    pass(&*client, bench.step()).await;
    task.abort();
    ensure!(task.await.is_err_and(|end| end.is_cancelled()), "the task ended by itself");
    falls_free(bench, &*client, &aborted, now(&*client)).await?;
    std::mem::forget(guard(bench, &locks, &forgotten, 2).await?);
    pass(&*client, bench.ttls(4).get()).await;
    held(&*client, &bench.claim(&forgotten)).await?;
    locks.close().await?;
    is_free(bench, &*client, &forgotten).await
}

async fn c57_guard_may_end_in_another_task_thread_or_runtime(bench: &Bench) -> Verdict {
    let locks: Locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let first = guard(bench, &locks, &name, 20).await?;
    let in_a_task = tokio::spawn(async move {
        ensure!(first.is_held(), "sent to another task it is lost");
        first.release().await?;
        Ok::<_, Failure>(())
    });
    in_a_task.await??;
    is_free(bench, &*client, &name).await?;
    let second = guard(bench, &locks, &name, 20).await?;
    let on_a_thread = thread::spawn(move || drop(second));
    ensure!(on_a_thread.join().is_ok(), "dropped on another thread it panics");
    falls_free(bench, &*client, &name, now(&*client)).await?;
    if bench.time() == Time::Paused {
        return Ok(()); // another runtime has another clock
    }
    let third = guard(bench, &locks, &name, 20).await?;
    on_its_own_runtime(move || async move {
        ensure!(third.is_held(), "sent to another runtime it is lost");
        third.release().await?;
        Ok(())
    })?;
    is_free(bench, &*client, &name).await
}
