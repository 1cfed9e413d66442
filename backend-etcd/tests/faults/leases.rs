//! Leases and keys that end, or are ended, under who has them.

use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use leasehold_api::{Acquired, Loss, Renewal};
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::time::timeout;

use crate::common::connect;
use crate::common::subject::quick;
use crate::place::{LATE, Place, SECOND, claim, name, own, take};

/// So long that nothing ends by it.
const LONG: Duration = Duration::from_secs(20);

const TTL: Duration = Duration::from_secs(1);

pub(crate) async fn f43_a_revoked_lease_is_lost_within_a_second() -> Verdict {
    let (_server, place) = own(quick()).await?;
    let locks = place.locks().await?;
    for is_watched in [false, true] {
        let before = place.truth.usage().await?.watches;
        let guard = locks.lock("a")?.ttl(LONG).acquire().await?;
        if is_watched {
            place.is_watched(before).await?;
        }
        let claims = place.claims(guard.name()).await?;
        ensure!(place.truth.revoke(claims[0].pair.lease).await?, "it is there");
        timeout(SECOND, guard.lost()).await?;
        ensure!(!guard.is_held() && guard.token().is_err(), "{guard:?}");
    }
    // A new session carries new locks.
    Ok(locks.lock("a")?.ttl(LONG).acquire().await?.release().await?)
}

pub(crate) async fn c118_a_renewal_after_a_revocation_is_a_loss() -> Verdict {
    let place = Place::shared("c118").await?;
    let client = connect(&place.members, "c118").await?;
    for keep_alive in [true, false] {
        let claim = claim("a", LONG).with_keep_alive(keep_alive);
        let lease = take(&*client, &claim).await?;
        let claims = place.claims(&claim.name).await?;
        ensure!(place.truth.revoke(claims[0].pair.lease).await?, "it is there");
        let renewal = client.renew(&lease).await?;
        ensure!(matches!(renewal, Renewal::NotMine(_)), "{renewal:?}");
        let renewal = client.renew(&lease).await?;
        ensure!(matches!(renewal, Renewal::NotMine(_)), "{renewal:?} the second time");
        take(&*client, &self::claim("a", LONG)).await?;
        place.truth.delete_all(&place.keys.claims(&name("a"))).await?;
    }
    Ok(())
}

pub(crate) async fn f44_c123_a_waiter_whose_key_ended_gets_the_lock_by_a_new_one() -> Verdict {
    let place = Place::shared("f44").await?;
    let proxy = Proxy::start(place.members[0], Framing::Chunks).await?;
    let (far, near) = (place.locks_by(&[proxy.addr()]).await?, place.locks().await?);
    let a = name("a");
    let holder = near.lock("a")?.ttl(LONG).acquire().await?;
    let lock = far.lock("a")?.ttl(TTL);
    let waiter = tokio::spawn(async move { lock.acquire_within(Duration::from_secs(30)).await });
    let dead = place.claims_are(&a, 2, SECOND).await?.remove(1);

    proxy.blackhole();
    place.claims_are(&a, 1, TTL + LATE).await?;
    // The turn of the dead key comes, and somebody else's after it.
    holder.release().await?;
    let second = near.lock("a")?.ttl(LONG).acquire().await?;
    proxy.heal();
    let line = place.claims_are(&a, 2, Duration::from_secs(10)).await?;
    ensure!(line[0].owner == Some(second.owner()), "{line:?}");
    ensure!(line[1].pair.create_revision > dead.pair.create_revision, "{line:?}");
    ensure!(!waiter.is_finished(), "it was granted a dead key's turn");
    let token = second.token()?;
    second.release().await?;
    let guard = timeout(SECOND, waiter).await???;
    ensure!(guard.token()? > token, "{guard:?} follows {token}");
    guard.release().await?;
    ensure!(place.claims(&a).await?.is_empty(), "nothing is left");
    Ok(())
}

pub(crate) async fn f44_a_starved_waiter_takes_no_turn_that_has_passed() -> Verdict {
    let place = Place::shared("f44s").await?;
    let near = place.locks().await?;
    let a = name("a");
    let holder = near.lock("a")?.ttl(LONG).acquire().await?;
    // A runtime of one thread, which then does nothing for a while.
    let (starve, starved) = std::sync::mpsc::channel::<()>();
    let members = place.members.clone();
    let waiter = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let locks = leasehold::Locks::with_backend(connect(&members, "f44s").await?);
            let lock = locks.lock("a")?.ttl(TTL).wait(Duration::from_secs(30));
            let starving = tokio::spawn(async move {
                loop {
                    match starved.try_recv() {
                        Ok(()) => {
                            let _ = starved.recv(); // until it may go on
                            return;
                        }
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
            });
            let guard = lock.acquire().await?;
            starving.abort();
            let token = guard.token()?;
            guard.release().await?;
            Ok::<_, Failure>(token)
        })
    });
    place.claims_are(&a, 2, SECOND).await?;
    starve.send(())?;
    place.claims_are(&a, 1, TTL + LATE).await?;
    holder.release().await?;
    let second = near.lock("a")?.ttl(LONG).acquire().await?;
    let token = second.token()?;
    starve.send(())?;
    let line = place.claims_are(&a, 2, Duration::from_secs(10)).await?;
    ensure!(line[0].owner == Some(second.owner()) && !waiter.is_finished(), "{line:?}");
    ensure!(second.is_held(), "the second's is untouched");
    second.release().await?;
    let granted = tokio::task::spawn_blocking(|| waiter.join().unwrap()).await??;
    ensure!(granted > token, "{granted} follows {token}");
    Ok(())
}

