//! What policy makes of errors, lost and late answers to an acquire.

use leasehold_api::ErrorKind;

use super::super::steps::{kept, now};
use super::steps::{error, falls_free};
use crate::bench::Bench;
use crate::ensure;
use crate::scripted::{Delay, Effect, Landing, Step, Verb};
use crate::table::checks;
use crate::verdict::Verdict;

checks! { Faults:
    lost_answer_is_asked_for_again_by_the_same_owner [policy], "10.1, 1.3", "a grant whose answer was lost becomes the guard of the same owner and token";
    unreachable_store_is_tried_until_the_wait_ends [policy], "D3.2", "acquire succeeds once the store answers, and else ends with the wait";
    refusal_ends_at_once [policy], "D3.2", "what a retry can't mend ends the wait at once, with its own kind";
    silent_store_ends_in_time [policy], "8.2, D4.8", "over a store that never answers every call ends by its deadline";
    instant_errors_do_not_spin [policy], "D4.7", "over a store that fails at once, a client asks a few times, not thousands";
    failed_release_is_finished_in_the_background [policy], "10.2, D4.5", "the error is told, and the name freed once the store answers";
    late_claim_lives_one_ttl_at_most [policy], "10.2, D4.5", "a claim that lands after its clean-up is freed again, or ends at its TTL";
}

async fn lost_answer_is_asked_for_again_by_the_same_owner(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    for step in [
        Step::Never(Effect::Done),
        Step::Error(ErrorKind::Indeterminate, Effect::Done),
        Step::Error(ErrorKind::Unreachable, Effect::Not),
    ] {
        let before = scripted.calls().len();
        scripted.next(Verb::Acquire, [step.clone()]);
        let lock = bench.lock(&locks, &bench.name(), 3)?;
        let guard = lock.acquire_within(bench.ttls(20).get()).await?;
        let owners: Vec<_> = scripted.calls()[before..].iter().filter_map(|c| c.owner).collect();
        ensure!(owners.len() >= 2, "after {step:?} it was granted at once");
        let same = owners.iter().all(|owner| *owner == guard.owner());
        ensure!(same, "after {step:?} the owners are {owners:?}");
        let stored = super::super::steps::held(&*client, &bench.claim(guard.name())).await?;
        if let Some(holder) = stored.holder {
            ensure!(holder.token == guard.token()?, "the store has {holder}");
        }
        guard.release().await?;
    }
    Ok(())
}

async fn unreachable_store_is_tried_until_the_wait_ends(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    for kind in [ErrorKind::Unreachable, ErrorKind::Busy, ErrorKind::NotPrimary] {
        let name = bench.name();
        scripted.next(Verb::Acquire, vec![Step::Error(kind, Effect::Not); 3]);
        let lock = bench.lock(&locks, &name, 4)?;
        lock.acquire_within(bench.ttls(40).get()).await?.release().await?;
        scripted.always(Verb::Acquire, Step::Error(kind, Effect::Not));
        let wait = bench.ttl().get();
        let start = now(&*client);
        error(lock.acquire_within(wait).await, kind)?;
        let took = now(&*client).since(start);
        ensure!(took >= wait / 2 && took <= wait + bench.late(), "it ended after {took:?}");
    }
    Ok(())
}

async fn refusal_ends_at_once(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    for kind in [ErrorKind::Auth, ErrorKind::Refused, ErrorKind::Unsupported] {
        scripted.always(Verb::Acquire, Step::Error(kind, Effect::Not));
        let lock = bench.lock(&locks, &bench.name(), 4)?;
        let start = now(&*client);
        error(lock.acquire_within(bench.ttls(20).get()).await, kind)?;
        error(lock.try_acquire().await, kind)?;
        let took = now(&*client).since(start);
        ensure!(took <= bench.late(), "{kind:?} was told after {took:?}");
    }
    Ok(())
}

