//! Connections that end, hang, or bring a request late.

use std::time::{Duration, Instant};

use leasehold_api::ErrorKind;
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::truth::EtcdPair;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::time::timeout;

use crate::common::connect;
use crate::common::subject::quick;
use crate::place::{LATE, Place, SECOND, claim, name, own, take};
use crate::turns::enter;

const TTL: Duration = Duration::from_secs(1);

/// So long that nothing ends by it.
const LONG: Duration = Duration::from_secs(20);

pub(crate) async fn f42_a_link_cut_twice_a_ttl_loses_nothing() -> Verdict {
    let place = Place::shared("f42").await?;
    let proxy = Proxy::start(place.members[0], Framing::Chunks).await?;
    let locks = place.locks_by(&[proxy.addr()]).await?;
    let guard = locks.lock("a")?.ttl(TTL).acquire().await?;
    let token = guard.token()?;
    let accepted = proxy.counts().accepted;
    for cut in 0..12 {
        proxy.cut();
        tokio::time::sleep(TTL / 2).await;
        ensure!(guard.is_held(), "lost after {cut} cuts and one more");
        let claims = place.claims(guard.name()).await?;
        let stands = claims.first().is_some_and(|claim| claim.owner == Some(guard.owner()));
        ensure!(stands && claims.len() == 1, "{claims:?}");
    }
    let again = proxy.counts().accepted - accepted;
    ensure!(again >= 10, "only {again} connections were opened again");
    ensure!(guard.token()? == token, "the same token");
    Ok(guard.release().await?)
}

pub(crate) async fn c105_a_partitioned_holder_is_lost_before_it_heals() -> Verdict {
    let place = Place::shared("c105").await?;
    let proxy = Proxy::start(place.members[0], Framing::Chunks).await?;
    let (far, near) = (place.locks_by(&[proxy.addr()]).await?, place.locks().await?);
    let first = far.lock("a")?.ttl(TTL).acquire().await?;
    let token = first.token()?;

    proxy.blackhole();
    let second = near.lock("a")?.ttl(TTL).acquire_within(TTL + LATE).await?;
    ensure!(!first.is_held(), "lost before anybody else got in");
    ensure!(second.token()? > token, "{second:?} follows {token}");
    timeout(SECOND, first.lost()).await?;
    ensure!(first.token().is_err(), "a lost guard tells no token");

    proxy.heal();
    let error = first.release().await.expect_err("it is lost");
    ensure!(error.kind() == ErrorKind::Lost, "{error}");
    ensure!(second.is_held(), "and the second's is untouched");
    Ok(second.release().await?)
}

pub(crate) async fn a_claim_that_lands_after_its_clean_up_leaves_nothing() -> Verdict {
    let ttl = Duration::from_secs(5);
    let (_server, place) = own(quick()).await?;
    let proxy = Proxy::start(place.members[0], Framing::Grpc).await?;
    let locks = place.locks_by(&[proxy.addr()]).await?;
    // Its session is the late claim's, too.
    let other = locks.lock("other")?.ttl(ttl).acquire().await?;
    let late = proxy.on(Direction::ToServer, Match::contains("lock/late/"), Action::Hold);
    let lock = locks.lock("late")?.ttl(ttl);
    let mut acquiring = Box::pin(lock.acquire());
    tokio::select! {
        acquired = &mut acquiring => return Err(Failure::failed(format!("{acquired:?}"))),
        () = late.fired() => {}
    }
    // Nothing is behind the claim that would end it when it arrives.
    proxy.cut_clients();
    drop(acquiring);
    let bumped = |pairs: &[EtcdPair]| pairs.iter().any(|pair| pair.version > 1);
    let sessions = place.keys.sessions();
    let sessions = place.truth.pairs_until(&sessions, ttl, bumped).await?;
    ensure!(bumped(&sessions), "no epoch was rewritten: {sessions:?}");
    let before = place.truth.calls().await?;
    ensure!(proxy.deliver(Direction::ToServer) == 1, "the claim is delivered");
    let answered = async {
        while place.truth.calls().await?.since(&before).answers("Txn") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok::<_, Failure>(())
    };
    if timeout(SECOND, answered).await.is_err() {
        ensure!(false, "{:?} {:?}", place.truth.calls().await?.since(&before), proxy.counts());
    }
    let begun = Instant::now();
    while begun.elapsed() < SECOND {
        let claims = place.claims(&name("late")).await?;
        ensure!(claims.is_empty(), "it landed, and stays: {claims:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure!(other.is_held(), "the session lives on");
    Ok(other.release().await?)
}

pub(crate) async fn a_watch_goes_to_another_member_by_itself() -> Verdict {
    let place = Place::shared("goes").await?;
    let (one, two) = (
        Proxy::start(place.members[0], Framing::Chunks).await?,
        Proxy::start(place.members[0], Framing::Chunks).await?,
    );
    let (near, far) =
        (connect(&place.members, "goes").await?, connect(&[one.addr(), two.addr()], "goes").await?);
    let held = take(&*near, &claim("a", LONG)).await?;
    let waits = claim("a", LONG).with_queue(true);
    enter(&*far, &waits).await?;
    let (used, other) = if one.counts().open > 0 { (one, two) } else { (two, one) };
    // From now on it is asked for nothing.
    used.refuse().await;
    used.cut();
    timeout(2 * SECOND, other.until(|counts| counts.open > 0)).await?;
    timeout(SECOND, far.wake(&waits)).await?;
    enter(&*far, &waits).await?;
    near.release(&held.ticket(), None).await?;
    timeout(SECOND, far.wake(&waits)).await?;
    take(&*far, &waits).await?;
    Ok(())
}
