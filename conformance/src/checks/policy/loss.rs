//! Deadlines and the loss signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::Locks;
use leasehold_api::{Acquired, Error, ErrorKind, Instant, Loss, margin};

use super::super::steps::{held, is_free, is_held_by, lease, now, pass, take};
use super::steps::{
    deadline, error, falls_free, freeze, guard, is_lost_between, settle, stays_lost,
};
use crate::bench::Bench;
use crate::ensure;
use crate::scripted::{Delay, Effect, Gate, Landing, Step, Verb};
use crate::subject::Time;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Loss:
    healthy_guard_is_not_lost [policy], "D4.2", "over 3 TTLs a guard whose renewals are answered signals nothing";
    c99_c126_one_failed_renewal_in_three_is_no_loss [policy], "D4.2", "a guard outlives a failure of every third renewal, of every kind";
    slow_renewals_are_no_loss [policy], "D4.2", "a guard outlives renewals that take a ninth of the TTL, or a quarter: more than after which they are repeated";
    c150_unanswered_renewals_are_a_loss_at_the_deadline [policy], "2.3, D4.2", "the loss comes at the deadline of the last good answer, and nobody else was granted before";
    f10_landed_but_unanswered_renewals_are_a_loss_at_the_deadline [policy], "D4.2", "the deadline is the older one";
    failed_renewals_are_a_loss_at_the_deadline [policy], "D4.2", "a bad renewal does not move the deadline";
    lost_guard_stays_lost [policy], "D4.2", "what a renewal says after the deadline brings nothing back, and changes nothing of the next holder's";
    c33_renewal_answered_past_the_deadline_brings_nothing_back [policy], "D4.2", "a good renewal that began in time and is answered too late does not undo the loss";
    evicted_guard_learns_it_at_the_next_renewal [policy], "4.3", "the loss comes within a renewal's time, with its reason";
    loss_seen_by_the_driver_is_told_at_once [policy], "4.5", "a guard is lost with the driver's reason, and freed, whichever client of the driver it is of";
    c21_c61_grant_after_its_deadline_is_refused [policy], "D4.2", "a grant that comes after its deadline is too late, and cleaned up";
    wait_goes_on_after_a_grant_that_came_too_late [policy], "D4.2, D4.5", "another owner gets the lock within the same wait, and keeps it while the late grant is cleaned up";
    frozen_holder_is_lost_at_first_look [policy], "D4.2, D4.7", "after a freeze of 2 TTLs the first look says lost, and the next holder is left alone";
    c129_work_stops_at_the_loss [policy], "D3.2", "run ends with the loss, and the work is dropped";
    f19_c133_late_renewal_does_not_outlive_the_release [policy], "D4.6, 4.3", "a renewal that lands after the release revives nothing";
}

async fn healthy_guard_is_not_lost(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    // Long enough for a machine that is busy with other checks.
    let guard = guard(bench, &locks, &bench.name(), 4).await?;
    tokio::select! {
        loss = guard.lost() => return Err(Failure::failed(format!("a healthy guard: {loss}"))),
        () = pass(&*client, bench.ttls(12).get()) => {}
    }
    ensure!(guard.is_held(), "a healthy guard is not held");
    ensure!(!guard.lost_token().is_cancelled(), "a healthy guard's token is cancelled");
    guard.release().await?;
    Ok(())
}

async fn c99_c126_one_failed_renewal_in_three_is_no_loss(bench: &Bench) -> Verdict {
    let intervals = if bench.time() == Time::Paused { 100 } else { 12 };
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    scripted.plan(Verb::Renew, |number| {
        let failure = [
            Step::Error(ErrorKind::Unreachable, Effect::Not),
            Step::Error(ErrorKind::Busy, Effect::Not),
            Step::Never(Effect::Not),
            Step::Never(Effect::Done),
            Step::Error(ErrorKind::Indeterminate, Effect::Done),
            Step::Error(ErrorKind::Unclassified, Effect::Not),
        ];
        match number % 3 {
            1 => failure[usize::try_from(number / 3).expect("few") % failure.len()].clone(),
            _ => Step::Ok,
        }
    });
    let guard = guard(bench, &locks, &name, 2).await?;
    let end = now(&*client).saturating_add(bench.ttls(2).get() / 3 * intervals);
    while now(&*client) < end {
        ensure!(guard.is_held(), "lost after {} renewals", scripted.count(Verb::Renew));
        held(&*client, &bench.claim(&name)).await?;
        pass(&*client, bench.ttl().get() / 7).await;
    }
    let renewals = scripted.count(Verb::Renew);
    let fewest = intervals as usize / 2;
    ensure!(renewals >= fewest, "{renewals} renewals in {intervals} intervals");
    guard.release().await?;
    Ok(())
}

async fn slow_renewals_are_no_loss(bench: &Bench) -> Verdict {
    tokio::try_join!(outlives_slow_renewals(bench, 9), outlives_slow_renewals(bench, 4)).map(drop)
}

