//! What calls that fail say, and that the next ones work.

use futures_util::future::{join_all, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_api::{ErrorKind, Operation};

use super::super::steps::{held, is_free, is_held_by, kept, now, pass, take};
use super::resources::{tasks, tasks_fall_to};
use super::steps::{error, falls_free, guard, settle};
use crate::bench::Bench;
use crate::cancel::{Polled, drop_after};
use crate::effort::rounds;
use crate::ensure;
use crate::scripted::{Delay, Effect, Landing, Step, Verb};
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Faults:
    c36_release_after_expiry_names_what_and_why [policy], "5.2, D4.8", "it is told apart from contention, and names the operation, the lock and the reason";
    f72_c58_overrun_holders_release_leaves_the_next_alone [policy], "5.2, D4.2", "a guard that overran and is released after another holds changes nothing of the other's";
    f71_holders_with_the_same_label_are_two [policy], "5.1", "two clients that call themselves the same do not release each other's lock";
    c64_failed_release_lets_the_next_task_acquire [policy], "D4.7", "behind a guard that expired, or whose release fails, the next task of the client acquires";
    c90_c153_failed_acquires_leave_nothing [policy, private], "8.1, D4.5", "hundreds of acquires that fail by each kind of error leave no task and no connection, and the next ones succeed";
    c163_client_acquires_again_after_failed_releases [policy], "D4.5", "after every release of a guard failed, the same client has the name again once its TTL is over";
    c39_end_of_the_work_leaves_no_timer_and_masks_no_error [policy], "D3.2, D4.6", "work that ends in the middle of a renewal leaves none, and its error and that of the release are both told";
    c21_c61_answers_after_most_of_the_ttl_are_refused [policy], "D4.2, D4.5", "grants that are answered after most of the TTL, or more, become no guard, and are freed before their TTL";
    c138_dropped_acquires_hold_nobody_up [policy], "8.1, D4.5", "after an acquire that was dropped at any poll, of a free or a held name, ten others are served in a TTL";
}

async fn c36_release_after_expiry_names_what_and_why(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let lock = bench.lock(&locks, &name, 1)?.keep_alive(false);
    let guard = lock.acquire().await?;
    pass(&*client, kept(&*client, bench.ttl()) + bench.late()).await;
    let told = error(guard.release().await, ErrorKind::Lost)?;
    ensure!(told.operation() == Operation::Release, "the operation is {}", told.operation());
    ensure!(told.lock() == Some(&name), "the lock is {:?}", told.lock());
    let text = told.to_string();
    let reason = told.loss().map(|loss| loss.to_string()).unwrap_or_default();
    ensure!(!reason.is_empty() && text.contains(&reason), "it does not say why: {text}");
    ensure!(text.contains("release"), "it does not say what failed: {text}");
    let holder = take(&*client, &bench.long_claim(&name, 20)).await?;
    let contended = error(lock.acquire_within(bench.step()).await, ErrorKind::NotAcquired)?;
    ensure!(contended.to_string() != text, "contention is told alike: {text}");
    is_held_by(bench, &*client, &holder).await
}

async fn f72_c58_overrun_holders_release_leaves_the_next_alone(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    for dropped in [false, true] {
        let name = bench.name();
        let guard = bench.lock(&locks, &name, 1)?.keep_alive(false).acquire().await?;
        pass(&*client, kept(&*client, bench.ttl()) + bench.late()).await;
        let next = take(&*client, &bench.long_claim(&name, 20)).await?;
        if dropped {
            drop(guard);
        } else {
            error(guard.release().await, ErrorKind::Lost)?;
        }
        settle(bench, &*client).await;
        is_held_by(bench, &*client, &next).await?;
    }
    Ok(())
}

async fn f71_holders_with_the_same_label_are_two(bench: &Bench) -> Verdict {
    let [one, other] = [bench.locks().await?, bench.locks().await?];
    let client = bench.client().await?;
    let name = bench.name();
    let named = |locks| Ok::<_, Failure>(bench.lock(locks, &name, 20)?.label("worker-1"));
    let first = named(&one)?.keep_alive(false).ttl(bench.ttl().get()).acquire().await?;
    first.lost().await;
    let second = named(&other)?.acquire_within(bench.ttls(20).get()).await?;
    ensure!(first.owner() != second.owner(), "two acquisitions have one owner");
    drop(first);
    settle(bench, &*client).await;
    ensure!(named(&one)?.try_acquire().await?.is_none(), "the name is held by two");
    held(&*client, &bench.claim(&name)).await?;
    ensure!(second.is_held(), "the second holder lost the name");
    second.release().await?;
    Ok(())
}

