//! Waiting within one client: first in, first out, and hand-over.

use std::sync::{Arc, Mutex};

use leasehold::{Guard, Locks};
use leasehold_api::{Acquired, Backend, Error, ErrorKind, Instant, LockName, Order, Waking};
use tokio::task::JoinHandle;

use super::super::steps::{held, is_free, needs_waking, now, pass, take};
use super::steps::{error, falls_free, guard, settle};
use crate::bench::Bench;
use crate::ensure;
use crate::scripted::{Delay, Effect, Landing, Step, Verb};
use crate::table::checks;
use crate::verdict::{End, Failure, Verdict};

checks! { HandOver:
    local_waiters_are_served_in_order [policy], "D4.7", "10 tasks of one client get the name in the order they asked";
    local_waiters_cost_one_hand_over_each [policy], "D4.7, D10", "each hand-over within a client is one call";
    every_17th_hand_over_yields [policy], "D4.7, 7.3", "after 16 local hand-overs another process has its turn";
    local_waiters_share_one_place_in_line [policy], "D4.7", "of 20 tasks that wait for another process one talks to the store";
    unanswered_hand_over_is_not_repeated [policy], "7.4, 10.3", "the next waiter finds the grant by its own owner, or asks anew, and the old lease is freed";
    c64_failed_hand_over_frees_the_old_lease [policy], "10.3", "after an error the old lease is released by ticket and the waiter goes on";
    c64_lost_lease_sends_the_waiter_to_the_store [policy], "7.2, D4.7", "behind a guard whose lease was evicted, or whose record is gone, a waiter gets the name when that guard is let go";
    late_hand_over_leaves_one_holder [policy], "1.2, D4.2", "a waiter to whom the name is handed after its own deadline finds its grant, and keeps it alone";
    waiter_that_leaves_a_hand_over_holds_nobody_up [policy], "7.4, D4.7", "one that is dropped while the name is handed to it is passed over, and the next is served in time";
}

async fn local_waiters_are_served_in_order(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let first = guard(bench, &locks, &name, 40).await?;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..10 {
        let lock = bench.lock(&locks, &name, 40)?;
        let served = served.clone();
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire_unbounded().await?;
            served.lock().expect("no holder panics").push(number);
            guard.release().await?;
            Ok::<_, Failure>(())
        }));
        pass(&*client, bench.step()).await;
    }
    first.release().await?;
    for task in tasks {
        task.await??;
    }
    let served = served.lock().expect("no holder panics").clone();
    ensure!(served.is_sorted(), "they were served in the order {served:?}");
    is_free(bench, &*client, &name).await
}

async fn local_waiters_cost_one_hand_over_each(bench: &Bench) -> Verdict {
    const TASKS: usize = 8;
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let first = guard(bench, &locks, &name, 40).await?;
    let tasks = wait(bench, &locks, &name, TASKS)?;
    settle(bench, &*client).await;
    let before = scripted.calls().len();
    first.release().await?;
    for task in tasks {
        task.await??;
    }
    let handed = scripted.count(Verb::HandOver);
    ensure!(handed == TASKS, "{TASKS} tasks took {handed} hand-overs");
    let all = scripted.calls().len() - before;
    ensure!(all == TASKS + 1, "{TASKS} hand-overs and a release took {all} calls");
    Ok(())
}

type Task = JoinHandle<Result<(), Error>>;

/// Tasks that wait for the name, and release it once they have it.
fn wait(bench: &Bench, locks: &Locks, name: &LockName, tasks: usize) -> Result<Vec<Task>, Failure> {
    let lock = bench.lock(locks, name, 40)?;
    let task = || {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire_unbounded().await?.release().await })
    };
    Ok((0..tasks).map(|_| task()).collect())
}