pub(crate) async fn a_key_deleted_under_its_holder_is_lost_within_a_second() -> Verdict {
    let (_server, place) = own(quick()).await?;
    let locks = place.locks().await?;
    for is_watched in [false, true] {
        let before = place.truth.usage().await?.watches;
        let guard = locks.lock("a")?.ttl(LONG).acquire().await?;
        if is_watched {
            place.is_watched(before).await?;
        }
        let key = place.keys.claim(guard.name(), guard.owner());
        ensure!(place.truth.delete(key).await?, "it is there");
        let loss = timeout(SECOND, guard.lost()).await?;
        ensure!(loss == Loss::Gone, "{loss:?}");
    }
    Ok(())
}

pub(crate) async fn a_key_overwritten_under_its_holder_is_lost_within_a_second() -> Verdict {
    let (_server, place) = own(quick()).await?;
    let locks = place.locks().await?;
    let before = place.truth.usage().await?.watches;
    let guard = locks.lock("a")?.ttl(LONG).acquire().await?;
    place.is_watched(before).await?;
    let key = place.keys.claim(guard.name(), guard.owner());
    place.truth.put(&key, "mine", 0).await?;
    let loss = timeout(SECOND, guard.lost()).await?;
    ensure!(loss == Loss::TakenOver, "{loss:?}");
    drop(guard);
    // Whoever wrote it keeps it.
    locks.close().await?;
    let pair = place.truth.pair(&key).await?;
    ensure!(pair.as_ref().is_some_and(|pair| pair.text() == "mine"), "{pair:?}");
    Ok(())
}

pub(crate) async fn a_waiter_behind_dead_ones_gets_the_lock_when_their_leases_end() -> Verdict {
    const DEAD: usize = 20;
    let ttl = Duration::from_secs(2);
    let place = Place::shared("dead").await?;
    let near = place.locks().await?;
    let holder = near.lock("a")?.ttl(LONG).acquire().await?;
    // Each with a lease of its own, and nobody who renews them.
    let proxy = Proxy::start(place.members[0], Framing::Chunks).await?;
    let clients = (0..4).map(|_| async { connect(&[proxy.addr()], "dead").await });
    let clients = try_join_all(clients).await?;
    let dying = (0..DEAD).map(|n| {
        let (client, claim) = (&clients[n % 4], claim("a", ttl).with_queue(true));
        let claim = claim.with_keep_alive(n % 2 == 0);
        async move { client.acquire(&claim).await }
    });
    for answer in join_all(dying).await {
        let answer = answer?;
        ensure!(matches!(answer, Acquired::Held { .. }), "{answer:?}");
    }
    proxy.blackhole();
    let lock = place.locks().await?.lock("a")?.ttl(TTL);
    let waiter = tokio::spawn(async move { lock.acquire_within(Duration::from_secs(30)).await });
    place.claims_are(&name("a"), DEAD + 2, SECOND).await?;
    holder.release().await?;
    let begun = Instant::now();
    let guard = waiter.await??;
    let took = begun.elapsed();
    ensure!(took <= ttl + LATE, "it took {took:?}");
    let claims = place.claims(guard.name()).await?;
    ensure!(claims.len() == 1 && claims[0].owner == Some(guard.owner()), "{claims:?}");
    Ok(guard.release().await?)
}

pub(crate) async fn a_close_that_is_dropped_leaves_no_lease_for_its_time() -> Verdict {
    let (_server, place) = own(quick()).await?;
    let proxy = Proxy::start(place.members[0], Framing::Grpc).await?;
    let client = connect(&[proxy.addr()], "faults").await?;
    let lease = take(&*client, &claim("a", LONG)).await?;
    // What it asks for first is granted, and not answered.
    let ticket = lease.ticket();
    let granted = proxy.on(Direction::ToClient, Match::answers(), Action::Hold);
    tokio::select! {
        answer = client.release(&ticket, Some(3 * LONG)) => panic!("{answer:?}"),
        () = granted.fired() => {}
    }
    let bare = async || -> Result<Vec<_>, Failure> {
        let leases = place.truth.leases().await?;
        Ok(leases.into_iter().filter(|lease| lease.keys.is_empty()).collect())
    };
    ensure!(bare().await?.len() == 1, "the test shows nothing: {:?}", bare().await?);
    proxy.deliver(Direction::ToClient);
    let begun = Instant::now();
    while !bare().await?.is_empty() {
        ensure!(begun.elapsed() < LONG / 2, "nobody ends {:?}", bare().await?);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The lock is untouched.
    let claims = place.claims(&lease.name).await?;
    ensure!(claims.len() == 1 && !claims[0].is_closed(), "{claims:?}");
    client.release(&ticket, None).await?;
    Ok(())
}
