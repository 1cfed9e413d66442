//! Giving a lease back, and closing a name for a while.

use std::time::Duration;

use leasehold_api::{Claim, Owner, Token, Ttl};

use super::steps::{
    by_owner, free_between, give_up, held, is_free, is_held_by, kept, now, pass, release,
    release_in_vain, renew, renew_in_vain, take,
};
use crate::bench::Bench;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Release:
    release_frees_the_name, "5.1", "a released name is free at once";
    f72_release_twice_is_harmless, "5.2", "a repeated release says so and leaves the next holder alone";
    f71_release_compares_the_owner, "5.1", "another owner with the right token releases nothing";
    release_compares_the_token, "5.1", "the right owner with another token releases nothing";
    release_compares_and_frees_in_one_step, "5.1", "a release on the verge of expiry never frees the next holder's lease";
    release_by_owner_needs_no_token, "5.1", "without a token, whatever the owner has goes";
    release_by_owner_leaves_others_alone, "5.2", "without a token, another's lease stays";
    release_needs_no_state_of_the_driver, "5.5", "a fresh client releases by ticket, with a token and without";
    release_of_a_free_name_is_harmless, "5.2", "a release of what was never held leaves the name free";
    f72_expired_lease_is_released_in_vain, "5.2", "a release past the end says not mine";
    closed_name_is_held_by_nobody, "5.6, 1.7", "a closed name is held without a holder, also for who closed it";
    closed_name_opens_at_its_time, "5.6", "a closed name falls free at reopen_after, neither before nor after";
    closing_again_changes_nothing, "5.6", "a repeat says released and moves nothing";
    closed_lease_is_not_renewed, "5.6", "a renewal of what was closed says not mine and re-arms nothing";
    closing_compares, "5.1", "closing with another's ticket leaves the lease as it was";
    closing_by_owner_needs_no_token, "5.1, 5.6", "without a token, whatever the owner has is closed";
    closing_for_no_time_frees, "5.6", "closing for nothing, or a nanosecond, frees the name";
}

async fn release_frees_the_name(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    release(&*client, &lease.ticket()).await?;
    is_free(bench, &*other, &lease.name).await
}

async fn f72_release_twice_is_harmless(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    release(&*client, &lease.ticket()).await?;
    release_in_vain(&*client, &lease.ticket()).await?;
    let next = take(&*other, &bench.long_claim(&lease.name, 10)).await?;
    release_in_vain(&*client, &lease.ticket()).await?;
    is_held_by(bench, &*other, &next).await
}

async fn f71_release_compares_the_owner(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let mut forged = lease.ticket();
    forged.owner = Owner::random();
    release_in_vain(&*other, &forged).await?;
    release_in_vain(&*client, &forged).await?;
    is_held_by(bench, &*client, &lease).await
}

async fn release_compares_the_token(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    for token in [lease.token.get() - 1, lease.token.get() + 1] {
        let mut forged = lease.ticket();
        forged.token = Some(Token::new(token)?);
        release_in_vain(&*client, &forged).await?;
    }
    is_held_by(bench, &*client, &lease).await
}

async fn release_compares_and_frees_in_one_step(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let clock = client.clock();
    for early in 0..8 {
        let name = bench.name();
        let ttl = (bench.ttl().get() / 5).max(client.profile().ttl_floor);
        let claim = Claim::new(name.clone(), Owner::random(), Ttl::new(ttl)?);
        let end = now(&*client).saturating_add(ttl);
        let lease = take(&*client, &claim).await?;
        let releases = async {
            clock.sleep_until(end.saturating_sub(Duration::from_millis(early))).await;
            client.release(&lease.ticket(), None).await.map(drop)
        };
        let latest = end.saturating_add(kept(&*client, claim.ttl));
        let contends = async {
            let next = free_between(bench, &*other, &name, now(&*other), latest).await?;
            let mut longer = next.clone();
            longer.ttl = bench.ttls(10);
            renew(&*other, &longer).await?;
            Ok::<_, Failure>(next)
        };
        let (released, next) = tokio::join!(releases, contends);
        released?;
        is_held_by(bench, &*other, &next?).await?;
    }
    Ok(())
}

async fn release_by_owner_needs_no_token(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let claim = bench.long_claim(&bench.name(), 10);
    take(&*client, &claim).await?;
    release(&*client, &by_owner(&claim)).await?;
    is_free(bench, &*other, &claim.name).await
}

async fn release_by_owner_leaves_others_alone(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    for client in [&client, &other] {
        release_in_vain(&**client, &by_owner(&bench.claim(&lease.name))).await?;
    }
    is_held_by(bench, &*client, &lease).await
}

async fn release_needs_no_state_of_the_driver(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    for with_token in [true, false] {
        let claim = bench.long_claim(&bench.name(), 10);
        let lease = take(&*client, &claim).await?;
        let fresh = bench.client().await?;
        let ticket = if with_token { lease.ticket() } else { by_owner(&claim) };
        release(&*fresh, &ticket).await?;
        is_free(bench, &*client, &claim.name).await?;
        renew_in_vain(&*client, &lease).await?;
    }
    Ok(())
}

