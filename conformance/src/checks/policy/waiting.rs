//! Waiting for another process.

use std::time::Duration;

use futures_util::future::join;
use leasehold_api::ErrorKind;

use super::super::steps::{held, is_free, kept, needs_waking, now, pass, release, take};
use super::steps::{error, falls_free, guard, settle};
use crate::bench::Bench;
use crate::ensure;
use crate::scripted::{Call, Delay, Effect, Landing, Step, Verb};
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Waiting:
    wait_ends_in_time [policy], "D4.8", "a wait for a held name ends at its end, with the last holder";
    try_never_waits [policy], "D3.2", "try_acquire of a held name is none at once, and leaves no place in line";
    waiter_gets_what_is_released [policy], "6.4, D4.7", "a waiter of another client is granted within a request's time of the release";
    f77_waiter_needs_no_messages [policy], "6.7, D4.7", "with every wake-up lost, a waiter is granted within a third of its TTL";
    c27_c102_waiter_outlives_a_crashed_holder [policy], "6.7, 1.4", "a waiter is granted when the lease of a holder that is gone ends";
    waiter_that_gives_up_leaves_nothing [policy], "6.6, D4.7", "after 10 waits that ended, the next release goes to who waits";
    c123_waiter_waits_many_ttls [policy], "6.2", "a waiter of a short TTL waits for a long lease, and is woken";
    waiting_does_not_poll_busily [policy], "D4.7", "in 3 TTLs of waiting a waiter asks a few times";
    c103_wait_bounds_only_the_wait [policy], "D3.2", "a short wait with a long TTL, and the reverse, keep apart";
    waiter_on_a_slow_link_keeps_nobody_out [policy], "D4.5, D4.7", "a waiter whose answers come after half its TTL is granted again and again and does not know: others have their turn all the same";
    turn_at_the_end_of_a_wait_does_not_prolong_it [policy], "D4.8", "a wait behind a local guard that is let go as the wait ends is over, though the store is silent";
}

async fn wait_ends_in_time(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 40)).await?;
    let lock = bench.lock(&locks, &lease.name, 4)?;
    for wait in [Duration::ZERO, bench.ttl().get() / 2, bench.ttl().get() * 2] {
        let start = now(&*client);
        let ended = error(lock.acquire_within(wait).await, ErrorKind::NotAcquired)?;
        let took = now(&*client).since(start);
        ensure!(took >= wait, "a wait of {wait:?} took {took:?}");
        ensure!(took <= wait + bench.late(), "a wait of {wait:?} took {took:?}");
        if let Some(holder) = ended.holder() {
            ensure!(holder.owner == lease.owner, "the last holder is said to be {holder}");
        }
    }
    Ok(())
}

async fn try_never_waits(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 40)).await?;
    let lock = bench.lock(&locks, &lease.name, 4)?;
    let start = now(&*client);
    ensure!(lock.try_acquire().await?.is_none(), "a held name was granted");
    let took = now(&*client).since(start);
    ensure!(took <= bench.late(), "it took {took:?}");
    let calls = scripted.calls();
    ensure!(calls.len() == 1, "an uncontended look took {} calls", calls.len());
    ensure!(calls.iter().all(|call| !call.flag), "try_acquire queued");
    Ok(())
}

async fn waiter_gets_what_is_released(bench: &Bench) -> Verdict {
    let [one, two] = [bench.locks().await?, bench.locks().await?];
    let client = bench.client().await?;
    needs_waking(&*client)?;
    let name = bench.name();
    let guard = guard(bench, &one, &name, 40).await?;
    let lock = bench.lock(&two, &name, 40)?;
    let waiter = tokio::spawn(async move { lock.acquire_unbounded().await });
    settle(bench, &*client).await;
    let token = guard.token()?;
    let start = now(&*client);
    guard.release().await?;
    let next = waiter.await??;
    let took = now(&*client).since(start);
    ensure!(took <= bench.late(), "a waiter got the name {took:?} after its release");
    ensure!(next.token()? > token, "the token did not rise");
    next.release().await?;
    Ok(())
}

