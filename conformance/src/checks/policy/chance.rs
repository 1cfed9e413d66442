//! Calls that meet by chance: tasks aborted, waits dropped, releases in the middle of a renewal.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use leasehold::{Guard, Lock};
use leasehold_api::{Backend, Error, ErrorKind};

use super::super::dice::Dice;
use super::super::steps::{is_free, now, pass};
use super::resources::tasks_fall_to;
use super::steps::falls_free;
use crate::bench::Bench;
use crate::cancel::{Polled, drop_after};
use crate::effort::rounds;
use crate::ensure;
use crate::scripted::{Delay, Landing, Scripted, Step, Verb};
use crate::subject::Time;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Faults:
    c1_release_right_after_a_slow_grant_leaves_nothing_renewed [policy], "D4.5, D4.6", "names that are let go the moment a slow answer grants them are free, and neither renewals nor tasks stay";
    f12_task_aborted_at_any_time_frees_the_name [policy], "D4.5", "a task that acquires and holds, aborted at a random time, leaves nothing renewed";
    c84_release_fails_only_as_lost [policy], "D4.6, 8.1", "over 200 names with random cancellations no release fails but for a loss";
    c100_release_in_the_middle_of_a_renewal_succeeds [policy], "D4.6", "guards that are released at random points of a slow renewal are released";
    c63_release_never_fails_under_contention [policy], "5.1, D4.7", "of hundreds of releases of one contended name each succeeds";
}

async fn c1_release_right_after_a_slow_grant_leaves_nothing_renewed(bench: &Bench) -> Verdict {
    const AT_ONCE: usize = 50;
    let client = bench.client().await?;
    is_free(bench, &*client, &bench.name()).await?;
    let before = super::resources::tasks();
    // On a real machine long enough for some renewals of it to be answered.
    let ttl = match bench.time() {
        Time::Paused => Duration::from_millis(60),
        Time::Real => client.profile().ttl_floor.max(bench.ttl().get() / 2),
    };
    let (scripted, locks) = bench.scripted().await?;
    let mut dice = Dice::seeded(1);
    scripted.plan(Verb::Acquire, move |_| {
        Step::Late(Delay::For(dice.part_of(ttl * 2 / 3)), Landing::Before)
    });
    for _ in 0..rounds(2, 40) {
        let round = (0..AT_ONCE).map(|_| async {
            let name = bench.name();
            let lock = bench.lock(&locks, &name, 1)?.ttl(ttl);
            let guard = lock.acquire_within(bench.ttls(20).get()).await?;
            match guard.release().await {
                Ok(()) => Ok(name),
                // On a busy machine so short a TTL runs out, or its third, without an answer.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Lost | ErrorKind::Indeterminate) =>
                {
                    Ok(name)
                }
                Err(error) => Err(Failure::from(error)),
            }
        });
        let names = try_join_all(round).await?;
        pass(&*client, ttl * 3).await;
        let renewals = scripted.count(Verb::Renew);
        for name in &names {
            is_free(bench, &*client, name).await?;
        }
        pass(&*client, ttl).await;
        let more = scripted.count(Verb::Renew) - renewals;
        ensure!(more == 0, "{more} renewals were sent after all was released");
    }
    drop((scripted, locks));
    tasks_fall_to(bench, &*client, before).await
}

async fn f12_task_aborted_at_any_time_frees_the_name(bench: &Bench) -> Verdict {
    const AT_ONCE: usize = 50;
    let (scripted, locks) = bench.scripted().await?;
    let client = bench.client().await?;
    let dice = Mutex::new(Dice::seeded(12));
    for _ in 0..rounds(1, 10) {
        let round = (0..AT_ONCE).map(|_| async {
            let name = bench.name();
            let lock = bench.lock(&locks, &name, 4)?;
            let task = tokio::spawn(async move {
                let guard = lock.acquire().await?;
                guard.run(std::future::pending::<()>()).await
            });
            let after = roll(&dice, |dice| dice.part_of(bench.late() * 2));
            pass(&*client, after).await;
            task.abort();
            let ended = task.await;
            ensure!(ended.is_err_and(|end| end.is_cancelled()), "the task ended by itself");
            // A claim on its way may land after the first clean-up; the second frees it.
            let latest = now(&*client).saturating_add(bench.ttls(4).get() / 2);
            falls_free(bench, &*client, &name, latest).await
        });
        try_join_all(round).await?;
    }
    let renewals = scripted.count(Verb::Renew);
    pass(&*client, bench.ttls(2).get()).await;
    let more = scripted.count(Verb::Renew) - renewals;
    ensure!(more == 0, "{more} renewals were sent after all tasks were aborted");
    Ok(())
}

