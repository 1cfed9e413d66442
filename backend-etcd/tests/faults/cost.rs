//! What an operation costs, counted by the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold_api::{Acquired, Backend, Claim, Lease, Renewal};
use leasehold_conformance::proxy::{Framing, Proxy};
use leasehold_conformance::truth::EtcdCalls;
use leasehold_conformance::{Failure, Verdict, ensure, long};
use tokio::time::timeout;

use crate::common::connect;
use crate::common::subject::quick;
use crate::place::{claim, name, own, take};

/// So long that nothing is renewed unless a test does it.
const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn acquire_and_release_are_one_transaction_each() -> Verdict {
    let (_server, place) = own(quick()).await?;
    let client = connect(&place.members, "faults").await?;
    // The session is opened by the first.
    let first = take(&*client, &claim("first", LONG)).await?;
    for n in 0..20 {
        let before = place.truth.calls().await?;
        let lease = take(&*client, &claim(&format!("a{n}"), LONG)).await?;
        let acquired = place.truth.calls().await?.since(&before);
        ensure!(is(&acquired, [("Txn", 1)]), "an acquire is {acquired:?}");
        client.release(&lease.ticket(), None).await?;
        let both = place.truth.calls().await?.since(&before);
        ensure!(is(&both, [("Txn", 2)]), "a pair is {both:?}");
    }
    ensure!(place.truth.connections()? == 1, "{} connections", place.truth.connections()?);
    client.release(&first.ticket(), None).await?;
    Ok(())
}

pub(crate) async fn a_tick_is_one_keepalive_however_many_are_held() -> Verdict {
    let count: u64 = if long() { 10_000 } else { 1_000 };
    let (_server, place) = own(quick()).await?;
    let client = connect(&place.members, "faults").await?;
    let unwatched = place.truth.usage().await?.watches;
    let mut leases: Vec<Lease> = Vec::new();
    for n in 0..count / 100 {
        let claims: Vec<_> = (0..100).map(|m| claim(&format!("name-{n}-{m}"), LONG)).collect();
        let taken = claims.iter().map(|claim| take(&*client, claim));
        leases.extend(try_join_all(taken).await?);
    }
    // One a key, and one that the stream begins with.
    place.is_watched(unwatched + count).await?;
    let watches = place.truth.usage().await?.watches - unwatched;
    ensure!(watches == count + 1, "{watches} watches for {count} locks");
    let renew = async || {
        let renewals = client.renew_all(&leases).await;
        for renewal in renewals {
            let renewal = renewal?;
            ensure!(matches!(renewal, Renewal::Renewed(_)), "{renewal:?}");
        }
        Ok::<_, Failure>(())
    };
    // What the server told of the watches is known to the client by then.
    renew().await?;
    for _ in 0..3 {
        let before = place.truth.calls().await?;
        renew().await?;
        let calls = place.truth.calls().await?.since(&before);
        // The read proves who answered.
        ensure!(is(&calls, [("LeaseKeepAlive", 1), ("Range", 1)]), "{calls:?}");
    }
    let connections = place.truth.connections()?;
    ensure!(connections == 1, "{connections} connections");
    let session = place.truth.pairs(&place.keys.sessions()).await?;
    ensure!(session.len() == 1, "{session:?}");
    Ok(())
}

pub(crate) async fn all_that_is_held_is_watched_again_after_a_cut() -> Verdict {
    // So many that the answers to all watches are more than a stream takes that nobody reads.
    let count: u64 = if long() { 50_000 } else { 1_000 };
    let (_server, place) = own(quick()).await?;
    let proxy = Proxy::start(place.members[0], Framing::Chunks).await?;
    let client = connect(&[proxy.addr()], "faults").await?;
    let unwatched = place.truth.usage().await?.watches;
    for n in 0..count / 100 {
        let claims: Vec<_> = (0..100).map(|m| claim(&format!("name-{n}-{m}"), LONG * 60)).collect();
        try_join_all(claims.iter().map(|claim| take(&*client, claim))).await?;
    }
    place.is_watched(unwatched + count).await?;
    proxy.cut();
    let before = place.truth.calls().await?;
    let watched = async {
        while place.truth.calls().await?.since(&before).requests("Watch") <= count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        place.is_watched(unwatched + count).await
    };
    timeout(LONG, watched).await?
}

pub(crate) async fn a_hand_over_costs_the_same_for_2_16_and_128_waiters_of_two_clients() -> Verdict
{
    let few = calls_of_hand_overs(2).await?;
    for waiters in [16, 128] {
        let many = calls_of_hand_overs(waiters).await?;
        ensure!(few == many, "2 waiting: {few:?}; {waiters} waiting: {many:?}");
    }
    let txns = few.get("Txn").copied().unwrap_or_default();
    // A release, and the entry of the one that released.
    ensure!(txns <= 2 * HAND_OVERS, "{few:?}");
    Ok(())
}

const HAND_OVERS: u64 = 50;

type Waiting = VecDeque<(Arc<dyn Backend>, Claim)>;

/// What the server is asked for hand-overs through a line of so many waiters of two clients: each
/// is a release, the grant to the next, and the queueing of the one that released.
async fn calls_of_hand_overs(waiters: usize) -> Result<BTreeMap<String, u64>, Failure> {
    let (_server, place) = own(quick()).await?;
    let clients =
        [connect(&place.members, "faults").await?, connect(&place.members, "faults").await?];
    let mut holder = clients[0].clone();
    let mut lease = take(&*holder, &claim("a", LONG)).await?;
    let mut line = Waiting::new();
    for n in 1..=waiters {
        line.push_back(enter(&clients[n % 2]).await?);
    }
    let before = place.truth.calls().await?;
    for _ in 0..HAND_OVERS {
        holder.release(&lease.ticket(), None).await?;
        let (next, granted) = line.pop_front().unwrap();
        next.wake(&granted).await;
        lease = take(&*next, &granted).await?;
        line.push_back(enter(&holder).await?);
        holder = next;
    }
    let calls = place.truth.calls().await?.since(&before);
    let claims = place.claims(&name("a")).await?;
    ensure!(claims.len() == waiters + 1, "{} in line", claims.len());
    let connections = place.truth.connections()?;
    ensure!(connections == 2, "{connections} connections");
    // A key that is held for half a second comes under a watch.
    let all = calls.by_method().into_iter().filter(|(method, _)| *method != "Watch");
    Ok(all.map(|(method, requests)| (method.to_owned(), requests)).collect())
}

async fn enter(client: &Arc<dyn Backend>) -> Result<(Arc<dyn Backend>, Claim), Failure> {
    let claim = claim("a", LONG).with_queue(true);
    let held = client.acquire(&claim).await?;
    ensure!(matches!(held, Acquired::Held { .. }), "{held:?}");
    Ok((client.clone(), claim))
}

/// These are all the requests, but for the watch of keys that are held.
fn is<const N: usize>(calls: &EtcdCalls, expected: [(&str, u64); N]) -> bool {
    let mut all = calls.by_method();
    all.remove("Watch");
    all == BTreeMap::from(expected)
}
