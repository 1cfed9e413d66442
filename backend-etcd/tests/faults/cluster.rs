//! Members that die, stop, or are cut off from the others.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use leasehold::{Guard, Locks};
use leasehold_api::Owner;
use leasehold_conformance::proxy::{Framing, Proxy};
use leasehold_conformance::servers::EtcdCluster;
use leasehold_conformance::{Failure, Verdict, ensure, long};
use tokio::time::timeout;

use crate::common::connect;
use crate::common::subject::quick;
use crate::place::{LATE, Place, SECOND, name};
use crate::watch::Watch;

const TTL: Duration = Duration::from_secs(2);

/// After so long without its heartbeat the members elect another leader.
const ELECTION: Duration = Duration::from_millis(500);

async fn three() -> Result<(EtcdCluster, Place), Failure> {
    let cluster = quick().controlled().cluster(3).await?;
    let place = Place::of_cluster(&cluster, "faults").await?;
    Ok((cluster, place))
}

pub(crate) async fn f47_leaders_killed_one_after_the_other_double_nothing() -> Verdict {
    const CLIENTS: usize = 8;
    let time = Duration::from_secs(if long() { 60 } else { 10 });
    let (cluster, place) = three().await?;
    let (watch, until) = (Watch::default(), Instant::now() + time);
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (locks, watch) = (place.locks().await?, watch.clone());
        clients.push(tokio::spawn(async move { watch.work(client, &locks, TTL, until).await }));
    }
    let mut killed = 0;
    while Instant::now() + Duration::from_secs(3) < until {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let leader = cluster.leader().await?;
        cluster.member(leader).kill().await?;
        // The others go on without it meanwhile.
        cluster.leader().await?;
        cluster.member(leader).start().await?;
        killed += 1;
    }
    ensure!(killed >= 2, "{killed} leaders were killed");
    let mut granted = 0;
    for client in join_all(clients).await {
        let times = client??;
        ensure!(times > 0, "a client was never granted it");
        granted += times;
    }
    ensure!(granted >= 10 * killed, "only {granted} grants");
    watch.verdict("f47")?;
    ensure!(place.claims(&name("a")).await?.is_empty(), "nothing is left");
    Ok(())
}

