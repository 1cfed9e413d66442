//! What is left behind.

use futures_util::future::try_join_all;
use leasehold_api::HandedOver;

use super::steps::{by_owner, give_up, held, is_free, kept, pass, queue, release, renew, take};
use crate::bench::Bench;
use crate::cancel::drop_after;
use crate::effort::rounds;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Resources:
    released_name_leaves_nothing, "6.6", "after release, waiters that gave up and a close that opened, the store keeps nothing of the name";
    expired_name_leaves_nothing, "6.6", "after holder and waiters crashed, the store keeps nothing of the name for long";
    leases_that_simply_end_leave_nothing [private], "6.6, 5.4", "of locks without renewal, released, tried in vain, waited for, handed over, and dropped at each step, the store keeps nothing";
    released_names_are_not_listed, "list", "200 names taken and released are free and not listed";
    f80_c73_many_names_that_expire_leave_nothing [private], "6.6", "of thousands of names that were taken and expired, the store keeps nothing";
    f80_many_locks_need_no_more_connections [private], "8.1", "thousands of held names, 200 of them waited for, use as many connections as one";
    dropped_client_closes_its_connections [private], "8.1", "a client that is dropped leaves no connection open";
}

async fn released_name_leaves_nothing(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let name = bench.name();
    let before = bench.store().leftovers(&name).await?;
    ensure!(before.is_empty(), "a fresh name has {before:?}");
    for round in 0..3 {
        let lease = take(&*client, &bench.long_claim(&name, 20)).await?;
        let claims = [bench.long_claim(&name, 20), bench.long_claim(&name, 20)];
        for claim in &claims {
            queue(&*other, claim).await?;
            held(&*other, &bench.claim(&name)).await?;
        }
        renew(&*client, &lease).await?;
        give_up(&*other, &claims[0]).await?;
        if round == 2 {
            client.release(&lease.ticket(), Some(bench.ttl().get())).await?;
            pass(&*client, kept(&*client, bench.ttl()) + bench.late()).await;
        } else {
            release(&*client, &lease.ticket()).await?;
        }
        give_up(&*other, &claims[1]).await?;
        let left = bench.store().leftovers(&name).await?;
        ensure!(left.is_empty(), "the store keeps {left:?} in round {round}");
    }
    Ok(())
}

async fn expired_name_leaves_nothing(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let name = bench.name();
    bench.store().leftovers(&name).await?;
    take(&*client, &bench.claim(&name)).await?;
    queue(&*other, &bench.claim(&name)).await?;
    queue(&*client, &bench.claim(&name)).await?;
    pass(&*client, kept(&*client, bench.ttl()) * 2 + bench.late()).await;
    let left = bench.store().leftovers(&name).await?;
    ensure!(left.is_empty(), "the store keeps {left:?}");
    Ok(())
}

async fn leases_that_simply_end_leave_nothing(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let name = bench.name();
    bench.store().leftovers(&name).await?;
    let claim = || bench.long_claim(&name, 30).with_keep_alive(false);
    let nothing_is_left = async |after: &str| {
        let left = bench.store().leftovers(&name).await?;
        ensure!(left.is_empty(), "after {after} the store keeps {left:?}");
        Ok::<_, Failure>(())
    };
    let lease = take(&*client, &claim()).await?;
    release(&*client, &lease.ticket()).await?;
    nothing_is_left("a release").await?;
    let lease = take(&*client, &claim()).await?;
    held(&*other, &claim()).await?;
    release(&*client, &lease.ticket()).await?;
    nothing_is_left("a try in vain").await?;
    let (lease, waits) = (take(&*client, &claim()).await?, claim());
    queue(&*other, &waits).await?;
    give_up(&*other, &waits).await?;
    release(&*client, &lease.ticket()).await?;
    nothing_is_left("a wait").await?;
    let (lease, next) = (take(&*client, &claim()).await?, claim());
    let answer = client.hand_over(&lease, &next, false).await?;
    ensure!(matches!(answer, HandedOver::Granted(_)), "{answer:?}");
    release(&*client, &by_owner(&next)).await?;
    nothing_is_left("a hand-over").await?;
    for polls in 1..6 {
        let claim = claim();
        drop_after(polls, client.acquire(&claim)).await;
        pass(&*client, bench.step()).await;
        // It may have got nothing.
        let _ = client.release(&by_owner(&claim), None).await?;
        nothing_is_left(&format!("a drop at poll {polls}")).await?;
    }
    Ok(())
}

