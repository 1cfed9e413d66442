//! Shared leases that end, and leases of one lock.

use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_api::{Acquired, HandedOver, Lease, Loss, Renewal, Ticket, margin};
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::time::timeout;

use crate::common::connect;
use crate::place::{Place, SECOND, claim, name, take};
use crate::turns::enter;

/// So long that nothing ends by it.
const LONG: Duration = Duration::from_secs(20);

const TTL: Duration = Duration::from_secs(2);

pub(crate) async fn a_key_on_a_session_that_ended_is_claimed_anew() -> Verdict {
    let place = Place::shared("ended").await?;
    let proxy = Proxy::start(place.members[0], Framing::Grpc).await?;
    let near = connect(&place.members, "ended").await?;
    let far = connect(&[proxy.addr()], "ended").await?;
    take(&*near, &claim("a", LONG)).await?;
    let waits = claim("a", TTL).with_queue(true);
    enter(&*far, &waits).await?;
    let entered = Instant::now();
    let before = place.claims_are(&name("a"), 2, SECOND).await?.remove(1);
    tokio::time::sleep(TTL / 2).await;
    // The server keeps its lease for longer than the client knows, which can't revoke it either.
    proxy.on(Direction::ToServer, Match::command("LeaseRevoke").always(), Action::Hold);
    let lost = Match::command("LeaseKeepAlive");
    let lost = proxy.on(Direction::ToClient, lost, Action::Drop);
    tokio::select! {
        answer = far.acquire(&waits) => return Err(Failure::failed(format!("{answer:?}"))),
        () = lost.fired() => {}
    }
    tokio::time::sleep(TTL.saturating_sub(entered.elapsed())).await;
    ensure!(place.truth.lease(before.pair.lease).await?.is_some(), "the server has it yet");
    enter(&*far, &waits).await?;
    let after = place.claims(&name("a")).await?.remove(1);
    ensure!(after.owner == Some(waits.owner), "{after:?}");
    ensure!(after.pair.lease != before.pair.lease, "nobody keeps that lease alive: {after:?}");
    Ok(())
}

pub(crate) async fn a_session_that_ends_while_another_is_opened_is_told() -> Verdict {
    let place = Place::shared("untold").await?;
    let proxy = Proxy::start(place.members[0], Framing::Grpc).await?;
    let client = connect(&[proxy.addr()], "untold").await?;
    // The keys' own watches tell nothing.
    proxy.on(Direction::ToClient, Match::pushes().always(), Action::Hold);
    let mut losses = client.losses();
    let lost = take(&*client, &claim("a", TTL)).await?;
    tokio::time::sleep(TTL - margin(TTL)).await;
    take(&*client, &claim("b", LONG)).await?;
    let told = timeout(SECOND, losses.next()).await?;
    ensure!(told == (lost.owner, Loss::SessionGone), "{told:?}");
    Ok(())
}

pub(crate) async fn a_hand_over_from_a_lease_of_its_own_leaves_none_behind() -> Verdict {
    let place = Place::shared("own").await?;
    let client = connect(&place.members, "own").await?;
    for yields in [false, true] {
        let lease = take(&*client, &claim("a", LONG).with_keep_alive(false)).await?;
        let own = place.claims(&lease.name).await?.remove(0).pair.lease;
        let next = claim("a", LONG);
        let answer = client.hand_over(&lease, &next, yields).await?;
        ensure!(matches!(answer, HandedOver::Granted(_)), "{answer:?}");
        let left = place.truth.lease(own).await?;
        ensure!(left.is_none(), "{left:?}");
        client.release(&Ticket::by_owner(next.name, next.owner), None).await?;
    }
    Ok(())
}

pub(crate) async fn what_ended_on_a_lease_of_its_own_is_forgotten() -> Verdict {
    let place = Place::shared("forgotten").await?;
    let client = connect(&place.members, "forgotten").await?;
    let lease = take(&*client, &claim("a", TTL).with_keep_alive(false)).await?;
    let owner = format!("{:?}", lease.owner);
    ensure!(format!("{client:?}").contains(&owner), "{owner} holds: {client:?}");
    let begun = Instant::now();
    while format!("{client:?}").contains(&owner) {
        ensure!(begun.elapsed() < 2 * TTL, "it remembers {owner}: {client:?}");
        tokio::time::sleep(TTL / 40).await;
    }
    ensure!(begun.elapsed() > TTL * 9 / 10, "it was forgotten after {:?}", begun.elapsed());
    Ok(())
}

