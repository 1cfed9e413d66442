//! Compaction, no space, restored snapshots, and how short a lease may be.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::iter;
use leasehold_api::{Claim, Error, ErrorKind, HandedOver, Names, Renewal, Ticket, Token};
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::servers::{Etcd, Snapshot};
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::time::timeout;

use crate::common::{connect, subject};
use crate::place::{LATE, Place, SECOND, claim, name, own, take};
use crate::turns::enter;

const TTL: Duration = Duration::from_secs(2);

/// So long that nothing ends by it.
const LONG: Duration = Duration::from_secs(20);

pub(crate) async fn f46_c106_compaction_loses_neither_holder_nor_waiter() -> Verdict {
    let (_server, place) = own(subject::quick()).await?;
    let proxy = Proxy::start(place.members[0], Framing::Chunks).await?;
    let watches = place.truth.usage().await?.watches;
    let (one, two) =
        (place.locks_by(&[proxy.addr()]).await?, place.locks_by(&[proxy.addr()]).await?);
    let holder = one.lock("a")?.ttl(TTL).acquire().await?;
    place.is_watched(watches).await?;
    let lock = two.lock("a")?.ttl(TTL);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    place.claims_are(&name("a"), 2, SECOND).await?;

    compact_much(&place).await?;
    // Streams that are opened again find all that they had seen compacted.
    proxy.cut();
    compact_much(&place).await?;
    proxy.cut();
    let begun = Instant::now();
    while begun.elapsed() < 2 * TTL {
        ensure!(holder.is_held(), "the holder keeps it: {holder:?}");
        ensure!(!waiter.is_finished(), "the waiter waits");
        tokio::time::sleep(TTL / 20).await;
    }
    let claims = place.claims(&name("a")).await?;
    ensure!(claims.len() == 2, "of both, and of nobody else: {claims:?}");
    let token = holder.token()?;
    holder.release().await?;
    let guard = timeout(SECOND, waiter).await???;
    ensure!(guard.token()? > token, "{guard:?} follows {token}");
    guard.release().await?;
    ensure!(place.claims(&name("a")).await?.is_empty(), "nothing is left");
    Ok(())
}

async fn compact_much(place: &Place) -> Result<(), Failure> {
    let put = |n: u32| place.truth.put("elsewhere", n.to_string(), 0);
    let mut puts = iter(0..1_000).map(put).buffer_unordered(32);
    while let Some(put) = puts.next().await {
        put?;
    }
    place.truth.compact().await?;
    Ok(())
}

pub(crate) async fn f50_without_space_locks_are_refused_and_old_ones_stay() -> Verdict {
    let (_server, place) = own(subject::quick().quota(1 << 20)).await?;
    let locks = place.locks().await?;
    let (a, b) = (locks.lock("a")?.ttl(TTL), locks.lock("b")?.ttl(TTL));
    let (held, released) = (a.acquire().await?, b.acquire().await?);
    let other = place.locks().await?;
    let waiter = other.lock("a")?.ttl(TTL);
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    place.claims_are(&name("a"), 2, SECOND).await?;
    place.truth.fill("filling/").await?;

    released.release().await?;
    let error = b.try_acquire().await.expect_err("there is no space");
    ensure!(
        (error.kind(), error.code()) == (ErrorKind::Refused, Some("NOSPACE")),
        "{error}: {error:?}"
    );
    let begun = Instant::now();
    while begun.elapsed() < 2 * TTL {
        ensure!(held.is_held(), "renewals need no space");
        tokio::time::sleep(TTL / 20).await;
    }
    held.release().await?;
    // Who stood in line before writes nothing more.
    let next = timeout(SECOND, waiter).await???;
    next.release().await?;

    place.truth.make_room("filling/").await?;
    Ok(b.acquire().await?.release().await?)
}

pub(crate) async fn who_waits_without_space_stays_when_tokens_fall_behind_the_clock() -> Verdict {
    let (_server, place) = own(subject::quick().quota(1 << 20)).await?;
    let near = connect(&place.members, "faults").await?;
    let far = connect(&place.members, "faults").await?;
    let held = take(&*near, &claim("a", LONG)).await?;
    let waits = claim("a", LONG).with_queue(true);
    enter(&*far, &waits).await?;
    // On a lease of its own, and of a client that is no more.
    take(&*near, &claim("b", LONG)).await?;
    let own = claim("b", LONG).with_queue(true).with_keep_alive(false);
    enter(&*connect(&place.members, "faults").await?, &own).await?;
    // As if a minute went by, so that the next claim would raise the floor.
    let floor = place.truth.pair(place.keys.floor()).await?.expect("there is a floor");
    let older = floor.text().parse::<u64>()? - 121_000_000;
    place.truth.put(place.keys.floor(), older.to_string(), 0).await?;
    enter(&*far, &waits).await?;
    place.truth.fill("filling/").await?;
    enter(&*far, &waits).await?;
    enter(&*far, &own).await?;
    near.release(&held.ticket(), None).await?;
    timeout(SECOND, far.wake(&waits)).await?;
    take(&*far, &waits).await?;
    Ok(())
}

