//! Waiters and their turns, asked of the driver itself.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use leasehold_api::{Acquired, Backend, Claim, Names, Ticket, Token};
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::{Verdict, ensure};
use tokio::time::timeout;

use crate::common::connect;
use crate::common::subject::quick;
use crate::place::{Place, SECOND, claim, name, own, take};

/// So long that nothing ends by it.
const LONG: Duration = Duration::from_secs(20);

const TTL: Duration = Duration::from_secs(2);

/// A claim that must find the name held, and wait.
pub(crate) async fn enter(client: &dyn Backend, claim: &Claim) -> Verdict {
    let answer = client.acquire(claim).await?;
    ensure!(matches!(answer, Acquired::Held { .. }), "two hold {}: {answer:?}", claim.name);
    Ok(())
}

pub(crate) async fn a_turn_that_the_watch_told_is_held_for_its_ttl() -> Verdict {
    let place = Place::shared("turn").await?;
    let (near, far) =
        (connect(&place.members, "turn").await?, connect(&place.members, "turn").await?);
    let held = take(&*near, &claim("a", LONG)).await?;
    let waits = claim("a", TTL).with_queue(true);
    enter(&*far, &waits).await?;
    let entered = Instant::now();
    tokio::time::sleep(TTL * 7 / 10).await;
    near.release(&held.ticket(), None).await?;
    timeout(SECOND, far.wake(&waits)).await?;
    let turn = take(&*far, &waits).await?;
    // What its entry was good for is over meanwhile, what it was granted is not.
    while entered.elapsed() < TTL * 13 / 10 {
        let claims = place.claims(&waits.name).await?;
        let stands = claims.first().is_some_and(|claim| claim.owner == Some(waits.owner));
        ensure!(stands, "{:?} after it entered: {claims:?}", entered.elapsed());
        tokio::time::sleep(TTL / 100).await;
    }
    far.release(&turn.ticket(), None).await?;
    Ok(())
}

pub(crate) async fn a_deletion_told_late_gives_nobody_a_turn() -> Verdict {
    let place = Place::shared("told-late").await?;
    let proxy = Proxy::start(place.members[0], Framing::Grpc).await?;
    let near = connect(&place.members, "told-late").await?;
    let far = connect(&[proxy.addr()], "told-late").await?;
    let holder = claim("a", LONG);
    let held = take(&*near, &holder).await?;
    // The line is watched from now on, and for a while after its only waiter has gone.
    let first = claim("a", LONG).with_queue(true);
    enter(&*far, &first).await?;
    far.release(&Ticket::by_owner(first.name, first.owner), None).await?;
    let watch = proxy.on(Direction::ToClient, Match::pushes().always(), Action::Hold);
    // The same key goes, and stands there again before the next one enters.
    near.release(&held.ticket(), None).await?;
    let held = take(&*near, &holder).await?;
    let second = claim("a", LONG).with_queue(true);
    enter(&*far, &second).await?;
    proxy.held(Direction::ToClient, 1).await;
    watch.remove();
    proxy.deliver(Direction::ToClient);
    // Nothing wakes it; but for a turn that it would take there must be time.
    let _ = timeout(SECOND / 4, far.wake(&second)).await;
    enter(&*far, &second).await?;
    near.release(&held.ticket(), None).await?;
    timeout(SECOND, far.wake(&second)).await?;
    let turn = take(&*far, &second).await?;
    far.release(&turn.ticket(), None).await?;
    Ok(())
}

pub(crate) async fn a_raise_sends_back_all_who_wait() -> Verdict {
    let place = Place::shared("raise").await?;
    let client = connect(&place.members, "raise").await?;
    let held = take(&*client, &claim("a", LONG)).await?;
    let waiters: Vec<_> = (0..3).map(|_| claim("a", LONG).with_queue(true)).collect();
    for waits in &waiters {
        enter(&*client, waits).await?;
    }
    let above = Token::new(held.token.get() + 600_000_000)?;
    client.raise_tokens(Names::One(&name("a")), above).await?;
    let claims = place.claims(&held.name).await?;
    let is_left = claims.len() == 1 && claims[0].owner == Some(held.owner);
    ensure!(is_left, "only who holds stays: {claims:?}");
    for waits in &waiters {
        timeout(SECOND, client.wake(waits)).await?;
        enter(&*client, waits).await?;
    }
    let claims = place.claims(&held.name).await?;
    ensure!(claims[1..].iter().all(|claim| claim.token() > Some(above)), "{claims:?}");
    ensure!(claims.len() == 4, "{claims:?}");
    Ok(())
}

pub(crate) async fn a_raise_of_all_names_reads_however_many_there_are() -> Verdict {
    const MANY: usize = 3_000;
    let (_server, place) = own(quick()).await?;
    let client = connect(&place.members, "faults").await?;
    // A slash is three bytes of a key: in one answer they would be more than a client takes.
    let long = "/".repeat(500);
    for hundred in 0..MANY / 100 {
        let claims: Vec<_> =
            (0..100).map(|n| claim(&format!("{long}{hundred}-{n}"), LONG)).collect();
        try_join_all(claims.iter().map(|claim| take(&*client, claim))).await?;
    }
    let held = take(&*client, &claim("a", LONG)).await?;
    let waits = claim("a", LONG).with_queue(true);
    enter(&*client, &waits).await?;
    let above = Token::new(held.token.get() + 600_000_000)?;
    client.raise_tokens(Names::All, above).await?;
    let claims = place.claims(&held.name).await?;
    ensure!(claims.len() == 1 && claims[0].owner == Some(held.owner), "{claims:?}");
    Ok(())
}

pub(crate) async fn a_waiter_on_a_lease_of_its_own_keeps_its_place() -> Verdict {
    let place = Place::shared("own-place").await?;
    let proxy = Proxy::start(place.members[0], Framing::Chunks).await?;
    let client = connect(&[proxy.addr()], "own-place").await?;
    for (name, cut) in [("a", false), ("b", true)] {
        take(&*client, &claim(name, LONG)).await?;
        let waits = claim(name, TTL).with_queue(true).with_keep_alive(false);
        enter(&*client, &waits).await?;
        let entered = Instant::now();
        let first = place.claims_are(&waits.name, 2, SECOND).await?.remove(1);
        while entered.elapsed() < 2 * TTL {
            tokio::time::sleep(TTL / 3).await;
            if cut {
                // What its watch knew is gone; who opens it again connects.
                let before = proxy.counts().accepted;
                proxy.cut();
                proxy.until(|counts| counts.accepted > before).await;
            }
            enter(&*client, &waits).await?;
            let claims = place.claims(&waits.name).await?;
            let stands = claims.get(1).is_some_and(|claim| claim.pair == first.pair);
            ensure!(stands, "{:?} after it entered: {claims:?}", entered.elapsed());
        }
    }
    Ok(())
}
