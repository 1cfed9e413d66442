//! Guards and waits over a link that swallows everything, and after it heals.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all, try_join_all};
use leasehold::Locks;
use leasehold_api::{Acquired, Backend, margin};

use super::super::steps::{held, is_free, is_held_by, lease, now, pass};
use super::steps::{deadline, falls_free, guard, is_lost_between, stays_lost};
use crate::bench::Bench;
use crate::effort::{long, rounds};
use crate::ensure;
use crate::subject::Link;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Faults:
    f20_c6_c127_dead_link_is_a_loss_before_another_holds [policy, private], "2.3, D4.2", "over a link that goes dead the guard is lost by its deadline, before another client is granted, and stays lost after it heals";
    f21_c160_contenders_wait_over_a_dead_link_ends [policy, private], "D4.8", "a wait over a link that goes dead ends with its time, short or long";
    c3_name_held_again_after_a_dead_link_is_kept [policy, private], "D4.1, D4.2", "after a loss over a dead link the same client holds the name anew for 3 TTLs";
    c121_late_answer_does_not_stop_later_renewals [policy, private], "D4.2", "after an answer that came later than its request is repeated, renewals go on";
    c154_groups_that_were_cut_off_are_served [policy, private], "D4.7, D4.8", "after a partition of two groups of clients, 100 acquires of both end in time";
}

/// The facade over a client that the link decides of.
async fn far(bench: &Bench) -> Result<Locks, Failure> {
    Ok(Locks::with_backend(bench.store().connect_by_link().await?))
}

async fn f20_c6_c127_dead_link_is_a_loss_before_another_holds(bench: &Bench) -> Verdict {
    let far = far(bench).await?;
    let near = bench.client().await?;
    let name = bench.name();
    let ttl = bench.ttls(2).get();
    let earliest = now(&*near).saturating_add(ttl - margin(ttl));
    let guard = guard(bench, &far, &name, 2).await?;
    // Renewed once, so that the last good renewal is what counts.
    pass(&*near, ttl / 2).await;
    bench.store().link(Link::Blackholed).await?;
    let latest = deadline(bench, &*near, 2);
    let claim = bench.long_claim(&name, 40);
    let contends = async {
        loop {
            if let Acquired::Granted(grant) = near.acquire(&claim).await? {
                return Ok::<_, Failure>((lease(&claim, grant), guard.is_held()));
            }
            pass(&*near, bench.step()).await;
        }
    };
    let loses = is_lost_between(bench, &*near, &guard, earliest, latest);
    let (lost, next) = join(loses, contends).await;
    lost?;
    let (next, both) = next?;
    ensure!(!both, "another client was granted the name while the guard said held");
    bench.store().link(Link::Healthy).await?;
    pass(&*near, ttl).await;
    stays_lost(&guard)?;
    drop(guard);
    pass(&*near, bench.late()).await;
    is_held_by(bench, &*near, &next).await
}

async fn f21_c160_contenders_wait_over_a_dead_link_ends(bench: &Bench) -> Verdict {
    let far = far(bench).await?;
    let near = bench.client().await?;
    let ttl = bench.ttl().get();
    // The connection is there before it goes dead.
    guard(bench, &far, &bench.name(), 20).await?.release().await?;
    bench.store().link(Link::Blackholed).await?;
    let mut waits = vec![ttl / 5, ttl * 2];
    if long() {
        waits.push(ttl * 10);
    }
    let ends = waits.into_iter().map(|wait| {
        let (far, near) = (&far, &near);
        async move {
            let name = bench.name();
            let lock = bench.lock(far, &name, 20)?;
            let start = now(&**near);
            let answer = lock.acquire_within(wait).await;
            let took = now(&**near).since(start);
            ensure!(answer.is_err(), "a dead link granted {name}");
            ensure!(took >= wait * 4 / 5, "a wait of {wait:?} ended after {took:?}");
            ensure!(took <= wait * 6 / 5 + bench.late(), "a wait of {wait:?} took {took:?}");
            Ok(name)
        }
    });
    let names = try_join_all(ends).await?;
    bench.store().link(Link::Healthy).await?;
    for name in names {
        falls_free(bench, &*near, &name, now(&*near)).await?;
    }
    Ok(())
}

async fn c3_name_held_again_after_a_dead_link_is_kept(bench: &Bench) -> Verdict {
    let far = far(bench).await?;
    let near = bench.client().await?;
    let name = bench.name();
    let lost = guard(bench, &far, &name, 2).await?;
    bench.store().link(Link::Blackholed).await?;
    lost.lost().await;
    falls_free(bench, &*near, &name, deadline(bench, &*near, 2)).await?;
    bench.store().link(Link::Healthy).await?;
    let again = bench.lock(&far, &name, 2)?.acquire_within(bench.ttls(20).get()).await?;
    let end = now(&*near).saturating_add(bench.ttls(6).get());
    while now(&*near) < end {
        held(&*near, &bench.claim(&name)).await?;
        ensure!(again.is_held(), "the name that is held again was lost");
        pass(&*near, bench.step()).await;
    }
    stays_lost(&lost)?;
    again.release().await?;
    drop(lost);
    is_free(bench, &*near, &name).await
}

async fn c121_late_answer_does_not_stop_later_renewals(bench: &Bench) -> Verdict {
    let far = far(bench).await?;
    let near = bench.client().await?;
    let name = bench.name();
    let ttl = bench.ttls(3).get();
    let guard = guard(bench, &far, &name, 3).await?;
    // From before the first renewal until longer after it than it is repeated.
    pass(&*near, ttl / 4).await;
    bench.store().link(Link::AnswersHeld).await?;
    pass(&*near, ttl / 3).await;
    bench.store().link(Link::Healthy).await?;
    let end = now(&*near).saturating_add(ttl * 2);
    while now(&*near) < end {
        ensure!(guard.is_held(), "one late answer lost the guard");
        held(&*near, &bench.claim(&name)).await?;
        pass(&*near, bench.step()).await;
    }
    guard.release().await?;
    Ok(())
}

async fn c154_groups_that_were_cut_off_are_served(bench: &Bench) -> Verdict {
    const NAMES: usize = 10;
    let near: Arc<dyn Backend> = bench.client().await?;
    let mut groups = Vec::new();
    for _ in 0..2 {
        groups.push(far(bench).await?);
        groups.push(bench.locks().await?);
    }
    let names: Vec<_> = (0..NAMES).map(|_| bench.name()).collect();
    let mut guards = Vec::new();
    for (number, name) in names.iter().enumerate() {
        guards.push(guard(bench, &groups[number % groups.len()], name, 2).await?);
    }
    bench.store().link(Link::Blackholed).await?;
    pass(&*near, bench.ttls(rounds(3, 20).try_into().expect("few")).get()).await;
    bench.store().link(Link::Healthy).await?;
    drop(guards);
    let within: Duration = bench.ttls(16).get();
    let start = now(&*near);
    let acquires = (0..100).map(|number| {
        let (locks, name) = (&groups[number % groups.len()], &names[number % NAMES]);
        async move {
            let lock = bench.lock(locks, name, 20)?;
            // Let go at once; a release that fails is the next one's affair.
            lock.acquire_within(within).await?.release().await?;
            Ok::<_, Failure>(())
        }
    });
    for ended in join_all(acquires).await {
        ended?;
    }
    let took = now(&*near).since(start);
    ensure!(took <= within + bench.late(), "100 acquires took {took:?}");
    Ok(())
}
