//! What an operation costs, counted by the server and on the wire.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_api::{Acquired, Renewal, Ticket};
use leasehold_conformance::proxy::{Framing, Proxy};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::{Commands, RedisTruth};
use leasehold_conformance::{Failure, Verdict, ensure};

use crate::common::{claim, connect, take};

pub(crate) async fn acquire_and_release_are_one_round_trip_each() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let client = connect(&proxy.url(server.url()), "").await?;
    let sent = || proxy.counts().to_server.messages;
    for n in 0..20 {
        // The first one too: connecting loads the scripts.
        let (before, commands) = (sent(), truth.commands().await?);
        let lease = take(&*client, &claim(&format!("a{n}"))).await?;
        ensure!(sent() - before == 1, "an acquire is {} messages", sent() - before);
        client.release(&lease.ticket(), None).await?;
        ensure!(sent() - before == 2, "a pair is {} messages", sent() - before);
        let commands = truth.commands().await?.since(&commands);
        ensure!(commands.calls("evalsha") == 2 && commands.calls("eval") == 0, "{commands:?}");
    }
    Ok(())
}

pub(crate) async fn ten_thousand_renewals_are_forty_scripts() -> Verdict {
    const COUNT: usize = 10_000;
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let claims: Vec<_> = (0..COUNT).map(|n| claim(&format!("lock-{n}"))).collect();
    let mut leases = Vec::with_capacity(COUNT);
    for claims in claims.chunks(500) {
        let taken = claims.iter().map(|claim| take(&*client, claim));
        leases.extend(futures_util::future::try_join_all(taken).await?);
    }
    let before = truth.commands().await?;
    let renewals = client.renew_all(&leases).await;
    let commands = truth.commands().await?.since(&before);
    ensure!(renewals.len() == COUNT, "{} answers", renewals.len());
    for renewal in renewals {
        ensure!(matches!(renewal?, Renewal::Renewed(_)), "each is mine");
    }
    ensure!(commands.calls("evalsha") == 40, "{commands:?}");
    ensure!(client.renew_all(&[]).await.is_empty(), "nothing to renew");
    Ok(())
}

pub(crate) async fn one_lease_that_fails_fails_alone() -> Verdict {
    let server = Redis::new().start().await?;
    let client = connect(server.url(), "").await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let mut leases = Vec::new();
    for n in 0..300 {
        leases.push(take(&*client, &claim(&format!("a{n}"))).await?);
    }
    client.release(&leases[3].ticket(), None).await?;
    let of_255 = truth.keys("leasehold:").await?.into_keys().find(|key| key.ends_with(b":a255"));
    let of_255 = String::from_utf8(of_255.unwrap()).unwrap();
    truth.delete(&of_255).await?;
    truth.command(&["RPUSH", &of_255, "x"]).await?;
    for (at, renewal) in client.renew_all(&leases).await.into_iter().enumerate() {
        let mine = matches!(renewal?, Renewal::Renewed(_));
        ensure!(mine != (at == 3 || at == 255), "lease {at}");
    }
    Ok(())
}

pub(crate) async fn a_client_has_one_connection_and_a_second_once_it_waits() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("a")).await?;
    ensure!(truth.connected("leasehold").await? == 1, "{:?}", truth.clients().await?);
    let claims: Vec<_> = (0..50).map(|_| claim("a").with_queue(true)).collect();
    futures_util::future::try_join_all(claims.iter().map(|claim| client.acquire(claim))).await?;
    ensure!(truth.connected("leasehold").await? == 2, "{:?}", truth.clients().await?);
    client.release(&lease.ticket(), None).await?;
    let wakes = claims.iter().map(|claim| client.wake(claim));
    futures_util::future::select_all(wakes).await;
    ensure!(truth.connected("leasehold").await? == 2, "{:?}", truth.clients().await?);
    Ok(())
}