async fn every_17th_hand_over_yields(bench: &Bench) -> Verdict {
    const TASKS: usize = 40;
    let (scripted, locks) = bench.scripted().await?;
    let others = bench.locks().await?;
    let client = bench.client().await?;
    needs_waking(&*client)?;
    let name = bench.name();
    let first = guard(bench, &locks, &name, 40).await?;
    let tasks = wait(bench, &locks, &name, TASKS)?;
    let lock = bench.lock(&others, &name, 40)?;
    let theirs = tokio::spawn(async move { lock.acquire_unbounded().await });
    settle(bench, &*client).await;
    first.release().await?;
    let theirs = theirs.await??;
    let before = scripted.count(Verb::HandOver);
    theirs.release().await?;
    ensure!(before <= 17, "another process waited for {before} local hand-overs");
    for task in tasks {
        task.await??;
    }
    let yields: Vec<_> =
        scripted.calls().into_iter().filter(|c| c.verb == Verb::HandOver).collect();
    let longest = yields.split(|call| call.flag).map(<[_]>::len).max().unwrap_or(0);
    // Where the queue is first come, first served, others have their turn before.
    let in_turn = client.profile().order == Order::Fifo || longest == 16;
    ensure!(in_turn, "{longest} hand-overs in a row did not yield");
    is_free(bench, &*client, &name).await
}

async fn local_waiters_share_one_place_in_line(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 60)).await?;
    let tasks = wait(bench, &locks, &lease.name, 20)?;
    settle(bench, &*client).await;
    let mut owners: Vec<_> = scripted.calls().into_iter().filter_map(|call| call.owner).collect();
    owners.sort();
    owners.dedup();
    ensure!(owners.len() == 1, "{} of 20 waiting tasks talk to the store", owners.len());
    super::super::steps::release(&*client, &lease.ticket()).await?;
    for task in tasks {
        task.await??;
    }
    is_free(bench, &*client, &lease.name).await
}

async fn unanswered_hand_over_is_not_repeated(bench: &Bench) -> Verdict {
    for effect in [Effect::Done, Effect::Not] {
        mends(bench, Step::Never(effect)).await?;
    }
    let late = Delay::For(bench.ttls(3).get() / 2);
    mends(bench, Step::Late(late, Landing::Surely)).await
}

async fn c64_failed_hand_over_frees_the_old_lease(bench: &Bench) -> Verdict {
    mends(bench, Step::Error(ErrorKind::Unreachable, Effect::Not)).await?;
    mends(bench, Step::Error(ErrorKind::Indeterminate, Effect::Done)).await
}

async fn mends(bench: &Bench, step: Step) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    scripted.next(Verb::HandOver, [step.clone()]);
    let first = guard(bench, &locks, &name, 3).await?;
    let old = first.token()?;
    let lock = bench.lock(&locks, &name, 3)?;
    let waiter = tokio::spawn(async move { lock.acquire_unbounded().await });
    settle(bench, &*client).await;
    let released = first.release().await;
    error(
        released,
        match step {
            Step::Error(kind, _) => kind,
            _ => ErrorKind::Indeterminate,
        },
    )?;
    let start = now(&*client);
    let next = waiter.await??;
    let took = now(&*client).since(start);
    ensure!(took <= bench.ttls(3).get(), "after {step:?} the waiter came {took:?} late");
    ensure!(next.token()? > old, "the token did not rise");
    let handed = scripted.count(Verb::HandOver);
    ensure!(handed == 1, "the hand-over was sent {handed} times");
    // Whatever is still on its way must neither free nor double what is held now.
    let end = now(&*client).saturating_add(bench.ttls(4).get());
    while now(&*client) < end {
        ensure!(next.is_held(), "after {step:?} the next holder lost the name");
        held(&*client, &bench.claim(&name)).await?;
        pass(&*client, bench.step()).await;
    }
    next.release().await?;
    falls_free(bench, &*client, &name, now(&*client)).await
}

/// How a lease ends behind its guard's back.
#[derive(Debug, Clone, Copy)]
enum Loses {
    Evicted,
    Deleted,
}

async fn c64_lost_lease_sends_the_waiter_to_the_store(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let mut shown = false;
    if client.profile().operator {
        behind_a_lost_lease(bench, &*client, Loses::Evicted).await?;
        shown = true;
    }
    match behind_a_lost_lease(bench, &*client, Loses::Deleted).await {
        Err(failure) if shown && failure.end() == End::NotApplicable => Ok(()),
        verdict => verdict,
    }
}

