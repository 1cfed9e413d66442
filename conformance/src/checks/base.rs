//! What a driver answers at all.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use futures_util::future::join;
use leasehold_api::{ErrorKind, Guarantee, Label, LockName, Losses, Metadata, Owner};

use super::steps::{
    free_between, grant, held, is_free, is_held_by, kept, lease, now, pass, release, renew_in_vain,
    take,
};
use crate::bench::Bench;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Base:
    free_name_is_granted, "1.1", "a free name is granted, with a token and a validity within the TTL";
    held_is_an_answer, "1.6", "a held name is an answer, and what it says of the holder is true";
    free_in_is_true, "1.6", "after free_in, a name that nobody renewed is free";
    acquire_never_waits, "1.1", "an acquire of a held name answers at once, queued or not";
    acquire_is_idempotent_by_owner, "1.3", "the owner that holds the name gets the same token again";
    acquire_again_does_not_re_arm, "1.3", "asking again neither lengthens the lease nor claims it did";
    two_names_are_independent, "1.2", "one name's lease does not touch another's";
    profile_is_filled_in, "3.8", "the profile says what it must, and why the guarantee is not higher";
    inspect_tells_the_holder, "inspect", "inspect gives owner, token, time left and metadata";
    list_tells_the_held_names, "list", "list gives the held names of a prefix, and no others";
    evict_ends_the_lease_it_names, "evict", "evict ends the lease of that token, and no other";
    each_who_listens_hears_of_each_loss, "4.5", "of two clients' leases over one driver both clients hear the same: of each loss, or, where the driver sees none, of none";
    closed_name_is_not_evicted, "5.6, evict", "evicting a closed name says that nothing was evicted, and changes nothing";
    operators_verbs_are_there_or_refused, "inspect", "without operator's verbs each says Unsupported";
}

async fn free_name_is_granted(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let claim = bench.claim(&bench.name());
    let before = now(&*client);
    let grant = grant(&*client, &claim).await?;
    let after = now(&*client);
    let validity = grant.validity;
    ensure!(validity.remaining > Duration::ZERO, "the lease is born expired");
    let longest = kept(&*client, claim.ttl);
    ensure!(validity.remaining <= longest, "{:?} of {:?} remain", validity.remaining, claim.ttl);
    ensure!(
        before <= validity.from && validity.from <= after,
        "the validity counts from {:?}, the call lasted from {before:?} to {after:?}",
        validity.from
    );
    Ok(())
}

async fn held_is_an_answer(bench: &Bench) -> Verdict {
    let [holder, other] = bench.clients().await?;
    let claim = bench.long_claim(&bench.name(), 4);
    let lease = take(&*holder, &claim).await?;
    let answer = held(&*other, &bench.claim(&lease.name)).await?;
    if let Some(holder) = answer.holder {
        ensure!(holder.owner == lease.owner, "the holder is said to be {holder}");
        ensure!(holder.token == lease.token, "the holder is said to be {holder}");
        if let Some(metadata) = holder.metadata {
            ensure!(metadata.pid == claim.metadata.pid, "the pid is said to be {}", metadata.pid);
        }
    }
    if let Some(free_in) = answer.free_in {
        let longest = kept(&*other, claim.ttl);
        ensure!(free_in <= longest, "a lease of {:?} is free in {free_in:?}", claim.ttl);
    }
    Ok(())
}

async fn free_in_is_true(bench: &Bench) -> Verdict {
    let [holder, other] = bench.clients().await?;
    let lease = take(&*holder, &bench.claim(&bench.name())).await?;
    let Some(free_in) = held(&*other, &bench.claim(&lease.name)).await?.free_in else {
        return Err(Failure::not_applicable("the driver does not say when a name falls free"));
    };
    pass(&*other, free_in + bench.late()).await;
    is_free(bench, &*other, &lease.name).await
}

async fn acquire_never_waits(bench: &Bench) -> Verdict {
    let [holder, other] = bench.clients().await?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    for queued in [false, true] {
        let start = now(&*other);
        let claim = bench.claim(&lease.name).with_queue(queued);
        held(&*other, &claim).await?;
        let took = now(&*other).since(start);
        ensure!(took < bench.ttl().get(), "the answer took {took:?} (queued: {queued})");
    }
    Ok(())
}