async fn silent_store_ends_in_time(bench: &Bench) -> Verdict {
    for effect in [Effect::Not, Effect::Done] {
        let (scripted, locks) = bench.scripted().await?;
        let client = bench.client().await?;
        let name = bench.name();
        let ttl = bench.ttls(3).get();
        let lock = bench.lock(&locks, &name, 3)?;
        let guard = lock.acquire().await?;
        for verb in [Verb::Acquire, Verb::Release, Verb::HandOver, Verb::Renew] {
            scripted.always(verb, Step::Never(effect));
        }
        let within = |start, limit| {
            let took = now(&*client).since(start);
            ensure!(took <= limit + bench.late(), "a call took {took:?}, not {limit:?}");
            Ok(())
        };
        let start = now(&*client);
        error(guard.release().await, ErrorKind::Indeterminate)?;
        within(start, ttl / 3)?;
        let other = bench.lock(&locks, &bench.name(), 3)?;
        let start = now(&*client);
        error(other.try_acquire().await, ErrorKind::Indeterminate)?;
        within(start, ttl / 3)?;
        let start = now(&*client);
        error(other.acquire_within(ttl / 2).await, ErrorKind::Indeterminate)?;
        within(start, ttl / 2)?;
        let start = now(&*client);
        // The store stays silent: what close could not finish is an error, or is left to TTL.
        let _ = locks.close().await;
        within(start, ttl * 2)?;
    }
    Ok(())
}

async fn instant_errors_do_not_spin(bench: &Bench) -> Verdict {
    const MOST: u64 = 400;
    for kind in [ErrorKind::Unreachable, ErrorKind::Busy, ErrorKind::Indeterminate] {
        for effect in [Effect::Not, Effect::Done] {
            let (scripted, locks) = bench.scripted().await?;
            let client = bench.client().await?;
            let name = bench.name();
            let ttl = bench.ttls(2).get();
            let lock = bench.lock(&locks, &name, 2)?;
            // One that spins is stopped, so that it fails here and does not hang.
            let fails = move |number| match number {
                0..MOST => Step::Error(kind, effect),
                _ => Step::Never(Effect::Not),
            };
            let guard = lock.acquire().await?;
            scripted.plan(Verb::Renew, fails);
            super::super::steps::pass(&*client, ttl).await;
            let renewals = scripted.count(Verb::Renew);
            ensure!(renewals < 60, "{renewals} renewals of one guard failed ({kind:?}) in a TTL");
            drop(guard);
            let (scripted, locks) = bench.scripted().await?;
            scripted.plan(Verb::Acquire, fails);
            scripted.plan(Verb::Release, fails);
            let lock = bench.lock(&locks, &bench.name(), 2)?;
            let answer = lock.acquire_within(ttl).await;
            ensure!(answer.is_err(), "a grant without an answer");
            super::super::steps::pass(&*client, ttl).await;
            let claims = scripted.count(Verb::Acquire);
            ensure!(claims < 60, "{claims} claims of one waiter failed ({kind:?}) in a TTL");
            let releases = scripted.count(Verb::Release);
            ensure!(releases < 60, "{releases} clean-ups of one claim failed ({kind:?}) in a TTL");
        }
    }
    Ok(())
}

async fn failed_release_is_finished_in_the_background(bench: &Bench) -> Verdict {
    for step in [
        Step::Error(ErrorKind::Unreachable, Effect::Not),
        Step::Error(ErrorKind::Indeterminate, Effect::Not),
        Step::Never(Effect::Not),
    ] {
        let (scripted, locks) = bench.scripted().await?;
        let client = bench.client().await?;
        let name = bench.name();
        let guard = bench.lock(&locks, &name, 9)?.acquire().await?;
        scripted.next(Verb::Release, [step.clone()]);
        ensure!(guard.release().await.is_err(), "{step:?} was told as a success");
        let latest = now(&*client).saturating_add(bench.ttl().get() / 2);
        falls_free(bench, &*client, &name, latest).await?;
        let _ = locks;
    }
    Ok(())
}

async fn late_claim_lives_one_ttl_at_most(bench: &Bench) -> Verdict {
    for late in [1, 2, 4, 7] {
        let (scripted, locks) = bench.scripted().await?;
        let client = bench.client().await?;
        let name = bench.name();
        let late = bench.ttl().get() * late / 2;
        scripted.next(Verb::Acquire, [Step::Late(Delay::For(late), Landing::Surely)]);
        let lock = bench.lock(&locks, &name, 1)?;
        let start = now(&*client);
        error(lock.try_acquire().await, ErrorKind::Indeterminate)?;
        super::super::steps::pass(&*client, late).await;
        let landed = start.saturating_add(late + bench.late());
        let latest = landed.saturating_add(kept(&*client, bench.ttl()));
        falls_free(bench, &*client, &name, latest).await?;
    }
    Ok(())
}