async fn f77_waiter_needs_no_messages(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    scripted.always(Verb::Wake, Step::Never(Effect::Not));
    let lease = take(&*client, &bench.long_claim(&bench.name(), 60)).await?;
    let lock = bench.lock(&locks, &lease.name, 3)?;
    let waiter = tokio::spawn(async move { lock.acquire_unbounded().await });
    settle(bench, &*client).await;
    let latest = now(&*client).saturating_add(bench.ttl().get() + bench.late());
    release(&*client, &lease.ticket()).await?;
    waiter.await??.release().await?;
    let late = now(&*client).since(latest);
    ensure!(late.is_zero(), "without messages a waiter came {late:?} too late");
    Ok(())
}

async fn c27_c102_waiter_outlives_a_crashed_holder(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 2)).await?;
    // Plus the jitter that keeps many waiters apart.
    let jitter = (bench.ttls(30).get() / 50).min(Duration::from_millis(100)) + bench.step();
    let ends = now(&*client).saturating_add(kept(&*client, lease.ttl) + jitter);
    let lock = bench.lock(&locks, &lease.name, 30)?;
    lock.acquire_within(bench.ttls(20).get()).await?.release().await?;
    let late = now(&*client).since(ends.saturating_add(bench.late()));
    ensure!(late.is_zero(), "the waiter came {late:?} after the lease's end");
    Ok(())
}

async fn waiter_that_gives_up_leaves_nothing(bench: &Bench) -> Verdict {
    let [quitters, waiters] = [bench.locks().await?, bench.locks().await?];
    let client = bench.client().await?;
    needs_waking(&*client)?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 200)).await?;
    let short = bench.lock(&quitters, &lease.name, 100)?;
    for _ in 0..10 {
        error(short.acquire_within(bench.step()).await, ErrorKind::NotAcquired)?;
    }
    settle(bench, &*client).await;
    let lock = bench.lock(&waiters, &lease.name, 100)?;
    let waiter = tokio::spawn(async move { lock.acquire_unbounded().await });
    settle(bench, &*client).await;
    let start = now(&*client);
    release(&*client, &lease.ticket()).await?;
    let next = waiter.await??;
    let took = now(&*client).since(start);
    ensure!(took <= bench.late(), "a waiter got the name {took:?} after its release");
    next.release().await?;
    is_free(bench, &*client, &lease.name).await
}

async fn c123_waiter_waits_many_ttls(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    needs_waking(&*client)?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 60)).await?;
    let lock = bench.lock(&locks, &lease.name, 1)?;
    let waiter = tokio::spawn(async move { lock.acquire_unbounded().await });
    pass(&*client, bench.ttls(4).get()).await;
    let start = now(&*client);
    release(&*client, &lease.ticket()).await?;
    let next = waiter.await??;
    let took = now(&*client).since(start);
    ensure!(took <= bench.late(), "a waiter got the name {took:?} after its release");
    next.release().await?;
    Ok(())
}

async fn waiting_does_not_poll_busily(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 60)).await?;
    let lock = bench.lock(&locks, &lease.name, 1)?;
    let waits = lock.acquire_within(bench.ttls(3).get()).await;
    error(waits, ErrorKind::NotAcquired)?;
    let calls = scripted.count(Verb::Acquire);
    // Once before it queues, then three times a TTL, and once at the end.
    ensure!(calls <= 14, "a waiter asked {calls} times in 3 TTLs");
    ensure!(calls >= 4, "a waiter asked {calls} times in 3 TTLs: its place in line ran out");
    Ok(())
}