pub(crate) async fn no_key_stays_behind_a_name() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let [client, other] = [connect(server.url(), "").await?, connect(server.url(), "").await?];
    for n in 0..1000 {
        let lease = take(&*client, &claim(&format!("n{n}"))).await?;
        if n % 3 == 0 {
            let waiter = claim(&format!("n{n}")).with_queue(true);
            other.acquire(&waiter).await?;
            client.release(&lease.ticket(), None).await?;
            other.wake(&waiter).await;
            let lease = take(&*other, &waiter).await?;
            other.release(&lease.ticket(), None).await?;
        } else {
            client.release(&lease.ticket(), None).await?;
        }
    }
    let keys = truth.keys("").await?;
    ensure!(keys.len() <= 256, "{} keys", keys.len());
    for (key, entry) in keys {
        let key = String::from_utf8_lossy(&key).into_owned();
        ensure!(key.ends_with("}:token") && entry.ttl.is_none(), "{key} is left: {entry:?}");
    }
    // A waiter that dies leaves a place that ends by itself.
    let lease = take(&*client, &claim("dead")).await?;
    let mut waiter = claim("dead").with_queue(true);
    waiter.ttl = crate::common::ttl(200);
    other.acquire(&waiter).await?;
    client.release(&lease.ticket(), Some(Duration::from_millis(1))).await?;
    let tokens = |key: &[u8]| key.ends_with(b"}:token");
    let gone = Duration::from_secs(5);
    let keys = truth.keys_until("", gone, |keys| keys.keys().all(|key| tokens(key))).await?;
    ensure!(keys.keys().all(|key| tokens(key)), "{keys:?}");
    Ok(())
}

pub(crate) async fn a_hand_over_costs_the_same_for_2_and_for_16_waiting_clients() -> Verdict {
    let few = commands_of_hand_overs(2).await?;
    let many = commands_of_hand_overs(16).await?;
    ensure!(few.calls("evalsha") == 3 * HAND_OVERS, "{few:?}");
    ensure!(few.calls("publish") == HAND_OVERS, "{few:?}");
    // How often a list's end is moved depends on the millisecond.
    let steady = |commands: &Commands| {
        let steady = commands.iter().filter(|(command, _)| *command != "pexpire");
        steady.map(|(command, calls)| (command.to_owned(), calls)).collect::<Vec<_>>()
    };
    let (few, many) = (steady(&few), steady(&many));
    ensure!(few == many, "2 waiting: {few:?}; 16 waiting: {many:?}");
    Ok(())
}

const HAND_OVERS: u64 = 50;

/// What the server runs for hand-overs between clients, so many of which wait for one name: each
/// is a release, the grant to the one that it woke, and the queueing of the one that released.
async fn commands_of_hand_overs(clients: usize) -> Result<Commands, Failure> {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let mut holder = connect(server.url(), "").await?;
    let mut lease = take(&*holder, &claim("a")).await?;
    // The holder will wait too: it subscribes now, so that only hand-overs are counted.
    let early = claim("a").with_queue(true);
    holder.acquire(&early).await?;
    holder.release(&Ticket::by_owner(early.name, early.owner), None).await?;
    let mut line = VecDeque::new();
    for _ in 0..clients {
        let client = connect(server.url(), "").await?;
        let claim = claim("a").with_queue(true);
        client.acquire(&claim).await?;
        line.push_back((client, claim));
    }
    let before = truth.commands().await?;
    for _ in 0..HAND_OVERS {
        holder.release(&lease.ticket(), None).await?;
        let (next, granted) = line.pop_front().unwrap();
        next.wake(&granted).await;
        lease = take(&*next, &granted).await?;
        let again = claim("a").with_queue(true);
        let held = holder.acquire(&again).await?;
        ensure!(matches!(held, Acquired::Held { .. }), "{held:?}");
        line.push_back((std::mem::replace(&mut holder, next), again));
    }
    Ok(truth.commands().await?.since(&before))
}