async fn behind_a_lost_lease(bench: &Bench, client: &dyn Backend, loses: Loses) -> Verdict {
    for (bounded, dropped) in [(true, false), (false, false), (true, true), (false, true)] {
        let locks = bench.locks().await?;
        let name = bench.name();
        // A third of its TTL is long: no renewal tells the guard before it is let go.
        let guard = guard(bench, &locks, &name, 40).await?;
        let token = guard.token()?;
        let lock = bench.lock(&locks, &name, 40)?;
        let wait = bench.ttls(40).get();
        let waiter = tokio::spawn(async move {
            if bounded { lock.acquire_within(wait).await } else { lock.acquire_unbounded().await }
        });
        settle(bench, client).await;
        match loses {
            Loses::Evicted => {
                ensure!(client.evict(&name, token).await?, "the lease was not evicted");
            }
            Loses::Deleted => bench.store().delete_record(&name).await?,
        }
        let start = now(client);
        if dropped {
            drop(guard);
        } else {
            error(guard.release().await, ErrorKind::Lost)?;
        }
        let next = served(bench, client, waiter, start).await.map_err(|failure| {
            let how = if dropped { "dropped" } else { "released" };
            let why = failure.why();
            Failure::failed(format!("{loses:?}, {how} (a bounded wait: {bounded}): {why}"))
        })?;
        ensure!(next.token()? > token, "the token did not rise");
        next.release().await?;
        is_free(bench, client, &name).await?;
    }
    Ok(())
}

/// What a waiter gets, which must come by `latest` (plus what the bench allows).
async fn served(
    bench: &Bench,
    client: &dyn Backend,
    waiter: JoinHandle<Result<Guard, Error>>,
    latest: Instant,
) -> Result<Guard, Failure> {
    let (clock, abort) = (client.clock(), waiter.abort_handle());
    tokio::select! {
        answer = waiter => Ok(answer??),
        () = clock.sleep_until(latest.saturating_add(bench.late())) => {
            abort.abort();
            Err(Failure::failed("the waiter was not served in time"))
        }
    }
}

async fn waiter_that_leaves_a_hand_over_holds_nobody_up(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let ttl = bench.ttls(3).get();
    let late = |landing| Step::Late(Delay::For(ttl / 5), landing);
    for step in [
        late(Landing::Before),
        late(Landing::After),
        late(Landing::Surely),
        Step::Never(Effect::Done),
        Step::Never(Effect::Not),
    ] {
        let (scripted, locks) = bench.scripted().await?;
        let name = bench.name();
        scripted.next(Verb::HandOver, [step.clone()]);
        let first = guard(bench, &locks, &name, 3).await?;
        let lock = bench.lock(&locks, &name, 3)?;
        let mut waiters = Vec::new();
        for _ in 0..2 {
            let lock = lock.clone();
            waiters.push(tokio::spawn(async move { lock.acquire_unbounded().await }));
            settle(bench, &*client).await;
        }
        let releases = tokio::spawn(first.release());
        scripted.made(Verb::HandOver, 1).await;
        // A hand-over that is not answered is given up after a third of the TTL; a waiter that no
        // message wakes asks as often.
        let mut latest = now(&*client).saturating_add(ttl / 3);
        if client.profile().waking == Waking::Time {
            latest = latest.saturating_add(ttl / 3);
        }
        waiters.remove(0).abort();
        let next = served(bench, &*client, waiters.remove(0), latest)
            .await
            .map_err(|failure| Failure::failed(format!("after {step:?}: {}", failure.why())))?;
        // What it says is the answer's affair.
        let _ = releases.await?;
        ensure!(next.is_held(), "after {step:?} the next holder lost the name");
        next.release().await?;
        is_free(bench, &*client, &name).await?;
    }
    Ok(())
}

async fn late_hand_over_leaves_one_holder(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let first = guard(bench, &locks, &name, 20).await?;
    let lock = bench.lock(&locks, &name, 2)?.keep_alive(false);
    let wait = bench.ttls(40).get();
    let waiter = tokio::spawn(async move { lock.acquire_within(wait).await });
    settle(bench, &*client).await;
    // It lands within the bound of the first one's release, and past the waiter's deadline.
    let late = Delay::For(bench.ttls(3).get());
    scripted.next(Verb::HandOver, [Step::Late(late, Landing::After)]);
    first.release().await?;
    let guard = waiter.await??;
    ensure!(guard.is_held(), "the waiter's guard is lost from the start");
    let mut looks = 0;
    while guard.is_held() {
        let other = client.acquire(&bench.claim(&name)).await?;
        let granted = matches!(other, Acquired::Granted(_));
        ensure!(!granted || !guard.is_held(), "two hold after {looks} looks");
        looks += 1;
        pass(&*client, bench.step()).await;
    }
    ensure!(looks > 5, "the guard was held for {looks} looks only");
    Ok(())
}