async fn c103_wait_bounds_only_the_wait(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let short_wait = bench.lock(&locks, &name, 40)?;
    let guard = short_wait.acquire_within(bench.ttl().get() / 4).await?;
    pass(&*client, bench.ttl().get()).await;
    ensure!(guard.remaining() > bench.ttls(20).get(), "{:?} remain", guard.remaining());
    let start = now(&*client);
    let short_ttl = bench.lock(&locks, &name, 1)?;
    let wait = bench.ttl().get() * 2;
    error(short_ttl.acquire_within(wait).await, ErrorKind::NotAcquired)?;
    let took = now(&*client).since(start);
    ensure!(took >= wait && took <= wait + bench.late(), "a wait of {wait:?} took {took:?}");
    guard.release().await?;
    let guard = short_ttl.acquire_within(wait * 10).await?;
    ensure!(guard.remaining() <= bench.ttl().get(), "{:?} remain", guard.remaining());
    held(&*client, &bench.claim(&name)).await?;
    drop(guard);
    falls_free(bench, &*client, &name, now(&*client)).await
}

async fn waiter_on_a_slow_link_keeps_nobody_out(bench: &Bench) -> Verdict {
    let (scripted, slow) = bench.scripted().await?;
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    // Without it a waiter may come a third of its TTL later.
    needs_waking(&*client)?;
    let name = bench.name();
    let ttl = bench.ttls(3).get();
    scripted.always(Verb::Acquire, Step::Late(Delay::For(ttl / 2), Landing::Before));
    let slow = bench.lock(&slow, &name, 3)?;
    let waiter = tokio::spawn(async move { slow.acquire_unbounded().await });
    let lock = bench.lock(&locks, &name, 3)?;
    for turn in 1..=6 {
        // Now it is granted, or waits behind the last turn.
        scripted.made(Verb::Acquire, 2 * turn - 1).await;
        // Not only when what was granted ends: a claim may land again at that instant.
        let wait = ttl * 2 / 3 + bench.late();
        let guard = lock.acquire_within(wait).await.map_err(|error| {
            Failure::failed(format!("turn {turn} of a healthy waiter: {error}"))
        })?;
        guard.release().await?;
    }
    waiter.abort();
    let calls = scripted.calls();
    let asked = |owner| calls.iter().filter(|call| is_acquire(call) && call.owner == owner).count();
    let most = calls.iter().map(|call| asked(call.owner)).max();
    ensure!(most <= Some(2), "an owner without answers was asked for {most:?} times");
    falls_free(bench, &*client, &name, now(&*client).saturating_add(ttl)).await
}

fn is_acquire(call: &Call) -> bool {
    call.verb == Verb::Acquire
}

async fn turn_at_the_end_of_a_wait_does_not_prolong_it(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let wait = bench.ttl().get();
    // By hand-over the turn comes while the release is under way, else when the guard is dropped.
    for fails in [Step::Error(ErrorKind::Unreachable, Effect::Not), Step::Never(Effect::Not)] {
        let (scripted, locks) = bench.scripted().await?;
        let name = bench.name();
        let holder = guard(bench, &locks, &name, 12).await?;
        scripted.always(Verb::HandOver, fails.clone());
        scripted.always(Verb::Acquire, Step::Never(Effect::Not));
        let lock = bench.lock(&locks, &name, 12)?;
        let start = now(&*client);
        let lets_go = async {
            client.clock().sleep_until(start.saturating_add(wait)).await;
            // Over a driver that fails it says so.
            let _ = holder.release().await;
        };
        let waits = async {
            let answer = lock.acquire_within(wait).await;
            (answer, now(&*client).since(start))
        };
        // In this order: the guard is let go before the waiter looks at the clock.
        let (_, (answer, took)) = join(lets_go, waits).await;
        ensure!(answer.is_err(), "a silent store has granted the name");
        ensure!(took >= wait, "a wait of {wait:?} took {took:?}");
        ensure!(took <= wait + bench.late(), "after {fails:?} a wait of {wait:?} took {took:?}");
    }
    Ok(())
}