pub(crate) async fn no_more_than_the_ttl_is_promised_of_a_longer_lease() -> Verdict {
    // etcd's lease has whole seconds, but what nobody renews is given back at its TTL.
    let ttl = Duration::from_millis(1_500);
    let place = Place::shared("promised").await?;
    let client = connect(&place.members, "promised").await?;
    for keep_alive in [true, false] {
        let claim = claim("a", ttl).with_keep_alive(keep_alive);
        let Acquired::Granted(grant) = client.acquire(&claim).await? else {
            return Err(Failure::failed("it is free"));
        };
        ensure!(grant.validity.remaining <= ttl, "{grant:?}");
        let lease = Lease::new(claim.name, claim.owner, grant.token, claim.ttl);
        let renewal = client.renew(&lease).await?;
        let Renewal::Renewed(validity) = renewal else {
            return Err(Failure::failed(format!("{renewal:?}")));
        };
        ensure!(validity.remaining <= ttl, "{validity:?}");
        client.release(&lease.ticket(), None).await?;
    }
    Ok(())
}

pub(crate) async fn a_renewal_that_is_answered_too_late_revives_nothing() -> Verdict {
    let place = Place::shared("too-late").await?;
    let proxy = Proxy::start(place.members[0], Framing::Grpc).await?;
    let client = connect(&[proxy.addr()], "too-late").await?;
    let (a, b) = (take(&*client, &claim("a", TTL)).await?, take(&*client, &claim("b", TTL)).await?);
    tokio::time::sleep(TTL * 6 / 10).await;
    let held = Match::command("LeaseKeepAlive");
    let held = proxy.on(Direction::ToClient, held, Action::Hold);
    let renewing = tokio::spawn({
        let (client, a) = (client.clone(), a.clone());
        async move { client.renew(&a).await }
    });
    held.fired().await;
    // Another lock keeps their session alive meanwhile.
    let renewal = client.renew(&b).await?;
    ensure!(matches!(renewal, Renewal::Renewed(_)), "{renewal:?}");
    place.claims_are(&a.name, 0, TTL).await?;
    ensure!(proxy.deliver(Direction::ToClient) == 1, "the answer comes");
    let renewal = renewing.await??;
    ensure!(matches!(renewal, Renewal::NotMine(_)), "{renewal:?}");
    let renewal = client.renew(&b).await?;
    ensure!(matches!(renewal, Renewal::Renewed(_)), "{renewal:?}");
    Ok(())
}

pub(crate) async fn a_session_without_its_epoch_lasts_as_promised() -> Verdict {
    let place = Place::shared("epoch").await?;
    let client = connect(&place.members, "epoch").await?;
    let mut losses = client.losses();
    let lease = take(&*client, &claim("a", TTL)).await?;
    let granted = Instant::now();
    let key = place.truth.pairs(&place.keys.sessions()).await?.remove(0).key;
    ensure!(place.truth.delete(key).await?, "it is there");
    // The next claim finds that out, and is granted on another session.
    take(&*client, &claim("b", TTL)).await?;
    let told = timeout(SECOND, losses.next()).await?;
    ensure!(told == (lease.owner, Loss::SessionGone), "{told:?}");
    // Who was told may not have heard of it yet.
    while granted.elapsed() < TTL * 8 / 10 {
        let claims = place.claims(&lease.name).await?;
        let stands = claims.first().is_some_and(|claim| claim.owner == Some(lease.owner));
        ensure!(stands, "{:?} after the grant: {claims:?}", granted.elapsed());
        tokio::time::sleep(TTL / 100).await;
    }
    place.claims_are(&lease.name, 0, TTL).await?;
    Ok(())
}

pub(crate) async fn each_client_of_one_driver_is_told_of_its_own_losses() -> Verdict {
    let place = Place::shared("two").await?;
    let driver = connect(&place.members, "two").await?;
    let clients = [0, 1].map(|_| Locks::with_backend(driver.clone()));
    let mut guards = Vec::new();
    for (client, name) in clients.iter().zip(["a", "b"]) {
        guards.push(client.lock(name)?.ttl(3 * LONG).acquire().await?);
    }
    // Twice, as the first loss may be told to the right one by chance.
    for guard in guards {
        let claims = place.claims(guard.name()).await?;
        place.truth.delete(&claims[0].key).await?;
        // Long before its next renewal.
        let loss = timeout(LONG / 2, guard.lost()).await?;
        ensure!(loss == Loss::Gone, "{loss:?}");
    }
    Ok(())
}
