//! The subscription, and what a release settles.

use std::time::Duration;

use leasehold_api::{Acquired, Ticket};
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Verdict, ensure};
use tokio::time::timeout;

use crate::common::{claim, connect, take};

const SOON: Duration = Duration::from_secs(10);

pub(crate) async fn a_refused_publish_breaks_no_release() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    truth.acl_set_user("mute", &["on", ">pw", "~*", "&*", "+@all", "-publish"]).await?;
    let client = connect(&format!("redis://mute:pw@{}", server.addr()), "").await?;
    let lease = take(&*client, &claim("a")).await?;
    let waiter = claim("a").with_queue(true);
    client.acquire(&waiter).await?;
    let yielded = client.hand_over(&lease, &claim("a"), true).await?;
    ensure!(matches!(yielded, leasehold_api::HandedOver::Yielded), "{yielded:?}");
    let lease = take(&*client, &waiter).await?;
    ensure!(client.release(&lease.ticket(), None).await?.outcome.is_ok(), "released");
    take(&*client, &claim("a")).await?;
    Ok(())
}

pub(crate) async fn a_refused_subscription_is_no_error() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let rules = ["on", ">pw", "~*", "resetchannels", "+@all"];
    truth.acl_set_user("deaf", &rules).await?;
    let client = connect(&format!("redis://deaf:pw@{}", server.addr()), "").await?;
    let lease = take(&*client, &claim("a")).await?;
    let waiter = claim("a").with_queue(true);
    let held = client.acquire(&waiter).await?;
    ensure!(matches!(held, Acquired::Held { .. }), "{held:?}");
    client.release(&lease.ticket(), None).await?;
    take(&*client, &waiter).await?;
    Ok(())
}

pub(crate) async fn a_subscription_that_ends_is_opened_again_and_wakes_all() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    take(&*client, &claim("a")).await?;
    take(&*client, &claim("b")).await?;
    let waiters = [claim("a").with_queue(true), claim("b").with_queue(true)];
    for _ in 0..3 {
        for waiter in &waiters {
            client.acquire(waiter).await?;
        }
        truth.client_kill_all().await?;
        for waiter in &waiters {
            timeout(SOON, client.wake(waiter)).await?;
        }
    }
    // And it works.
    let lease = take(&*client, &claim("c")).await?;
    let waiter = claim("c").with_queue(true);
    client.acquire(&waiter).await?;
    client.release(&lease.ticket(), None).await?;
    timeout(SOON, client.wake(&waiter)).await?;
    Ok(())
}

pub(crate) async fn a_silent_subscription_is_replaced() -> Verdict {
    let server = Redis::shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let client = connect(&proxy.url(server.url()), "prefix=mutesub&timeout=300ms").await?;
    let near = connect(server.url(), "prefix=mutesub").await?;
    let lease = take(&*near, &claim("a")).await?;
    let waiter = claim("a").with_queue(true);
    client.acquire(&waiter).await?;
    let silenced = proxy.on(Direction::ToClient, Match::pushes(), Action::Silence);
    near.release(&lease.ticket(), None).await?;
    silenced.fired().await;
    timeout(SOON, client.wake(&waiter)).await?;
    take(&*client, &waiter).await?;
    Ok(())
}

pub(crate) async fn a_dead_process_is_passed_over() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let [dead, client] = [connect(server.url(), "").await?, connect(server.url(), "").await?];
    let lease = take(&*client, &claim("a")).await?;
    dead.acquire(&claim("a").with_queue(true)).await?;
    let waiter = claim("a").with_queue(true);
    client.acquire(&waiter).await?;
    drop(dead);
    while truth.connected("leasehold").await? > 2 {
        tokio::task::yield_now().await;
    }
    client.release(&lease.ticket(), None).await?;
    timeout(SOON, client.wake(&waiter)).await?;
    Ok(())
}

pub(crate) async fn who_barges_in_wakes_the_next_all_the_same() -> Verdict {
    let server = Redis::shared().await?;
    let client = connect(server.url(), "prefix=barging").await?;
    let lease = take(&*client, &claim("a")).await?;
    let waiters = [claim("a").with_queue(true), claim("a").with_queue(true)];
    for waiter in &waiters {
        client.acquire(waiter).await?;
    }
    client.release(&lease.ticket(), None).await?;
    timeout(SOON, client.wake(&waiters[0])).await?;
    // The first was woken and is slow; this one never looked at the list.
    let barger = take(&*client, &claim("a")).await?;
    client.release(&barger.ticket(), None).await?;
    timeout(SOON, client.wake(&waiters[1])).await?;
    Ok(())
}

pub(crate) async fn a_release_of_a_queued_claim_is_settled() -> Verdict {
    let server = Redis::shared().await?;
    let client = connect(server.url(), "prefix=settled").await?;
    let lease = take(&*client, &claim("a")).await?;
    let waiter = claim("a").with_queue(true);
    client.acquire(&waiter).await?;
    let ticket = Ticket::by_owner(waiter.name, waiter.owner);
    let released = client.release(&ticket, None).await?;
    ensure!(released.settled && released.outcome.is_err(), "{released:?}");
    // Of this one nothing is known here.
    let stranger = Ticket::by_owner(lease.name.clone(), claim("a").owner);
    ensure!(!client.release(&stranger, None).await?.settled, "a stranger's claims may land");
    let released = client.release(&lease.ticket(), None).await?;
    ensure!(released.settled && released.outcome.is_ok(), "{released:?}");
    Ok(())
}

pub(crate) async fn a_claim_of_an_earlier_connection_is_not_settled() -> Verdict {
    let server = Redis::shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let client = connect(&proxy.url(server.url()), "prefix=unsettled").await?;
    let near = connect(server.url(), "prefix=unsettled").await?;

    // On the same connection the release comes after the claim, whenever that arrives.
    let claimed = claim("a");
    let ticket = Ticket::by_owner(claimed.name.clone(), claimed.owner);
    proxy.on(Direction::ToServer, Match::command("EVALSHA"), Action::Hold);
    tokio::select! {
        answer = client.acquire(&claimed) => panic!("{answer:?}"),
        () = proxy.held(Direction::ToServer, 1) => {}
    }
    proxy.deliver(Direction::ToServer);
    let released = client.release(&ticket, None).await?;
    ensure!(released.settled && released.outcome.is_ok(), "{released:?}");

    // On a new one it may come before.
    let claimed = claim("b");
    let ticket = Ticket::by_owner(claimed.name.clone(), claimed.owner);
    proxy.on(Direction::ToServer, Match::command("EVALSHA"), Action::Hold);
    tokio::select! {
        answer = client.acquire(&claimed) => panic!("{answer:?}"),
        () = proxy.held(Direction::ToServer, 1) => {}
    }
    proxy.cut_clients();
    // Its end is read by the runtime, not awaited by anybody; a release before that would go the
    // same way as the claim.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let released = loop {
        match client.release(&ticket, None).await {
            Ok(released) => break released,
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(error.into()),
        }
    };
    ensure!(!released.settled && released.outcome.is_err(), "{released:?}");
    proxy.deliver(Direction::ToServer);
    while near.inspect(&claimed.name).await?.is_none() {
        tokio::task::yield_now().await;
    }
    let released = client.release(&ticket, None).await?;
    ensure!(released.outcome.is_ok(), "the late claim is freed: {released:?}");
    Ok(())
}