async fn release_of_a_free_name_is_harmless(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let claim = bench.claim(&bench.name());
    let mut ticket = by_owner(&claim);
    release_in_vain(&*client, &ticket).await?;
    ticket.token = Some(Token::new(7)?);
    release_in_vain(&*client, &ticket).await?;
    let outcome = client.release(&ticket, Some(bench.ttl().get())).await?.outcome;
    ensure!(outcome.is_err(), "a name that was never held was closed");
    is_free(bench, &*client, &claim.name).await
}

async fn f72_expired_lease_is_released_in_vain(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.claim(&bench.name())).await?;
    pass(&*client, kept(&*client, lease.ttl) + bench.late()).await;
    let outcome = client.release(&lease.ticket(), Some(bench.ttls(10).get())).await?.outcome;
    ensure!(outcome.is_err(), "an expired lease was closed");
    is_free(bench, &*other, &lease.name).await
}

async fn closed_name_is_held_by_nobody(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let claim = bench.long_claim(&bench.name(), 10);
    let lease = take(&*client, &claim).await?;
    let open = bench.ttls(5).get();
    let outcome = client.release(&lease.ticket(), Some(open)).await?.outcome;
    ensure!(outcome.is_ok(), "the lease was not closed: {outcome:?}");
    for claim in [bench.claim(&claim.name), claim.clone(), claim.clone().with_queue(true)] {
        let answer = held(&*other, &claim).await?;
        ensure!(answer.holder.is_none(), "a closed name has a holder: {:?}", answer.holder);
        if let Some(free_in) = answer.free_in {
            let longest = kept(&*client, bench.ttls(5));
            ensure!(free_in <= longest, "a name closed for {open:?} is free in {free_in:?}");
        }
        give_up(&*other, &claim).await?;
    }
    if client.profile().operator {
        let holder = other.inspect(&lease.name).await?;
        ensure!(holder.is_none(), "a closed name has a holder: {holder:?}");
        let list = other.list(lease.name.as_str()).await?;
        ensure!(list.is_empty(), "a closed name is listed as held: {list:?}");
    }
    Ok(())
}

async fn closed_name_opens_at_its_time(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    // Once longer than what is left of the lease, once shorter.
    for ttls in [1, 4] {
        let lease = take(&*client, &bench.long_claim(&bench.name(), ttls)).await?;
        let open = bench.ttls(2);
        let earliest = now(&*client).saturating_add(open.get());
        let outcome = client.release(&lease.ticket(), Some(open.get())).await?.outcome;
        ensure!(outcome.is_ok(), "the lease was not closed: {outcome:?}");
        let latest = now(&*client).saturating_add(kept(&*client, open));
        free_between(bench, &*other, &lease.name, earliest, latest).await?;
    }
    Ok(())
}

async fn closing_again_changes_nothing(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let open = bench.ttl();
    let earliest = now(&*client).saturating_add(open.get());
    let outcome = client.release(&lease.ticket(), Some(open.get())).await?.outcome;
    ensure!(outcome.is_ok(), "the lease was not closed: {outcome:?}");
    let latest = now(&*client).saturating_add(kept(&*client, open));
    for again in [Some(open.get() * 20), Some(Duration::ZERO), None] {
        let outcome = client.release(&lease.ticket(), again).await?.outcome;
        ensure!(outcome.is_ok(), "a repeat with {again:?} says {outcome:?}");
    }
    free_between(bench, &*other, &lease.name, earliest, latest).await?;
    Ok(())
}

async fn closed_lease_is_not_renewed(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let open = bench.ttl();
    client.release(&lease.ticket(), Some(open.get())).await?;
    let latest = now(&*client).saturating_add(kept(&*client, open));
    renew_in_vain(&*client, &lease).await?;
    free_between(bench, &*other, &lease.name, now(&*client), latest).await?;
    Ok(())
}

async fn closing_compares(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let mut wrong_owner = lease.ticket();
    wrong_owner.owner = Owner::random();
    let mut wrong_token = lease.ticket();
    wrong_token.token = Some(Token::new(lease.token.get() - 1)?);
    for ticket in [wrong_owner, wrong_token] {
        let outcome = other.release(&ticket, Some(bench.ttl().get())).await?.outcome;
        ensure!(outcome.is_err(), "the lease was closed by {ticket:?}");
    }
    is_held_by(bench, &*client, &lease).await?;
    renew(&*client, &lease).await?;
    Ok(())
}

async fn closing_by_owner_needs_no_token(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let claim = bench.long_claim(&bench.name(), 10);
    take(&*client, &claim).await?;
    let open = bench.ttl();
    let earliest = now(&*client).saturating_add(open.get());
    let outcome = other.release(&by_owner(&claim), Some(open.get())).await?.outcome;
    ensure!(outcome.is_ok(), "the lease was not closed: {outcome:?}");
    let latest = now(&*client).saturating_add(kept(&*client, open));
    free_between(bench, &*client, &claim.name, earliest, latest).await?;
    Ok(())
}

async fn closing_for_no_time_frees(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    for open in [Duration::ZERO, Duration::from_nanos(1)] {
        let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
        let outcome = client.release(&lease.ticket(), Some(open)).await?.outcome;
        ensure!(outcome.is_ok(), "closing for {open:?} says {outcome:?}");
        // Where it is kept at all, a store keeps it for its shortest lease at least.
        let shortest = if open.is_zero() { open } else { client.profile().ttl_floor };
        let latest = now(&*client).saturating_add(shortest);
        free_between(bench, &*other, &lease.name, now(&*client), latest).await?;
    }
    Ok(())
}
