//! What policy makes of errors, lost and late answers to an acquire.

use futures_util::future::try_join_all;
use leasehold_api::ErrorKind;

use super::super::steps::{now, take};
use super::steps::{error, falls_free};
use crate::bench::Bench;
use crate::ensure;
use crate::scripted::{Delay, Effect, Step, Verb};
use crate::table::checks;
use crate::verdict::Verdict;

checks! { Faults:
    f15_c145_lost_answer_is_asked_for_again_by_the_same_owner [policy], "10.1, 1.3", "a grant whose answer was lost becomes the guard of the same owner and token";
    unreachable_store_is_tried_until_the_wait_ends [policy], "D3.2", "acquire succeeds once the store answers, and else ends with the wait";
    refusal_ends_at_once [policy], "D3.2", "what a retry can't mend ends the wait at once, with its own kind";
    c150_c160_silent_store_ends_in_time [policy], "8.2, D4.8", "over a store that never answers every call ends by its deadline";
    refusal_at_the_end_of_a_wait_is_told [policy], "D3.2", "what a retry can't mend is told as such, also where the wait is over with it";
    attempt_cut_short_hides_nothing [policy], "D3.2, 10.2", "what was known before the end of the wait cut an attempt short is told, and what that may have left is freed";
    instant_errors_do_not_spin [policy], "D4.7", "over a store that fails at once, a client asks a few times, not thousands";
}

async fn f15_c145_lost_answer_is_asked_for_again_by_the_same_owner(bench: &Bench) -> Verdict {
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

async fn c150_c160_silent_store_ends_in_time(bench: &Bench) -> Verdict {
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
    let kinds = [ErrorKind::Unreachable, ErrorKind::Busy, ErrorKind::Indeterminate];
    let each = kinds.into_iter().flat_map(|kind| {
        [Effect::Not, Effect::Done].map(|effect| instant_error_does_not_spin(bench, kind, effect))
    });
    try_join_all(each).await.map(drop)
}

async fn instant_error_does_not_spin(bench: &Bench, kind: ErrorKind, effect: Effect) -> Verdict {
    const MOST: u64 = 400;
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
    Ok(())
}

async fn refusal_at_the_end_of_a_wait_is_told(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    // Asked again a TTL of the bench later, or after a pause.
    let known = [Step::Ok, Step::Error(ErrorKind::Unreachable, Effect::Not)];
    for (known, kind) in known.into_iter().zip([ErrorKind::Auth, ErrorKind::Refused]) {
        let (scripted, locks) = bench.scripted().await?;
        let lease = take(&*client, &bench.long_claim(&bench.name(), 60)).await?;
        // The wait is over with the answer, which nothing has cut short.
        let frozen = Delay::Frozen(bench.ttls(2).get(), bench.time());
        scripted.next(Verb::Acquire, [known.clone(), known, Step::LateError(frozen, kind)]);
        let lock = bench.lock(&locks, &lease.name, 3)?;
        error(lock.acquire_within(bench.ttl().get() * 5 / 4).await, kind)?;
    }
    Ok(())
}

async fn attempt_cut_short_hides_nothing(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let wait = bench.ttl().get() * 5 / 4;
    for kind in [ErrorKind::Unreachable, ErrorKind::Busy] {
        let (scripted, locks) = bench.scripted().await?;
        let name = bench.name();
        scripted.plan(Verb::Acquire, move |number| match number {
            0 => Step::Error(kind, Effect::Not),
            _ => Step::Never(Effect::Done),
        });
        let start = now(&*client);
        let lock = bench.lock(&locks, &name, 12)?;
        error(lock.acquire_within(wait).await, kind)?;
        let took = now(&*client).since(start);
        ensure!(took >= wait && took <= wait + bench.late(), "a wait of {wait:?} took {took:?}");
        falls_free(bench, &*client, &name, now(&*client)).await?;
    }
    let (scripted, locks) = bench.scripted().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 60)).await?;
    scripted.plan(Verb::Acquire, |number| match number {
        0 | 1 => Step::Ok,
        _ => Step::Never(Effect::Not),
    });
    // Asked for the third time a TTL of the bench later.
    let lock = bench.lock(&locks, &lease.name, 3)?;
    let ended = error(lock.acquire_within(wait).await, ErrorKind::NotAcquired)?;
    if let Some(holder) = ended.holder() {
        ensure!(holder.owner == lease.owner, "the last holder is said to be {holder}");
    }
    Ok(())
}