async fn c84_release_fails_only_as_lost(bench: &Bench) -> Verdict {
    const NAMES: usize = 200;
    let client = bench.client().await?;
    let clients = [bench.locks().await?, bench.locks().await?];
    let names: Vec<_> = (0..NAMES).map(|_| bench.name()).collect();
    let mut workers = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let mut dice = Dice::seeded(number as u64);
        for locks in &clients {
            let lock = bench.lock(locks, name, 12)?;
            let (client, step, dice) =
                (client.clone(), bench.step(), Dice::seeded(dice.below(1 << 32)));
            workers.push(tokio::spawn(async move { visits(&*client, &lock, step, dice).await }));
        }
    }
    for worker in join_all(workers).await {
        worker??;
    }
    for name in names.iter().step_by(10) {
        falls_free(bench, &*client, name, now(&*client).saturating_add(bench.ttls(6).get()))
            .await?;
    }
    Ok(())
}

/// Acquires and releases, dropping one call in three at some poll.
async fn visits(client: &dyn Backend, lock: &Lock, step: Duration, mut dice: Dice) -> Verdict {
    for _ in 0..rounds(3, 30) {
        let polls = if dice.below(3) == 0 { dice.index(4) } else { usize::MAX };
        let Polled::Ended(guard) = drop_after(polls, lock.acquire_unbounded()).await else {
            continue;
        };
        let guard = guard?;
        pass(client, dice.part_of(step / 4)).await;
        let polls = if dice.below(3) == 0 { dice.index(4) } else { usize::MAX };
        if let Polled::Ended(released) = drop_after(polls, guard.release()).await {
            only_lost(released)?;
        }
    }
    Ok(())
}

fn only_lost(released: Result<(), Error>) -> Verdict {
    match released {
        Err(error) if error.kind() != ErrorKind::Lost => {
            Err(Failure::failed(format!("a release failed, and not as lost: {error}")))
        }
        _ => Ok(()),
    }
}

async fn c100_release_in_the_middle_of_a_renewal_succeeds(bench: &Bench) -> Verdict {
    const GUARDS: usize = 60;
    let ttl = bench.ttls(4).get();
    let slow = ttl / 12;
    let client = bench.client().await?;
    let dice = Arc::new(Mutex::new(Dice::seeded(100)));
    for _ in 0..rounds(1, 170) {
        let (scripted, locks): (Scripted, _) = bench.scripted().await?;
        let landing = dice.clone();
        scripted.plan(Verb::Renew, move |_| {
            let landings = [Landing::Before, Landing::After, Landing::Surely];
            let (landing, time) =
                roll(&landing, |dice| (landings[dice.index(3)], dice.part_of(slow)));
            Step::Late(Delay::For(time), landing)
        });
        let releases = (0..GUARDS).map(|_| async {
            let guard: Guard = bench.lock(&locks, &bench.name(), 4)?.acquire().await?;
            let at = roll(&dice, |dice| ttl / 3 - slow / 4 + dice.part_of(slow * 2));
            pass(&*client, at).await;
            guard.release().await?;
            Ok::<_, Failure>(())
        });
        try_join_all(releases).await?;
        ensure!(scripted.count(Verb::Renew) >= GUARDS / 2, "hardly any guard was renewed");
    }
    Ok(())
}

async fn c63_release_never_fails_under_contention(bench: &Bench) -> Verdict {
    const TASKS: usize = 16;
    let each = rounds(40, 625);
    let name = bench.name();
    let mut tasks = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(bench.locks().await?);
    }
    for number in 0..TASKS {
        let lock = bench.lock(&clients[number % clients.len()], &name, 60)?;
        tasks.push(tokio::spawn(async move {
            for _ in 0..each {
                lock.acquire_unbounded().await?.release().await?;
            }
            Ok::<_, Failure>(())
        }));
    }
    for task in join_all(tasks).await {
        task??;
    }
    Ok(())
}

/// What dice that several tasks throw show.
fn roll<T>(dice: &Mutex<Dice>, throw: impl FnOnce(&mut Dice) -> T) -> T {
    throw(&mut dice.lock().expect("no thrower panics"))
}