/// A guard whose renewals take this part of the TTL.
async fn outlives_slow_renewals(bench: &Bench, part: u32) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let slow = Delay::For(bench.ttls(4).get() / part);
    scripted.plan(Verb::Renew, move |number| {
        Step::Late(slow.clone(), if number % 2 == 0 { Landing::Before } else { Landing::After })
    });
    let guard = guard(bench, &locks, &bench.name(), 4).await?;
    tokio::select! {
        loss = guard.lost() => return Err(Failure::failed(format!("a slow renewal: {loss}"))),
        () = pass(&*client, bench.ttls(10).get()) => {}
    }
    guard.release().await?;
    Ok(())
}

async fn c150_unanswered_renewals_are_a_loss_at_the_deadline(bench: &Bench) -> Verdict {
    lost_at_the_deadline(bench, Step::Never(Effect::Not)).await
}

async fn f10_landed_but_unanswered_renewals_are_a_loss_at_the_deadline(bench: &Bench) -> Verdict {
    lost_at_the_deadline(bench, Step::Never(Effect::Done)).await
}

async fn failed_renewals_are_a_loss_at_the_deadline(bench: &Bench) -> Verdict {
    lost_at_the_deadline(bench, Step::Error(ErrorKind::Unreachable, Effect::Not)).await?;
    lost_at_the_deadline(bench, Step::Error(ErrorKind::Refused, Effect::Done)).await
}

async fn lost_at_the_deadline(bench: &Bench, renewals: Step) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    scripted.always(Verb::Renew, renewals);
    // What is left of it after the loss is for the TTL to end.
    scripted.always(Verb::Release, Step::Error(ErrorKind::Unreachable, Effect::Not));
    let ttl = bench.ttls(2).get();
    let earliest = now(&*client).saturating_add(ttl - margin(ttl));
    let guard = guard(bench, &locks, &name, 2).await?;
    let latest = deadline(bench, &*client, 2);
    let contender = bench.claim(&name);
    let loses = is_lost_between(bench, &*client, &guard, earliest, latest);
    let contends = async {
        loop {
            held(&*client, &contender).await?;
            pass(&*client, bench.step()).await;
        }
    };
    let loss = tokio::select! {
        biased;
        loss = loses => loss?,
        never = contends => return never,
    };
    ensure!(loss == Loss::Deadline, "lost at its deadline, it says {loss:?}");
    let ended = error(guard.release().await, ErrorKind::Lost)?;
    ensure!(ended.loss() == Some(Loss::Deadline), "the release says {ended}");
    // A renewal that landed may have re-armed it once more after the loss was due.
    let landed = now(&*client).saturating_add(ttl);
    falls_free(bench, &*client, &name, landed).await
}

async fn lost_guard_stays_lost(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let gate = Gate::closed();
    scripted.always(Verb::Renew, Step::Late(Delay::Until(gate.clone()), Landing::Surely));
    let guard = guard(bench, &locks, &name, 1).await?;
    let latest = deadline(bench, &*client, 1);
    is_lost_between(bench, &*client, &guard, now(&*client), latest).await?;
    let claim = bench.long_claim(&name, 20);
    let mut next = None;
    while next.is_none() {
        if let Acquired::Granted(grant) = client.acquire(&claim).await? {
            next = Some(lease(&claim, grant));
        }
        pass(&*client, bench.step()).await;
    }
    gate.open();
    scripted.heal();
    pass(&*client, bench.ttl().get()).await;
    stays_lost(&guard)?;
    drop(guard);
    settle(bench, &*client).await;
    let next = next.expect("it was granted");
    is_held_by(bench, &*client, &next).await
}

async fn c33_renewal_answered_past_the_deadline_brings_nothing_back(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let ttl = bench.ttls(2).get();
    let earliest = now(&*client).saturating_add(ttl - margin(ttl));
    // Later than this a renewal ends past the deadline, and still within its own bound.
    let (clock, late) = (client.clock(), now(&*client).saturating_add(ttl * 7 / 8));
    scripted.plan(Verb::Renew, move |_| {
        if clock.now() < late {
            Step::Error(ErrorKind::Unreachable, Effect::Not)
        } else {
            Step::Late(Delay::For(ttl / 7), Landing::Before)
        }
    });
    let guard = guard(bench, &locks, &bench.name(), 2).await?;
    let latest = deadline(bench, &*client, 2);
    is_lost_between(bench, &*client, &guard, earliest, latest).await?;
    pass(&*client, ttl / 7).await;
    stays_lost(&guard)
}

async fn evicted_guard_learns_it_at_the_next_renewal(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    Bench::needs_operator(client.profile())?;
    for taken_over in [false, true] {
        let name = bench.name();
        let guard = guard(bench, &locks, &name, 3).await?;
        ensure!(client.evict(&name, guard.token()?).await?, "the lease was not evicted");
        if taken_over {
            take(&*client, &bench.long_claim(&name, 20)).await?;
        }
        let renewed = now(&*client).saturating_add(bench.ttl().get() * 3 / 2);
        let loss = is_lost_between(bench, &*client, &guard, now(&*client), renewed).await?;
        let told = matches!(loss, Loss::Gone | Loss::TakenOver);
        ensure!(told, "evicted (taken over: {taken_over}), it says {loss:?}");
        drop(guard);
        if taken_over {
            settle(bench, &*client).await;
            held(&*client, &bench.claim(&name)).await?;
        }
    }
    Ok(())
}

