//! What is freed in the background, when, and until it is certain.

use std::time::Duration;

use futures_util::future::try_join;
use leasehold::{Guard, Lock};
use leasehold_api::{Backend, ErrorKind, Instant, LockName, Loss, Owner, Ticket};

use super::super::steps::{held, kept, now, pass};
use super::steps::{error, falls_free};
use crate::bench::Bench;
use crate::ensure;
use crate::scripted::{Call, Delay, Effect, Gate, Landing, Scripted, Step, Verb};
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Faults:
    f17_failed_release_is_finished_in_the_background [policy], "10.2, D4.5", "the error is told, and the name freed once the store answers";
    late_claim_lives_one_ttl_at_most [policy], "10.2, D4.5", "a claim that lands after its clean-up is freed again, or ends at its TTL";
    unsettled_clean_up_is_repeated_twice [policy], "5.4, 10.2, D4.5", "a claim on its way is freed by owner at once, a third of the TTL later and a TTL later, and then no more";
    claim_that_lands_after_the_release_is_freed [policy], "5.4, 10.2, D4.5", "a claim that was asked for again, granted and let go, and then lands, is freed by owner within those rounds";
    claim_that_lands_after_a_loss_or_a_hand_over_is_freed [policy], "5.4, 10.2, D4.5", "likewise where the guard was lost, or handed over";
}

async fn f17_failed_release_is_finished_in_the_background(bench: &Bench) -> Verdict {
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
        pass(&*client, late).await;
        let landed = start.saturating_add(late + bench.late());
        let latest = landed.saturating_add(kept(&*client, bench.ttl()));
        falls_free(bench, &*client, &name, latest).await?;
    }
    Ok(())
}

/// The TTL of what is to be cleaned up, in those of the bench.
const TTLS: u32 = 3;

/// The releases by owner so far, of one owner or of all.
fn by_owner(scripted: &Scripted, owner: Option<Owner>) -> Vec<Call> {
    let mut calls = scripted.calls();
    calls.retain(|call| call.verb == Verb::Release && call.token.is_none());
    calls.retain(|call| owner.is_none() || call.owner == owner);
    calls
}

async fn unsettled_clean_up_is_repeated_twice(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let ttl = bench.ttls(TTLS).get();
    let all = [Duration::ZERO, ttl / 3, ttl];
    // A driver need not know that nothing was sent.
    let nobodys = Ticket::by_owner(bench.name(), Owner::random());
    let knows = client.release(&nobodys, None).await?.settled;
    let on_its_way = Step::Late(Delay::Until(Gate::closed()), Landing::Surely);
    try_join(
        is_cleaned_up(bench, &*client, on_its_way, &all),
        is_cleaned_up(
            bench,
            &*client,
            Step::Never(Effect::Not),
            if knows { &all[..1] } else { &all },
        ),
    )
    .await
    .map(drop)
}

/// Shows when a claim that is not answered is freed by owner, counted from the end of its call.
async fn is_cleaned_up(
    bench: &Bench,
    client: &dyn Backend,
    step: Step,
    due: &[Duration],
) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    scripted.next(Verb::Acquire, [step.clone()]);
    let lock = bench.lock(&locks, &bench.name(), TTLS)?;
    error(lock.try_acquire().await, ErrorKind::Indeterminate)?;
    let begun = now(client);
    pass(client, bench.ttls(TTLS).get() * 3).await;
    let sent: Vec<_> = by_owner(&scripted, None).iter().map(|call| call.at.since(begun)).collect();
    // The clean-up may have begun before this task looked at the clock.
    let in_time =
        |(sent, due): (&_, &_)| *sent + bench.step() >= *due && *sent <= *due + bench.late();
    ensure!(
        sent.len() == due.len() && sent.iter().zip(due).all(in_time),
        "after {step:?} it was freed by owner after {sent:?}, not after {due:?}"
    );
    Ok(())
}

/// Its TTL: a sixth of it is more than a busy machine is late.
const DOUBLED_TTLS: u32 = 6;

/// A guard whose first claim is still on its way: it was asked for again, and granted.
struct Doubled {
    scripted: Scripted,
    lock: Lock,
    guard: Guard,
    first: Gate,
}

impl Doubled {
    async fn new(bench: &Bench) -> Result<Self, Failure> {
        let (scripted, locks) = bench.scripted().await?;
        let first = Gate::closed();
        let on_its_way = Step::Late(Delay::Until(first.clone()), Landing::Surely);
        scripted.next(Verb::Acquire, [on_its_way]);
        let lock = bench.lock(&locks, &bench.name(), DOUBLED_TTLS)?;
        let guard = lock.acquire_within(bench.ttls(DOUBLED_TTLS * 3).get()).await?;
        Ok(Self { scripted, lock, guard, first })
    }
}

/// Lets the first claim land some sixths of the TTL after the name was let go, and shows that it
/// is freed in the round that comes next.
async fn lands(
    bench: &Bench,
    client: &dyn Backend,
    name: &LockName,
    first: &Gate,
    let_go: Instant,
    (lands, freed): (u32, u32),
) -> Verdict {
    let sixth = bench.ttls(DOUBLED_TTLS).get() / 6;
    client.clock().sleep_until(let_go.saturating_add(sixth * lands)).await;
    first.open();
    pass(client, bench.step()).await;
    held(client, &bench.claim(name)).await?;
    falls_free(bench, client, name, let_go.saturating_add(sixth * freed)).await
}

/// When the claim lands, and which round frees it: a third of the TTL after the release, or a TTL.
const ROUNDS: [(u32, u32); 2] = [(1, 2), (3, 6)];

async fn claim_that_lands_after_the_release_is_freed(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    for (round, dropped) in ROUNDS.into_iter().flat_map(|round| [(round, false), (round, true)]) {
        let Doubled { scripted, guard, first, .. } = Doubled::new(bench).await?;
        let (name, owner) = (guard.name().clone(), guard.owner());
        let let_go = now(&*client);
        if dropped {
            drop(guard);
        } else {
            guard.release().await?;
        }
        lands(bench, &*client, &name, &first, let_go, round).await.map_err(|failure| {
            Failure::failed(format!("{round:?} (dropped: {dropped}): {}", failure.why()))
        })?;
        let freed = by_owner(&scripted, Some(owner));
        ensure!(!freed.is_empty(), "{name} was not freed by owner");
    }
    Ok(())
}

async fn claim_that_lands_after_a_loss_or_a_hand_over_is_freed(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    for (round, lost) in ROUNDS.into_iter().flat_map(|round| [(round, true), (round, false)]) {
        let Doubled { scripted, lock, guard, first } = Doubled::new(bench).await?;
        let (name, owner) = (guard.name().clone(), guard.owner());
        let let_go = if lost {
            scripted.lose(owner, Loss::SessionGone);
            guard.lost().await;
            now(&*client)
        } else {
            let waiter = tokio::spawn(async move { lock.acquire_unbounded().await });
            pass(&*client, bench.step()).await;
            let let_go = now(&*client);
            guard.release().await?;
            waiter.await??.release().await?;
            let_go
        };
        lands(bench, &*client, &name, &first, let_go, round).await.map_err(|failure| {
            Failure::failed(format!("{round:?} (lost: {lost}): {}", failure.why()))
        })?;
        let freed = by_owner(&scripted, Some(owner));
        ensure!(!freed.is_empty(), "{name} was not freed by owner");
    }
    Ok(())
}
