//! A lease ends at its TTL, and not before.

use std::time::Duration;

use leasehold_api::{Acquired, Backend, Claim, Owner, Ttl};

use super::dice::Dice;
use super::steps::{
    free_between, grant, held, is_free, kept, lease, now, pass, promised, release, release_in_vain,
    renew_in_vain, take,
};
use crate::bench::Bench;
use crate::effort::rounds;
use crate::ensure;
use crate::table::checks;
use crate::verdict::Verdict;

checks! { Expiry:
    lease_ends_at_its_ttl, "1.4", "a lease that nobody renews ends at its TTL, neither before nor after";
    unkept_lease_ends_at_its_ttl, "1.4", "so does one that is not to be kept alive";
    f67_c66_c67_ttls_are_kept_to_the_millisecond, "1.4", "the store keeps TTLs about a second, an hour, and the shortest one, as asked";
    f67_longest_ttl_is_kept, "1.4", "30 days neither overflow nor fall short";
    c69_store_keeps_no_more_than_any_ttl, "1.4", "for random TTLs from the floor to 30 days the store keeps more than nothing, and what was asked for";
    validity_is_a_lower_bound, "2.1", "nobody else gets the name within the validity";
    validity_counts_from_the_start, "2.2", "the validity counts from the attempt's start";
    expired_lease_is_nobodys, "1.4", "its last owner can neither renew nor release it";
    expired_name_goes_to_the_next, "1.4", "the next claim gets a fresh lease of its whole TTL";
}

async fn lease_ends_at_its_ttl(bench: &Bench) -> Verdict {
    ends_at_its_ttl(bench, true).await
}

async fn unkept_lease_ends_at_its_ttl(bench: &Bench) -> Verdict {
    ends_at_its_ttl(bench, false).await
}

async fn ends_at_its_ttl(bench: &Bench, keep_alive: bool) -> Verdict {
    let [client, other] = bench.clients().await?;
    let name = bench.name();
    let claim = bench.claim(&name).with_keep_alive(keep_alive);
    let earliest = now(&*client).saturating_add(claim.ttl.get());
    grant(&*client, &claim).await?;
    let latest = now(&*client).saturating_add(kept(&*client, claim.ttl));
    free_between(bench, &*other, &name, earliest, latest).await?;
    Ok(())
}

async fn f67_c66_c67_ttls_are_kept_to_the_millisecond(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let floor = client.profile().ttl_floor.max(Duration::from_millis(1));
    let lengths = [1, 999, 1_000, 1_001, 1_500, 60_001, 3_600_000].map(Duration::from_millis);
    for ttl in std::iter::once(floor).chain(lengths).filter(|ttl| *ttl >= floor) {
        keeps(&*client, &*other, bench, Ttl::new(ttl)?).await?;
    }
    let name = bench.name();
    let claim = Claim::new(name.clone(), Owner::random(), Ttl::new(floor)?);
    let earliest = promised(&grant(&*client, &claim).await?.validity, claim.ttl);
    let latest = now(&*client).saturating_add(kept(&*client, claim.ttl));
    free_between(bench, &*other, &name, earliest, latest).await?;
    Ok(())
}

async fn f67_longest_ttl_is_kept(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    keeps(&*client, &*other, bench, Ttl::MAX).await
}

async fn c69_store_keeps_no_more_than_any_ttl(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let floor = u64::try_from(client.profile().ttl_floor.as_nanos()).expect("a short floor");
    let most = u64::try_from(Ttl::MAX.get().as_nanos()).expect("30 days");
    let mut dice = Dice::seeded(69);
    for _ in 0..rounds(60, 1_000) {
        // Of every order of magnitude.
        let span = (most - floor) >> dice.below(36);
        let ttl = Ttl::new(Duration::from_nanos(floor + dice.below(span.max(1))))?;
        keeps(&*client, &*other, bench, ttl).await?;
    }
    Ok(())
}

