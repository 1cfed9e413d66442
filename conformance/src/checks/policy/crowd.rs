//! Many waiters, many names, many who only try.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::{join_all, try_join, try_join_all};
use leasehold::{Guard, Lock};
use leasehold_api::{ErrorKind, Order};

use super::super::steps::{is_free, needs_waking, now, pass, release, take};
use super::steps::{error, guard, settle};
use crate::bench::Bench;
use crate::effort::rounds;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{End, Failure, Verdict};

checks! { Waiting:
    f8_c147_hundred_waits_that_end_or_are_dropped_leave_nothing [policy], "6.6, D4.7", "after 100 waits that timed out and 100 that were dropped, the next acquire is immediate and the store keeps nothing";
    c22_waits_on_64_names_end_in_time [policy], "D4.8", "64 waits of one client for 64 held names all end as they should";
    c25_waiters_of_500_names_are_served_in_their_own_lines [policy, private], "D4.7, 6.4", "with 4 waiters each on 500 names, every waiter is served without a time-out";
    f79_waiter_among_50_who_try_is_served [policy], "D4.7", "among 50 pollers who never queue, a waiter gets the name within 100 hand-overs";
    f83_crossed_waits_end_in_time [policy], "D4.8", "two tasks that take two names in opposite orders both time out, and leave both names free";
    c85_tasks_on_one_thread_exclude_each_other [policy], "1.2, D3.2", "two tasks of one thread, of one client or of two, never hold at once";
}

async fn f8_c147_hundred_waits_that_end_or_are_dropped_leave_nothing(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let name = bench.name();
    let lease = take(&*client, &bench.long_claim(&name, 200)).await?;
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(bench.locks().await?);
    }
    let locks = |number: usize| bench.lock(&clients[number % 5], &name, 100);
    let wait = bench.ttl().get() / 10;
    let ends = (0..100).map(|number| async move {
        let ended = locks(number)?.acquire_within(wait).await;
        error(ended, ErrorKind::NotAcquired).map(drop)
    });
    try_join_all(ends).await?;
    let mut dropped = Vec::new();
    for number in 0..100 {
        let lock = locks(number)?;
        dropped.push(tokio::spawn(async move { lock.acquire_unbounded().await.map(drop) }));
    }
    settle(bench, &*client).await;
    for task in &dropped {
        task.abort();
    }
    settle(bench, &*client).await;
    let fresh = bench.locks().await?;
    release(&*client, &lease.ticket()).await?;
    let start = now(&*client);
    let next = guard(bench, &fresh, &name, 4).await?;
    let took = now(&*client).since(start);
    ensure!(took <= bench.late(), "the next acquire took {took:?}");
    next.release().await?;
    match bench.store().leftovers(&name).await {
        Ok(left) => ensure!(left.is_empty(), "the store keeps {left:?}"),
        // Without the hook the next acquire has shown what there is to show.
        Err(failure) if failure.end() == End::NotApplicable => {}
        Err(failure) => return Err(failure),
    }
    Ok(())
}

async fn c22_waits_on_64_names_end_in_time(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let mut waits = Vec::new();
    for _ in 0..64 {
        let lease = take(&*client, &bench.long_claim(&bench.name(), 60)).await?;
        waits.push(bench.lock(&locks, &lease.name, 20)?);
    }
    let wait = bench.ttl().get();
    let waits = waits.into_iter().map(|lock| {
        let client = &client;
        async move {
            let start = now(&**client);
            error(lock.acquire_within(wait).await, ErrorKind::NotAcquired)?;
            let took = now(&**client).since(start);
            ensure!(took >= wait, "a wait of {wait:?} took {took:?}");
            ensure!(took <= wait * 7 / 5 + bench.late(), "a wait of {wait:?} took {took:?}");
            Ok(())
        }
    });
    try_join_all(waits).await.map(drop)
}

async fn c25_waiters_of_500_names_are_served_in_their_own_lines(bench: &Bench) -> Verdict {
    const NAMES: usize = 500;
    let clients = [bench.locks().await?, bench.locks().await?];
    let client = bench.client().await?;
    needs_waking(&*client)?;
    // A third of it, after which a waiter asks by itself, is longer than they may take.
    let within = bench.ttls(40).get();
    let claims: Vec<_> = (0..NAMES).map(|_| bench.long_claim(&bench.name(), 400)).collect();
    let leases = try_join_all(claims.iter().map(|claim| take(&*client, claim))).await?;
    let served = Arc::new(AtomicUsize::new(0));
    let mut waiters = Vec::new();
    for lease in &leases {
        for number in 0..4 {
            let lock = bench.lock(&clients[number % 2], &lease.name, 400)?;
            let served = served.clone();
            waiters.push(tokio::spawn(async move {
                lock.acquire_unbounded().await?.release().await?;
                served.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Failure>(())
            }));
        }
    }
    settle(bench, &*client).await;
    let start = now(&*client);
    try_join_all(leases.iter().map(|lease| {
        let (client, ticket) = (&client, lease.ticket());
        async move { release(&**client, &ticket).await }
    }))
    .await?;
    while served.load(Ordering::SeqCst) < NAMES * 4 {
        let took = now(&*client).since(start);
        let so_far = served.load(Ordering::SeqCst);
        ensure!(took <= within, "of {} waiters {so_far} were served in {took:?}", NAMES * 4);
        pass(&*client, bench.step()).await;
    }
    for waiter in join_all(waiters).await {
        waiter??;
    }
    Ok(())
}