pub(crate) async fn f50_without_space_each_verb_does_what_is_documented() -> Verdict {
    let (_server, place) = own(subject::quick().quota(1 << 20)).await?;
    let client = connect(&place.members, "faults").await?;
    let [a, b, c] = ["a", "b", "c"].map(|name| claim(name, LONG));
    let a = take(&*client, &a).await?;
    let b = take(&*client, &b.with_keep_alive(false)).await?;
    let c = take(&*client, &c).await?;
    place.truth.fill("filling/").await?;
    let is_refused = |error: &Error| {
        (error.kind(), error.code(), error.is_retryable())
            == (ErrorKind::Refused, Some("NOSPACE"), false)
    };
    // What needs something written is refused, and changes nothing.
    for keep_alive in [true, false] {
        let new = claim("d", LONG).with_keep_alive(keep_alive);
        let error = client.acquire(&new).await.expect_err("it writes a key");
        ensure!(is_refused(&error), "{error:?}");
        ensure!(client.release(&new_ticket(&new), None).await?.settled, "nothing is on its way");
    }
    let error = client.hand_over(&a, &claim("a", LONG), false).await.expect_err("it writes a key");
    ensure!(is_refused(&error), "{error:?}");
    let closes = client.release(&c.ticket(), Some(LONG)).await;
    let error = closes.expect_err("a name that stays closed wants a lease");
    ensure!(is_refused(&error), "{error:?}");
    let above = Token::new(c.token.get() + 600_000_000)?;
    let error = client.raise_tokens(Names::All, above).await.expect_err("it writes the floor");
    ensure!(is_refused(&error), "{error:?}");
    // What is held is renewed, seen and released.
    for lease in [&a, &b, &c] {
        let renewal = client.renew(lease).await?;
        ensure!(matches!(renewal, Renewal::Renewed(_)), "{renewal:?}");
        let holder = client.inspect(&lease.name).await?;
        ensure!(holder.is_some_and(|holder| holder.owner == lease.owner), "{lease:?} is seen");
        let released = client.release(&lease.ticket(), None).await?;
        ensure!(released.outcome.is_ok() && released.settled, "{released:?}");
        ensure!(place.claims(&lease.name).await?.is_empty(), "it is free");
    }
    ensure!(client.fencing_token(&name("a")).await? >= Some(c.token), "a read");
    Ok(())
}

/// The write that takes the last space is done, and refused all the same. It is as one that was done
/// before, and is sent again.
pub(crate) async fn a_hand_over_that_was_done_is_found_without_space() -> Verdict {
    let (_server, place) = own(subject::quick().quota(1 << 20)).await?;
    let proxy = Proxy::start(place.members[0], Framing::Grpc).await?;
    let client = connect(&[proxy.addr()], "faults").await?;
    let (lease, next) = (take(&*client, &claim("a", LONG)).await?, claim("a", LONG));
    let lost = proxy.on(Direction::ToClient, Match::answers(), Action::Drop);
    tokio::select! {
        answer = client.hand_over(&lease, &next, false) => {
            return Err(Failure::failed(format!("{answer:?}")));
        }
        () = lost.fired() => {}
    }
    place.truth.fill("filling/").await?;
    let answer = client.hand_over(&lease, &next, false).await?;
    let claims = place.claims(&lease.name).await?;
    ensure!(claims.len() == 1 && claims[0].owner == Some(next.owner), "{claims:?}");
    let token = match answer {
        HandedOver::Granted(grant) => grant.token,
        answer => return Err(Failure::failed(format!("{answer:?}"))),
    };
    ensure!(claims[0].token() == Some(token), "{token} of {claims:?}");
    client.release(&new_ticket(&next), None).await?;
    Ok(())
}

fn new_ticket(claim: &Claim) -> Ticket {
    Ticket::by_owner(claim.name.clone(), claim.owner)
}