/// Takes a name for `ttl` and reads back what remains, wherever the driver tells it.
async fn keeps(client: &dyn Backend, other: &dyn Backend, bench: &Bench, ttl: Ttl) -> Verdict {
    let claim = Claim::new(bench.name(), Owner::random(), ttl);
    let start = now(client);
    let granted = grant(client, &claim).await?;
    let lease = lease(&claim, granted);
    // A lease that others share may have begun before.
    let promised = granted.validity.from.saturating_add(granted.validity.remaining);
    let mut told = Vec::new();
    if client.profile().operator {
        told.extend(client.inspect(&claim.name).await?.and_then(|holder| holder.remaining));
    }
    match other.acquire(&bench.claim(&claim.name)).await? {
        Acquired::Held { holder, free_in } => {
            told.extend(free_in);
            told.extend(holder.and_then(|holder| holder.remaining));
        }
        Acquired::Granted(_) => {
            let early = promised.since(now(client));
            ensure!(early.is_zero(), "a TTL of {ttl} was over {early:?} before it was promised");
        }
    }
    let passed = now(client).since(start) + Duration::from_millis(1);
    let shortest = promised.since(start.saturating_add(passed));
    for remaining in told {
        ensure!(remaining >= shortest, "of a TTL of {ttl}, {remaining:?} remain after {passed:?}");
        ensure!(remaining <= kept(client, ttl), "of a TTL of {ttl}, {remaining:?} remain");
        ensure!(!remaining.is_zero() || shortest.is_zero(), "a TTL of {ttl} is kept for nothing");
    }
    // A short lease may be over by now.
    if shortest > bench.late() {
        release(client, &lease.ticket()).await?;
    }
    Ok(())
}

async fn validity_is_a_lower_bound(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let claim = bench.claim(&bench.name());
    let validity = grant(&*client, &claim).await?.validity;
    let latest = now(&*client).saturating_add(kept(&*client, claim.ttl));
    let promised = validity.from.saturating_add(validity.remaining);
    free_between(bench, &*other, &claim.name, promised, latest).await?;
    Ok(())
}

async fn validity_counts_from_the_start(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let claim = bench.claim(&bench.name());
    let before = now(&*client);
    let granted = grant(&*client, &claim).await?.validity;
    let off = granted.from.since(before);
    ensure!(off <= bench.late(), "the grant counts from {off:?} after its call");
    ensure!(granted.from >= before, "the grant counts from before its call");
    let again = grant(&*client, &claim).await?.validity;
    let end = again.from.saturating_add(again.remaining);
    let over = end.since(before.saturating_add(kept(&*client, claim.ttl) + bench.late()));
    ensure!(over.is_zero(), "the grant found again lasts {over:?} longer");
    let lease = lease(&claim, grant(&*client, &claim).await?);
    let before = now(&*client);
    let renewed = super::steps::renew(&*client, &lease).await?;
    let off = renewed.from.since(before);
    ensure!(off <= bench.late(), "the renewal counts from {off:?} after its call");
    ensure!(renewed.from >= before, "the renewal counts from before its call");
    Ok(())
}

async fn expired_lease_is_nobodys(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let lease = take(&*client, &bench.claim(&bench.name())).await?;
    pass(&*client, kept(&*client, lease.ttl) + bench.late()).await;
    renew_in_vain(&*client, &lease).await?;
    release_in_vain(&*client, &lease.ticket()).await?;
    if client.profile().operator {
        let holder = other.inspect(&lease.name).await?;
        ensure!(holder.is_none(), "an expired lease has a holder: {holder:?}");
    }
    is_free(bench, &*other, &lease.name).await
}

async fn expired_name_goes_to_the_next(bench: &Bench) -> Verdict {
    let [client, other, third] = bench.clients().await?;
    let first = take(&*client, &bench.claim(&bench.name())).await?;
    pass(&*client, kept(&*client, first.ttl) + bench.late()).await;
    let claim = bench.claim(&first.name);
    let earliest = now(&*other).saturating_add(claim.ttl.get());
    let second = take(&*other, &claim).await?;
    let latest = now(&*other).saturating_add(kept(&*other, claim.ttl));
    ensure!(second.token > first.token, "token {} follows {}", second.token, first.token);
    held(&*client, &bench.claim(&first.name)).await?;
    free_between(bench, &*third, &first.name, earliest, latest).await?;
    Ok(())
}