async fn c64_failed_release_lets_the_next_task_acquire(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let fails = [
        None,
        Some(Step::Error(ErrorKind::Unreachable, Effect::Not)),
        Some(Step::Error(ErrorKind::Indeterminate, Effect::Done)),
        Some(Step::Never(Effect::Not)),
    ];
    let each = fails.into_iter().map(|fails| {
        let client = &client;
        async move {
            let (scripted, locks) = bench.scripted().await?;
            let name = bench.name();
            let expires = fails.is_none();
            let lock = bench.lock(&locks, &name, 2)?;
            let first = lock.clone().keep_alive(!expires).acquire().await?;
            let wait = bench.ttls(20).get();
            let waiter = tokio::spawn(async move { lock.acquire_within(wait).await });
            settle(bench, &**client).await;
            if let Some(step) = &fails {
                scripted.next(Verb::HandOver, [step.clone()]);
                scripted.next(Verb::Release, [step.clone()]);
            } else {
                first.lost().await;
            }
            ensure!(first.release().await.is_err(), "a release that failed ({fails:?}) says ok");
            let next = waiter.await??;
            ensure!(next.is_held(), "after {fails:?} the next task's guard is lost");
            next.release().await?;
            falls_free(bench, &**client, &name, now(&**client)).await
        }
    });
    try_join_all(each).await.map(drop)
}

const KINDS: [ErrorKind; 8] = [
    ErrorKind::Unreachable,
    ErrorKind::Auth,
    ErrorKind::Refused,
    ErrorKind::NotPrimary,
    ErrorKind::Busy,
    ErrorKind::Indeterminate,
    ErrorKind::Unsupported,
    ErrorKind::Unclassified,
];

async fn c90_c153_failed_acquires_leave_nothing(bench: &Bench) -> Verdict {
    const AT_ONCE: usize = 25;
    let client = bench.client().await?;
    let (scripted, locks) = bench.scripted().await?;
    // Whatever a first use opens is open then.
    guard(bench, &locks, &bench.name(), 4).await?.release().await?;
    settle(bench, &*client).await;
    let before = (tasks(), bench.store().connections().await.ok());
    for kind in KINDS {
        for effect in [Effect::Not, Effect::Done] {
            if effect == Effect::Done && kind != ErrorKind::Indeterminate {
                continue; // only that error says that it may have taken effect
            }
            for _ in 0..rounds(1, 50) {
                scripted.always(Verb::Acquire, Step::Error(kind, effect));
                let fails = (0..AT_ONCE).map(|_| async {
                    let name = bench.name();
                    let lock = bench.lock(&locks, &name, 4)?;
                    // So long that a busy machine gets to ask before it is over.
                    error(lock.acquire_within(bench.late()).await, kind)?;
                    Ok::<_, Failure>(name)
                });
                let names = try_join_all(fails).await?;
                scripted.heal();
                let name = &names[0];
                let lock = bench.lock(&locks, name, 4)?;
                lock.acquire_within(bench.ttls(20).get()).await?.release().await?;
                let freed =
                    names.iter().map(|name| falls_free(bench, &*client, name, now(&*client)));
                for freed in join_all(freed).await {
                    freed.map_err(|f| Failure::failed(format!("{kind:?}: {}", f.why())))?;
                }
            }
        }
    }
    tasks_fall_to(bench, &*client, before.0).await?;
    let after = bench.store().connections().await.ok();
    ensure!(after <= before.1, "{:?} connections became {after:?}", before.1);
    Ok(())
}

