//! Local waiters, and a release that yields or is stuck.

use leasehold_api::{Claim, Order};

use super::super::steps::{is_free, is_woken, needs_waking, now, pass, queue, release, take};
use super::steps::{guard, settle};
use crate::bench::Bench;
use crate::ensure;
use crate::scripted::{Delay, Effect, Gate, Landing, Step, Verb};
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { HandOver:
    waiter_that_leaves_a_yielded_hand_over_leaves_no_place [policy], "7.3, 10.2", "what a waiter has in the store's list that left while a hand-over to it yielded is freed, so that the next one is woken";
    waiter_behind_a_stuck_release_goes_to_the_store_at_its_deadline [policy], "D4.7", "who waits for a guard of the same client whose release is not answered asks the store once that guard's deadline has passed";
}

async fn waiter_that_leaves_a_yielded_hand_over_leaves_no_place(bench: &Bench) -> Verdict {
    needs_waking(&*bench.client().await?)?;
    for landing in [Landing::Before, Landing::After] {
        leaves_a_yielded_hand_over(bench, landing)
            .await
            .map_err(|failure| Failure::failed(format!("{landing:?}: {}", failure.why())))?;
    }
    Ok(())
}

async fn leaves_a_yielded_hand_over(bench: &Bench, landing: Landing) -> Verdict {
    let [theirs, last] = bench.clients().await?;
    // So many are served in a row; the next one yields.
    let served = if theirs.profile().order == Order::Fifo { 0 } else { 16 };
    let (scripted, locks) = bench.scripted().await?;
    let name = bench.name();
    let answered = Gate::closed();
    let on_its_way = Step::Late(Delay::Until(answered.clone()), landing);
    scripted.plan(Verb::HandOver, move |number| match usize::try_from(number) {
        Ok(at) if at == served => on_its_way.clone(),
        _ => Step::Ok,
    });
    let first = guard(bench, &locks, &name, 40).await?;
    let lock = bench.lock(&locks, &name, 40)?;
    let mut tasks = Vec::new();
    for _ in 0..=served {
        let lock = lock.clone();
        tasks.push(tokio::spawn(async move { lock.acquire_unbounded().await?.release().await }));
        pass(&*theirs, bench.step()).await; // they stand in line in this order
    }
    let next: Claim = bench.long_claim(&name, 40).with_queue(true);
    queue(&*theirs, &next).await?;
    settle(bench, &*theirs).await;
    // It may be this one's hand-over that is not answered.
    let releases = tokio::spawn(first.release());
    scripted.made(Verb::HandOver, served + 1).await;
    let leaves = tasks.pop().expect("one more than are served");
    leaves.abort();
    ensure!(leaves.await.is_err(), "it was served");
    settle(bench, &*theirs).await;
    answered.open();
    releases.await??;
    for task in tasks {
        task.await??;
    }
    is_woken(bench, &*theirs, &next).await?;
    let lease = take(&*theirs, &next).await?;
    settle(bench, &*theirs).await;
    let claim = bench.long_claim(&name, 40).with_queue(true);
    queue(&*last, &claim).await?;
    release(&*theirs, &lease.ticket()).await?;
    is_woken(bench, &*last, &claim).await?;
    let lease = take(&*last, &claim).await?;
    release(&*last, &lease.ticket()).await?;
    is_free(bench, &*last, &name).await
}

async fn waiter_behind_a_stuck_release_goes_to_the_store_at_its_deadline(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let (scripted, locks) = bench.scripted().await?;
    let name = bench.name();
    let lock = bench.lock(&locks, &name, 5)?.keep_alive(false);
    let first = lock.try_acquire().await?.ok_or_else(|| Failure::failed("it must be free"))?;
    // So late that its release is given up after its deadline only.
    pass(&*client, bench.ttls(4).get()).await;
    scripted.always(Verb::Release, Step::Never(Effect::Not));
    let deadline = now(&*client).saturating_add(first.remaining());
    let releases = tokio::spawn(first.release());
    scripted.made(Verb::Release, 1).await;
    let waiter = tokio::spawn(async move { lock.acquire_unbounded().await });
    scripted.made(Verb::Acquire, 2).await;
    let calls = scripted.calls();
    let asked = calls.iter().filter(|call| call.verb == Verb::Acquire).nth(1);
    let asked = asked.expect("two were made").at;
    ensure!(asked >= deadline, "it asked {:?} before the deadline", deadline.since(asked));
    let late = asked.since(deadline);
    ensure!(late <= bench.late(), "it asked {late:?} after the deadline");
    scripted.heal();
    let next = waiter.await??;
    // Given up by its own limit, whatever becomes of it.
    let _ = releases.await?;
    ensure!(next.is_held(), "the clean-up of the old lease took the next one");
    next.release().await?;
    is_free(bench, &*client, &name).await
}