async fn loss_seen_by_the_driver_is_told_at_once(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let others = Locks::with_backend(Arc::new(scripted.clone()));
    let guard = super::steps::guard(bench, &locks, &name, 10).await?;
    let bystander = super::steps::guard(bench, &locks, &bench.name(), 10).await?;
    let theirs = super::steps::guard(bench, &others, &bench.name(), 10).await?;
    for guard in [guard, theirs] {
        scripted.lose(guard.owner(), Loss::SessionGone);
        let start = now(&*client);
        let loss = is_lost_between(bench, &*client, &guard, start, start).await?;
        ensure!(loss == Loss::SessionGone, "the driver saw a dead session, it says {loss:?}");
        falls_free(bench, &*client, guard.name(), now(&*client)).await?;
    }
    ensure!(bystander.is_held(), "another guard of the client is lost with it");
    Ok(())
}

async fn c21_c61_grant_after_its_deadline_is_refused(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let frozen = Delay::Frozen(bench.ttls(2).get(), bench.time());
    scripted.next(Verb::Acquire, [Step::Late(frozen.clone(), Landing::Before)]);
    let lock = bench.lock(&locks, &name, 1)?;
    error(lock.try_acquire().await, ErrorKind::TooLate)?;
    falls_free(bench, &*client, &name, now(&*client)).await?;
    // The same where the claim reached the store only after the freeze, and so has a TTL to live.
    let name = bench.name();
    scripted.next(Verb::Acquire, [Step::Late(frozen, Landing::After)]);
    let lock = bench.lock(&locks, &name, 1)?;
    let answer = lock.try_acquire().await;
    ensure!(!answer.as_ref().is_ok_and(Option::is_some), "a grant past its deadline is a guard");
    drop(answer);
    falls_free(bench, &*client, &name, now(&*client)).await
}

async fn wait_goes_on_after_a_grant_that_came_too_late(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let frozen = Delay::Frozen(bench.ttls(2).get(), bench.time());
    scripted.next(Verb::Acquire, [Step::Late(frozen, Landing::Before)]);
    let guard = bench.lock(&locks, &name, 1)?.acquire_within(bench.ttls(10).get()).await?;
    let first = &scripted.calls()[0];
    ensure!(first.owner != Some(guard.owner()), "the late grant became a guard");
    // What frees the first owner leaves the second one's lease alone.
    pass(&*client, bench.ttls(2).get()).await;
    ensure!(guard.is_held(), "lost {:?}", guard.token());
    guard.release().await?;
    falls_free(bench, &*client, &name, now(&*client)).await
}

async fn frozen_holder_is_lost_at_first_look(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    // On real time other threads go on: what they renew must not come through either.
    let gate = Gate::closed();
    scripted.always(Verb::Renew, Step::Late(Delay::Until(gate.clone()), Landing::Surely));
    let guard = guard(bench, &locks, &name, 1).await?;
    freeze(bench, bench.ttls(2).get()).await;
    stays_lost(&guard)?;
    let next = bench.long_claim(&name, 20);
    let next = take(&*client, &next).await?;
    gate.open();
    scripted.heal();
    pass(&*client, bench.ttl().get()).await;
    stays_lost(&guard)?;
    drop(guard);
    settle(bench, &*client).await;
    is_held_by(bench, &*client, &next).await
}

async fn c129_work_stops_at_the_loss(bench: &Bench) -> Verdict {
    let dropped = Arc::new(AtomicBool::new(false));
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    scripted.always(Verb::Renew, Step::Never(Effect::Not));
    let guard = guard(bench, &locks, &bench.name(), 1).await?;
    let latest: Instant = deadline(bench, &*client, 1).saturating_add(bench.late());
    let work = {
        let dropped = dropped.clone();
        async move {
            let _tells = Tells(dropped);
            std::future::pending::<()>().await
        }
    };
    let ended: Result<(), Error> = guard.run(work).await;
    let over = now(&*client).since(latest);
    ensure!(over.is_zero(), "the work went on {over:?} too long");
    error(ended, ErrorKind::Lost)?;
    ensure!(dropped.load(Ordering::SeqCst), "the work was not dropped");
    let refused = guard.run(async {}).await;
    error(refused, ErrorKind::Lost)?;
    Ok(())
}

/// Tells that it was dropped.
struct Tells(Arc<AtomicBool>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn f19_c133_late_renewal_does_not_outlive_the_release(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let gate = Gate::closed();
    scripted.always(Verb::Renew, Step::Late(Delay::Until(gate.clone()), Landing::Surely));
    let guard = guard(bench, &locks, &name, 2).await?;
    scripted.made(Verb::Renew, 1).await;
    guard.release().await?;
    is_free(bench, &*client, &name).await?;
    gate.open();
    settle(bench, &*client).await;
    is_free(bench, &*client, &name).await
}