async fn c163_client_acquires_again_after_failed_releases(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let lock = bench.lock(&locks, &bench.name(), 2)?;
    let first = lock.acquire().await?;
    for verb in [Verb::Release, Verb::HandOver] {
        scripted.always(verb, Step::Error(ErrorKind::Unreachable, Effect::Not));
    }
    error(first.release().await, ErrorKind::Unreachable)?;
    let start = now(&*client);
    let again = lock.acquire_within(bench.ttls(20).get()).await?;
    let took = now(&*client).since(start);
    let latest = kept(&*client, bench.ttls(2)) + bench.late() * 2;
    ensure!(took <= latest, "the name was free after {took:?} only");
    scripted.heal();
    again.release().await?;
    Ok(())
}

async fn c39_end_of_the_work_leaves_no_timer_and_masks_no_error(bench: &Bench) -> Verdict {
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let before = tasks();
    let slow = Delay::For(bench.ttl().get() / 4);
    scripted.always(Verb::Renew, Step::Late(slow, Landing::After));
    let holder = guard(bench, &locks, &name, 3).await?;
    let in_a_renewal = async {
        scripted.made(Verb::Renew, 1).await;
        Err::<(), _>("the work's own error")
    };
    let ended = holder.run(in_a_renewal).await?;
    ensure!(ended == Err("the work's own error"), "the work ended with {ended:?}");
    scripted.next(Verb::Release, [Step::Error(ErrorKind::Refused, Effect::Done)]);
    error(holder.release().await, ErrorKind::Refused)?;
    let renewals = scripted.count(Verb::Renew);
    pass(&*client, bench.ttls(6).get()).await;
    let more = scripted.count(Verb::Renew) - renewals;
    ensure!(more == 0, "{more} renewals were sent after the work's end");
    tasks_fall_to(bench, &*client, before).await?;
    is_free(bench, &*client, &name).await
}

async fn c21_c61_answers_after_most_of_the_ttl_are_refused(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let ttl = bench.ttls(4).get();
    let late = [ttl * 9 / 10, ttl * 3 / 2];
    let each =
        late.into_iter().flat_map(|late| [(late, false), (late, true)]).map(|(late, waits)| {
            let client = &client;
            async move {
                let (scripted, locks) = bench.scripted().await?;
                scripted.always(Verb::Acquire, Step::Late(Delay::For(late), Landing::Before));
                let name = bench.name();
                let lock = bench.lock(&locks, &name, 4)?;
                let told = if waits {
                    // Long enough to ask twice.
                    error(lock.acquire_within(ttl / 2).await, ErrorKind::Indeterminate)?
                } else {
                    error(lock.try_acquire().await, ErrorKind::Indeterminate)?
                };
                let soon = now(&**client).saturating_add(ttl / 8);
                let freed = falls_free(bench, &**client, &name, soon).await;
                freed.map_err(|f| Failure::failed(format!("{late:?} late ({told}): {}", f.why())))
            }
        });
    try_join_all(each).await.map(drop)
}

async fn c138_dropped_acquires_hold_nobody_up(bench: &Bench) -> Verdict {
    const MOST_POLLS: usize = 12;
    let client = bench.client().await?;
    let each = (0..MOST_POLLS).flat_map(|polls| [(polls, false), (polls, true)]).map(
        |(polls, contended)| {
            let client = &client;
            async move {
                let (locks, others) = (bench.locks().await?, bench.locks().await?);
                let name = bench.name();
                let lock = bench.lock(&locks, &name, 6)?;
                let holder = match contended {
                    true => Some(guard(bench, &others, &name, 6).await?),
                    false => None,
                };
                let dropped = drop_after(polls, lock.acquire_within(bench.ttl().get() / 5)).await;
                if let Polled::Ended(Ok(guard)) = dropped {
                    guard.release().await?;
                }
                drop(holder);
                let start = now(&**client);
                let lock = bench.lock(&others, &name, 6)?;
                for _ in 0..10 {
                    lock.acquire_within(bench.ttls(6).get()).await?.release().await?;
                }
                let took = now(&**client).since(start);
                let most = bench.ttls(6).get();
                ensure!(took <= most, "after {polls} polls ten others took {took:?}");
                Ok::<_, Failure>(())
            }
        },
    );
    // Each is polled only when it is woken itself: the polls are counted.
    let mut each: FuturesUnordered<_> = each.collect();
    while let Some(served) = each.next().await {
        served?;
    }
    Ok(())
}