pub(crate) async fn f48_without_quorum_locks_are_lost_in_time_and_come_back() -> Verdict {
    // An election keeps renewals for a second and more, and one in ten is held again: each of the
    // two that are left votes for itself if both begin in the same tick.
    const TTL: Duration = Duration::from_secs(6);
    /// So long the answer to a renewal may take.
    const ANSWERED: Duration = Duration::from_millis(250);
    /// What lies between two looks at the clock.
    const JITTER: Duration = Duration::from_millis(50);
    let (cluster, place) = three().await?;
    let locks = place.locks().await?;
    let lock = locks.lock("a")?.ttl(TTL);
    let guard = lock.acquire().await?;
    let first = guard.token()?;

    let leader = cluster.leader().await?;
    let other = (leader + 1) % 3;
    cluster.member(leader).pause().await?;
    let begun = Instant::now();
    while begun.elapsed() < 2 * TTL {
        ensure!(guard.is_held(), "two of three are enough: lost after {:?}", begun.elapsed());
        tokio::time::sleep(TTL / 40).await;
    }
    cluster.member(other).pause().await?;
    let begun = Instant::now();
    // A leader renews leases by itself until it misses the others: for two election timeouts.
    let mut end = begun + guard.remaining();
    while guard.is_held() {
        let asked = Instant::now();
        let now = asked + guard.remaining();
        if begun.elapsed() <= 2 * ELECTION + ANSWERED {
            end = end.max(now);
        }
        ensure!(now <= end + JITTER, "a renewal counts {:?} after quorum went", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let late = Instant::now().saturating_duration_since(end);
    ensure!(late <= SECOND / 2, "it was lost {late:?} after its last renewal had ended");
    let took = begun.elapsed();
    ensure!(took > TTL / 3, "it was good for a while: {took:?}");
    ensure!(took <= 2 * ELECTION + TTL + SECOND / 2, "it was good for too long: {took:?}");
    timeout(SECOND, guard.lost()).await?;
    let error = lock.acquire_within(SECOND).await.expect_err("nobody can grant it");
    ensure!(error.is_retryable(), "{error}");

    cluster.member(leader).resume().await?;
    cluster.member(other).resume().await?;
    let guard = lock.acquire_within(Duration::from_secs(20)).await?;
    ensure!(guard.token()? > first, "{guard:?} follows {first}");
    Ok(guard.release().await?)
}

pub(crate) async fn f49_a_holder_moves_away_from_an_isolated_follower() -> Verdict {
    isolated(false).await
}

pub(crate) async fn f49_a_holder_moves_away_from_an_isolated_leader() -> Verdict {
    isolated(true).await
}

async fn isolated(leader: bool) -> Verdict {
    let cluster = quick().controlled().separable().cluster(3).await?;
    let place = Place::of_cluster(&cluster, "faults").await?;
    let proxies: Vec<Proxy> =
        try_join_all(place.members.iter().map(|at| Proxy::start(*at, Framing::Chunks))).await?;
    let addresses: Vec<SocketAddr> = proxies.iter().map(Proxy::addr).collect();
    let locks = place.locks_by(&addresses).await?;
    let guard = locks.lock("a")?.ttl(TTL).acquire().await?;
    let token = guard.token()?;
    let is_open = |proxy: &Proxy| proxy.counts().open > 0;
    let at = proxies.iter().position(is_open).expect("it is connected to one");
    cluster.lead(if leader { at } else { (at + 1) % 3 }).await?;
    ensure!(guard.is_held(), "a leader that hands over loses nothing");

    cluster.isolate(at)?;
    let begun = Instant::now();
    while begun.elapsed() < 3 * TTL {
        ensure!(guard.is_held(), "lost {:?} after its member was", begun.elapsed());
        tokio::time::sleep(TTL / 40).await;
    }
    let now = proxies.iter().rposition(is_open).expect("it is connected to one");
    ensure!(guard.token()? == token, "the same token");
    let others = proxies.iter().enumerate().any(|(n, proxy)| n != at && is_open(proxy));
    ensure!(others, "it is at member {now}");
    cluster.rejoin(at)?;
    // Who comes back has a newer term, so there is another election, which a release may not live
    // to see the end of. It goes on by itself then.
    if let Err(error) = guard.release().await {
        ensure!(error.kind() == leasehold_api::ErrorKind::Indeterminate, "{error}");
    }
    let begun = Instant::now();
    while !place.claims(&name("a")).await?.is_empty() {
        ensure!(begun.elapsed() < 2 * TTL, "it was not released");
        tokio::time::sleep(TTL / 40).await;
    }
    Ok(())
}

pub(crate) async fn c108_no_guard_believes_in_a_key_that_a_stopped_leader_let_go() -> Verdict {
    const HOLDERS: usize = 12;
    let (cluster, place) = three().await?;
    let clients: Vec<Locks> = try_join_all((0..3).map(|_| place.locks())).await?;
    let take = (0..HOLDERS).map(|n| {
        let locks = &clients[n % clients.len()];
        async move { locks.lock(&format!("name-{n}"))?.ttl(TTL).acquire().await }
    });
    let guards: Vec<Guard> = try_join_all(take).await?;
    for _ in 0..2 {
        let leader = cluster.leader().await?;
        let stopped = async {
            cluster.member(leader).pause().await?;
            tokio::time::sleep(3 * ELECTION).await;
            let next = cluster.leader().await?;
            cluster.member(leader).resume().await?;
            ensure!(next != leader, "member {leader} leads on, though it was stopped");
            Ok::<_, Failure>(())
        };
        let (looked, stopped) = tokio::join!(look(&place, &guards, 3 * TTL), stopped);
        looked?;
        stopped?;
    }
    Ok(())
}

/// Who says after a look at the store that it is held was in the store; or its key has gone just
/// now, and it is told within a second.
async fn look(place: &Place, guards: &[Guard], time: Duration) -> Verdict {
    let (begun, all) = (Instant::now(), place.keys.all());
    let mut gone: HashMap<Owner, Instant> = HashMap::new();
    let mut looks = 0;
    while begun.elapsed() < time {
        let pairs = place.truth.pairs(&all).await?;
        for guard in guards.iter().filter(|guard| guard.is_held()) {
            let key = place.keys.claim(guard.name(), guard.owner());
            if !pairs.iter().any(|pair| pair.key == key.as_bytes()) {
                let since = *gone.entry(guard.owner()).or_insert_with(Instant::now);
                let time = since.elapsed();
                ensure!(time <= SECOND, "{guard:?} believes in a key that is gone for {time:?}");
            }
        }
        looks += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(looks >= 10, "only {looks} looks");
    Ok(())
}

pub(crate) async fn c109_leader_changes_prolong_a_dead_holders_lease_by_a_ttl_each() -> Verdict {
    const MOVES: u32 = 4;
    let (cluster, place) = three().await?;
    // A process that dies: its runtime ends, and it gives nothing back.
    let members = place.members.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let locks = Locks::with_backend(connect(&members, "faults").await?);
            std::mem::forget(locks.lock("a")?.ttl(TTL).acquire().await?);
            std::mem::forget(locks);
            Ok::<_, Failure>(())
        })?;
        runtime.shutdown_background();
        Ok::<_, Failure>(())
    })
    .join()
    .unwrap()?;
    let died = Instant::now();
    let locks = place.locks().await?;
    let lock = locks.lock("a")?.ttl(TTL);
    let waiter = tokio::spawn(async move { lock.acquire_within(Duration::from_secs(60)).await });
    let mut moves = 0;
    while moves < MOVES && !waiter.is_finished() {
        tokio::time::sleep(TTL / 2).await;
        let leader = cluster.leader().await?;
        cluster.lead((leader + 1) % 3).await?;
        moves += 1;
    }
    let moved = Instant::now();
    let guard = waiter.await??;
    let took = died.elapsed();
    ensure!(took > TTL / 2, "held for at least what was left of it: {took:?}");
    // The last leader began it anew at most.
    ensure!(moved.elapsed() <= TTL + LATE, "{:?} after the last move", moved.elapsed());
    ensure!(took <= MOVES * TTL + LATE, "{took:?} with {moves} moves");
    Ok(guard.release().await?)
}