async fn f79_waiter_among_50_who_try_is_served(bench: &Bench) -> Verdict {
    const MOST: usize = 100;
    let client = bench.client().await?;
    if client.profile().order == Order::None {
        return Err(Failure::not_applicable("it serves waiters in no order"));
    }
    let name = bench.name();
    let first = guard(bench, &bench.locks().await?, &name, 60).await?;
    let lock = bench.lock(&bench.locks().await?, &name, 60)?;
    let waiter = tokio::spawn(async move { lock.acquire_unbounded().await });
    settle(bench, &*client).await;
    let handed = Arc::new(AtomicUsize::new(0));
    let mut pollers = Vec::new();
    let clients = try_join_all((0..5).map(|_| bench.locks())).await?;
    for number in 0..50_u32 {
        let lock: Lock = bench.lock(&clients[number as usize % 5], &name, 60)?;
        let (client, handed, step) = (client.clone(), handed.clone(), bench.step());
        pollers.push(tokio::spawn(async move {
            pass(&*client, step * number / 50).await;
            loop {
                // An error is a poll like others.
                if let Ok(Some(guard)) = lock.try_acquire().await {
                    handed.fetch_add(1, Ordering::SeqCst);
                    pass(&*client, step / 5).await;
                    let _ = guard.release().await;
                }
                pass(&*client, step).await;
            }
        }));
    }
    settle(bench, &*client).await;
    first.release().await?;
    let served: Result<Guard, Failure> = tokio::select! {
        served = waiter => Ok(served??),
        () = async {
            while handed.load(Ordering::SeqCst) <= MOST {
                pass(&*client, bench.step()).await;
            }
        } => Err(Failure::failed(format!("{MOST} others got the name before the waiter"))),
    };
    for poller in pollers {
        poller.abort();
    }
    served?.release().await?;
    Ok(())
}

async fn f83_crossed_waits_end_in_time(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let one = bench.locks().await?;
    for other in [one.clone(), bench.locks().await?] {
        let (a, b) = (bench.name(), bench.name());
        let wait = bench.ttl().get();
        let (holds_a, holds_b) =
            (guard(bench, &one, &a, 20).await?, guard(bench, &other, &b, 20).await?);
        let (wants_b, wants_a) = (bench.lock(&one, &b, 20)?, bench.lock(&other, &a, 20)?);
        let start = now(&*client);
        let crossed = |lock: Lock, holds: Guard| async move {
            error(lock.acquire_within(wait).await, ErrorKind::NotAcquired)?;
            Ok::<_, Failure>(holds)
        };
        let held = try_join(crossed(wants_b, holds_a), crossed(wants_a, holds_b)).await?;
        let took = now(&*client).since(start);
        ensure!(took <= wait + bench.late() * 2, "crossed waits of {wait:?} took {took:?}");
        held.0.release().await?;
        held.1.release().await?;
        is_free(bench, &*client, &a).await?;
        is_free(bench, &*client, &b).await?;
    }
    Ok(())
}

async fn c85_tasks_on_one_thread_exclude_each_other(bench: &Bench) -> Verdict {
    let one = bench.locks().await?;
    let client = bench.client().await?;
    for other in [one.clone(), bench.locks().await?] {
        let name = bench.name();
        let inside = AtomicBool::new(false);
        let visits = |lock: Lock| {
            let (inside, client, step) = (&inside, &client, bench.step() / 20);
            async move {
                for _ in 0..rounds(10, 200) {
                    let guard = lock.acquire_unbounded().await?;
                    ensure!(!inside.swap(true, Ordering::SeqCst), "two tasks of a thread hold");
                    pass(&**client, step).await;
                    ensure!(inside.swap(false, Ordering::SeqCst), "two tasks of a thread held");
                    guard.release().await?;
                }
                Ok::<_, Failure>(())
            }
        };
        // Both in this one task, and so on one thread.
        let (mine, theirs) = (bench.lock(&one, &name, 40)?, bench.lock(&other, &name, 40)?);
        try_join(visits(mine), visits(theirs)).await?;
    }
    Ok(())
}