async fn acquire_is_idempotent_by_owner(bench: &Bench) -> Verdict {
    let [client, again] = bench.clients().await?;
    let claim = bench.long_claim(&bench.name(), 4);
    let lease = take(&*client, &claim).await?;
    for client in [&client, &again] {
        for queued in [false, true] {
            let found = grant(&**client, &claim.clone().with_queue(queued)).await?;
            ensure!(found.token == lease.token, "token {} became {}", lease.token, found.token);
        }
    }
    Ok(())
}

async fn acquire_again_does_not_re_arm(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let claim = bench.claim(&bench.name());
    let start = now(&*client);
    let first = grant(&*client, &claim).await?;
    let granted = now(&*client);
    pass(&*client, bench.ttl().get() / 2).await;
    let again = grant(&*client, &claim).await?.validity;
    let ends = granted.saturating_add(kept(&*client, claim.ttl));
    let claimed = again.from.saturating_add(again.remaining);
    let over = claimed.since(ends);
    ensure!(over.is_zero(), "asked again, the lease is said to last {over:?} longer");
    let earliest = start.saturating_add(bench.ttl().get());
    let lease = lease(&claim, first);
    free_between(bench, &*other, &lease.name, earliest, ends).await?;
    Ok(())
}

async fn two_names_are_independent(bench: &Bench) -> Verdict {
    let [one, other] = bench.clients().await?;
    let first = take(&*one, &bench.long_claim(&bench.name(), 4)).await?;
    let second = take(&*other, &bench.long_claim(&bench.name(), 4)).await?;
    release(&*one, &first.ticket()).await?;
    is_held_by(bench, &*one, &second).await?;
    is_free(bench, &*other, &first.name).await
}

async fn profile_is_filled_in(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let profile = client.profile();
    ensure!(!profile.backend.is_empty(), "the backend has no name");
    ensure!(!profile.ttl_granularity.is_zero(), "the granularity of TTLs is zero");
    ensure!(profile.ttl_floor <= bench.ttl().get(), "the TTL floor is {:?}", profile.ttl_floor);
    for (what, text) in
        [("tokens_on_data_loss", profile.tokens_on_data_loss), ("clock", profile.expiry_clock)]
    {
        ensure!(!text.is_empty() && text != "unknown", "the profile does not say its {what}");
    }
    let explained = profile.guarantee == Guarantee::Correctness || !profile.because.is_empty();
    ensure!(explained, "the profile does not say why it gives efficiency only");
    Ok(())
}

async fn inspect_tells_the_holder(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    Bench::needs_operator(other.profile())?;
    let name = bench.name();
    ensure!(other.inspect(&name).await?.is_none(), "a name that was never held has a holder");
    let mut metadata = Metadata::of_this_process();
    metadata.label = Some(Label::new("nightly \"report\" {1}")?);
    metadata.host = "host-7.example".into();
    let claim = bench.long_claim(&name, 4).with_metadata(metadata.clone());
    let lease = take(&*client, &claim).await?;
    let Some(holder) = other.inspect(&name).await? else {
        return Err(Failure::failed("a held name has no holder"));
    };
    ensure!((holder.owner, holder.token) == (lease.owner, lease.token), "it says {holder}");
    let Some(remaining) = holder.remaining else {
        return Err(Failure::failed("a lease is said to last for ever"));
    };
    let longest = kept(&*client, claim.ttl);
    ensure!(remaining > claim.ttl.get() / 2 && remaining <= longest, "{remaining:?} remain");
    let Some(told) = holder.metadata else {
        return Err(Failure::failed("the holder has no metadata"));
    };
    ensure!(told.label == metadata.label && told.host == metadata.host, "it says {told:?}");
    ensure!(told.pid == metadata.pid, "it says {told:?}");
    let off = |a: SystemTime, b| a.duration_since(b).unwrap_or_default();
    let off = off(told.since, metadata.since).max(off(metadata.since, told.since));
    ensure!(off < Duration::from_secs(1), "`since` is off by {off:?}");
    release(&*client, &lease.ticket()).await?;
    ensure!(other.inspect(&name).await?.is_none(), "a released name has a holder");
    Ok(())
}