pub(crate) async fn what_was_granted_at_the_second_try_is_released_without_space() -> Verdict {
    let (_server, place) = own(subject::quick().quota(1 << 20)).await?;
    let proxy = Proxy::start(place.members[0], Framing::Grpc).await?;
    let client = connect(&[proxy.addr()], "faults").await?;
    // Something else keeps their session alive.
    let other = take(&*client, &claim("b", TTL)).await?;
    let wants = claim("a", TTL);
    let lost = Match::contains("lock/a/");
    let lost = proxy.on(Direction::ToClient, lost, Action::Drop);
    tokio::select! {
        answer = client.acquire(&wants) => return Err(Failure::failed(format!("{answer:?}"))),
        () = lost.fired() => {}
    }
    let lease = take(&*client, &wants).await?;
    place.truth.fill("filling/").await?;
    // Whether the first try can still land, only a written epoch would make certain.
    let released = client.release(&lease.ticket(), None).await?;
    ensure!(released.outcome.is_ok() && !released.settled, "{released:?}");
    ensure!(place.claims(&lease.name).await?.is_empty(), "it is free");
    client.release(&other.ticket(), None).await?;
    Ok(())
}

pub(crate) async fn f52_c117_tokens_rise_over_a_restored_snapshot() -> Verdict {
    let (server, place) = own(subject::quick().controlled()).await?;
    let locks = place.locks().await?;
    let lock = locks.lock("a")?.ttl(TTL);
    lock.acquire().await?.release().await?;
    let snapshot = Snapshot::take(&server).await?;
    let mut last = None;
    for _ in 0..5 {
        let guard = lock.acquire().await?;
        last = Some(guard.token()?);
        guard.release().await?;
    }
    let revision = place.truth.revision().await?;
    snapshot.restore(&server).await?;
    ensure!(place.truth.revision().await? < revision, "it went back");
    for _ in 0..20 {
        let guard = lock.acquire().await?;
        let token = guard.token()?;
        ensure!(Some(token) > last, "{token} follows {last:?}");
        last = Some(token);
        guard.release().await?;
    }
    Ok(())
}

pub(crate) async fn f52_c117_a_fresh_client_heals_a_snapshot_of_over_a_minute() -> Verdict {
    let (server, place) = own(subject::quick().controlled()).await?;
    take(&*connect(&place.members, "faults").await?, &claim("first", TTL)).await?;
    // As it was 61 s ago.
    let floor = place.truth.pair(place.keys.floor()).await?.expect("there is a floor");
    let older = floor.text().parse::<u64>()? - 61_000_000;
    place.truth.put(place.keys.floor(), older.to_string(), 0).await?;
    let snapshot = Snapshot::take(&server).await?;
    let before = tokens(&place, 5).await?;
    snapshot.restore(&server).await?;
    let restored = place.truth.pair(place.keys.floor()).await?.expect("there is a floor");
    ensure!(restored.text() == older.to_string(), "it went back: {restored:?}");
    let after = tokens(&place, 5).await?;
    ensure!(before.last() < after.first(), "{after:?} follow {before:?}");
    Ok(())
}

/// What a client that knows nothing of another's tokens is granted.
async fn tokens(place: &Place, count: usize) -> Result<Vec<leasehold_api::Token>, Failure> {
    let client = connect(&place.members, "faults").await?;
    let mut tokens = Vec::new();
    for _ in 0..count {
        let lease = take(&*client, &claim("a", TTL)).await?;
        tokens.push(lease.token);
        client.release(&lease.ticket(), None).await?;
    }
    Ok(tokens)
}

pub(crate) async fn f53_a_ttl_below_the_clusters_minimum_is_refused_by_name() -> Verdict {
    let least = Duration::from_secs(2);
    let place = Place::of(Etcd::shared().await?, "f53").await?;
    let locks = place.locks().await?;
    ensure!(locks.profile().ttl_floor == least, "{:?}", locks.profile());
    for ttl in [500, 1_000, 1_999].map(Duration::from_millis) {
        let error = locks.lock("a")?.ttl(ttl).acquire().await.expect_err("it is too short");
        ensure!(error.kind() == ErrorKind::BadInput, "{error}");
        ensure!(error.to_string().contains("2s"), "{error}");
    }
    let guard = locks.lock("a")?.ttl(least).keep_alive(false).acquire().await?;
    let shown = guard.remaining();
    ensure!(shown <= least && shown > least / 2, "{shown:?} of {least:?}");
    let claims = place.claims(guard.name()).await?;
    let lease = place.truth.lease(claims[0].pair.lease).await?.expect("it is there");
    ensure!(lease.granted == least, "{lease:?}");
    timeout(least, guard.lost()).await?;
    place.claims_are(guard.name(), 0, LATE).await?;
    Ok(())
}