async fn f80_c73_many_names_that_expire_leave_nothing(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    bench.store().leftovers(&bench.name()).await?;
    let claims: Vec<_> = (0..rounds(2_000, 10_000)).map(|_| bench.claim(&bench.name())).collect();
    for claims in claims.chunks(500) {
        try_join_all(claims.iter().map(|claim| take(&*client, claim))).await?;
    }
    pass(&*client, kept(&*client, bench.ttl()) + bench.late()).await;
    for claim in claims.iter().step_by(claims.len() / 20) {
        let left = bench.store().leftovers(&claim.name).await?;
        ensure!(left.is_empty(), "of {} the store keeps {left:?}", claim.name);
    }
    Ok(())
}

async fn released_names_are_not_listed(bench: &Bench) -> Verdict {
    const NAMES: usize = 200;
    let [client, other] = bench.clients().await?;
    Bench::needs_operator(client.profile())?;
    let root = bench.name();
    let mut leases = Vec::with_capacity(NAMES);
    for number in 0..NAMES {
        let name = leasehold_api::LockName::new(&format!("{root}/{number}"))?;
        leases.push(take(&*client, &bench.long_claim(&name, 60)).await?);
    }
    let listed = other.list(root.as_str()).await?.len();
    ensure!(listed == NAMES, "{listed} of {NAMES} held names are listed");
    for lease in &leases {
        release(&*client, &lease.ticket()).await?;
    }
    let listed = other.list(root.as_str()).await?.len();
    ensure!(listed == 0, "{listed} of {NAMES} released names are listed");
    for lease in leases.iter().step_by(20) {
        is_free(bench, &*other, &lease.name).await?;
    }
    Ok(())
}

async fn f80_many_locks_need_no_more_connections(bench: &Bench) -> Verdict {
    const NAMES: usize = 200;
    bench.store().connections().await?;
    let [client, other] = bench.clients().await?;
    let first = take(&*client, &bench.long_claim(&bench.name(), 100)).await?;
    queue(&*other, &bench.long_claim(&first.name, 100)).await?;
    let one = bench.store().connections().await?;
    for _ in 1..NAMES {
        let lease = take(&*client, &bench.long_claim(&bench.name(), 100)).await?;
        queue(&*other, &bench.long_claim(&lease.name, 100)).await?;
    }
    let more: Vec<_> =
        (0..rounds(2_000, 10_000)).map(|_| bench.long_claim(&bench.name(), 100)).collect();
    let mut leases = Vec::with_capacity(more.len());
    for claims in more.chunks(500) {
        leases.extend(try_join_all(claims.iter().map(|claim| take(&*client, claim))).await?);
    }
    let many = bench.store().connections().await?;
    ensure!(many <= one, "{one} connections for one name became {many} for thousands");
    for leases in leases.chunks(500) {
        let released =
            leases.iter().map(|lease| async { release(&*client, &lease.ticket()).await });
        try_join_all(released).await?;
    }
    Ok(())
}

async fn dropped_client_closes_its_connections(bench: &Bench) -> Verdict {
    bench.store().connections().await?;
    let watch = bench.client().await?;
    is_free(bench, &*watch, &bench.name()).await?;
    let before = bench.store().connections().await?;
    {
        let client = bench.client().await?;
        let lease = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
        queue(&*client, &bench.long_claim(&lease.name, 20)).await?;
        let with = bench.store().connections().await?;
        ensure!(with > before, "a client has no connection of its own");
    }
    let mut after = bench.store().connections().await?;
    for _ in 0..40 {
        if after <= before {
            return Ok(());
        }
        pass(&*watch, bench.step()).await;
        after = bench.store().connections().await?;
    }
    ensure!(after <= before, "{before} connections became {after}");
    Ok(())
}