async fn list_tells_the_held_names(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    Bench::needs_operator(client.profile())?;
    let root = bench.name();
    let named = |suffix: &str| LockName::new(&format!("{root}{suffix}"));
    let mut leases = Vec::new();
    for suffix in ["/b", "/a", "/A", "/%", "/_x", "/*", "x"] {
        leases.push(take(&*client, &bench.long_claim(&named(suffix)?, 10)).await?);
    }
    release(&*client, &leases.pop().expect("seven were taken").ticket()).await?;
    for prefix in ["", "/", "/a", "/%", "/_", "/*", "/?", "[", "/b/"] {
        let prefix = format!("{root}{prefix}");
        let mut want: Vec<_> = leases
            .iter()
            .filter(|lease| lease.name.as_str().starts_with(&prefix))
            .map(|lease| (lease.name.clone(), lease.token))
            .collect();
        let list = client.list(&prefix).await?;
        let mut got: Vec<_> = list.into_iter().map(|(name, held)| (name, held.token)).collect();
        want.sort();
        got.sort();
        ensure!(got == want, "list({prefix:?}) is {got:?}, not {want:?}");
    }
    Ok(())
}

async fn evict_ends_the_lease_it_names(bench: &Bench) -> Verdict {
    let [client, operator] = bench.clients().await?;
    Bench::needs_operator(operator.profile())?;
    let name = bench.name();
    let old = take(&*client, &bench.long_claim(&name, 10)).await?;
    release(&*client, &old.ticket()).await?;
    ensure!(!operator.evict(&name, old.token).await?, "a free name was evicted");
    let lease = take(&*client, &bench.long_claim(&name, 10)).await?;
    ensure!(!operator.evict(&name, old.token).await?, "another token's lease was evicted");
    is_held_by(bench, &*client, &lease).await?;
    ensure!(operator.evict(&name, lease.token).await?, "the lease was not evicted");
    renew_in_vain(&*client, &lease).await?;
    is_free(bench, &*operator, &name).await
}

async fn each_who_listens_hears_of_each_loss(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    Bench::needs_operator(client.profile())?;
    let (mut one, mut two) = (client.losses(), client.losses());
    let mut lost = HashSet::new();
    for _ in 0..2 {
        let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
        ensure!(client.evict(&lease.name, lease.token).await?, "the lease was not evicted");
        lost.insert(lease.owner);
    }
    let (mut first, mut second) = (HashSet::new(), HashSet::new());
    tokio::select! {
        _ = join(hears_of(&mut *one, &lost, &mut first), hears_of(&mut *two, &lost, &mut second)) => {}
        // No driver has to see any.
        () = pass(&*client, bench.ttls(2).get()) => {}
    }
    ensure!(first == second, "of {lost:?} one heard of {first:?}, and the other of {second:?}");
    Ok(())
}

async fn hears_of(losses: &mut dyn Losses, lost: &HashSet<Owner>, heard: &mut HashSet<Owner>) {
    while heard.len() < lost.len() {
        let (owner, _) = losses.next().await;
        heard.extend(lost.get(&owner));
    }
}

async fn closed_name_is_not_evicted(bench: &Bench) -> Verdict {
    let [client, operator] = bench.clients().await?;
    Bench::needs_operator(operator.profile())?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let open = bench.ttls(2);
    let earliest = now(&*client).saturating_add(open.get());
    let outcome = client.release(&lease.ticket(), Some(open.get())).await?.outcome;
    ensure!(outcome.is_ok(), "the lease was not closed: {outcome:?}");
    let latest = now(&*client).saturating_add(kept(&*client, open));
    ensure!(!operator.evict(&lease.name, lease.token).await?, "a closed name was evicted");
    free_between(bench, &*operator, &lease.name, earliest, latest).await?;
    Ok(())
}

async fn operators_verbs_are_there_or_refused(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let name = bench.name();
    let lease = take(&*client, &bench.long_claim(&name, 10)).await?;
    let answers = [
        client.inspect(&name).await.map(|holder| holder.is_some()),
        client.list(name.as_str()).await.map(|list| list.len() == 1),
        client.evict(&name, lease.token).await,
    ];
    for answer in answers {
        match answer {
            Ok(found) => {
                ensure!(client.profile().operator, "a verb is there that the profile lacks");
                ensure!(found, "an operator's verb does not find the lease");
            }
            Err(error) => {
                ensure!(!client.profile().operator, "the profile has the verb, but: {error}");
                ensure!(error.kind() == ErrorKind::Unsupported, "refused, but with: {error}");
            }
        }
    }
    Ok(())
}
