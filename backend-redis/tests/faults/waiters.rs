//! Wake-ups at the worst moment, and many who wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use leasehold::Locks;
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::sync::Barrier;
use tokio::time::timeout;

use crate::common::{claim, connect, take};
use crate::roles;

/// Far below the TTL of 30 s, after a third of which a waiter would look by itself.
const SOON: Duration = Duration::from_secs(5);

pub(crate) async fn c24_a_waiter_looks_again_once_it_is_subscribed() -> Verdict {
    let server = Redis::shared().await?;
    let near = connect(server.url(), "prefix=c24").await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let url = format!("{}?prefix=c24", proxy.url(server.url()));
    let locks = roles::connect(&url).await?;
    let lease = take(&*near, &claim("a")).await?;
    // Its first look finds the name held; its second comes after the subscription.
    let second = proxy.on(Direction::ToServer, Match::command("EVALSHA").skip(1), Action::Hold);
    let subscribed = proxy.on(Direction::ToClient, Match::pushes(), Action::Pass);
    let looks = proxy.on(Direction::ToServer, Match::command("EVALSHA").always(), Action::Pass);
    let lock = locks.lock("a")?;
    let release = async {
        subscribed.fired().await;
        second.fired().await;
        near.release(&lease.ticket(), None).await?;
        proxy.deliver(Direction::ToServer);
        Ok::<_, Failure>(())
    };
    let (guard, released) = tokio::join!(timeout(SOON, lock.acquire()), release);
    released?;
    let guard = guard??;
    ensure!(looks.count() == 1, "besides the second look there was one, not {}", looks.count());
    Ok(guard.release().await?)
}

pub(crate) async fn c30_a_release_before_the_subscription_is_not_missed() -> Verdict {
    let server = Redis::shared().await?;
    let near = connect(server.url(), "prefix=c30").await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let url = format!("{}?prefix=c30", proxy.url(server.url()));
    let locks = roles::connect(&url).await?;
    let lease = take(&*near, &claim("a")).await?;
    let subscribing = Match::command("SUBSCRIBE");
    let subscription = proxy.on(Direction::ToServer, subscribing, Action::Hold);
    let lock = locks.lock("a")?;
    let release = async {
        subscription.fired().await;
        near.release(&lease.ticket(), None).await?;
        proxy.deliver(Direction::ToServer);
        Ok::<_, Failure>(())
    };
    let (guard, released) = tokio::join!(timeout(SOON, lock.acquire()), release);
    released?;
    Ok(guard??.release().await?)
}

pub(crate) async fn f78_five_hundred_waiters_cost_the_same_a_hand_over() -> Verdict {
    let (few, many) = (stampede(100).await?, stampede(500).await?);
    for (waiters, cost) in [(100.0, &few), (500.0, &many)] {
        // A hand-over between processes is a release, a grant, and what a script calls for them; a
        // waiter that comes back by time looks once more.
        let (scripts, all) = (cost.scripts as f64 / waiters, cost.commands as f64 / waiters);
        ensure!(scripts <= 4.0, "{scripts} scripts a hand-over with {waiters} waiting");
        ensure!(all <= 30.0, "{all} commands a hand-over with {waiters} waiting");
    }
    let (each_few, each_many) = (few.took / 100, many.took / 500);
    ensure!(
        each_many <= 3 * each_few + Duration::from_millis(5),
        "a hand-over takes {each_few:?} with 100 waiting and {each_many:?} with 500"
    );
    Ok(())
}

struct Cost {
    scripts: u64,
    commands: u64,
    took: Duration,
}

/// So many wait for one name, ten to a client; then it goes through all their hands.
async fn stampede(waiters: usize) -> Result<Cost, Failure> {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let clients: Vec<Locks> =
        try_join_all((0..waiters / 10).map(|_| roles::connect(server.url()))).await?;
    let near = connect(server.url(), "").await?;
    let lease = take(&*near, &claim("a")).await?;
    let begun = Arc::new(Barrier::new(waiters + 1));
    let hands: Vec<_> = (0..waiters)
        .map(|n| {
            let (locks, begun) = (clients[n % clients.len()].clone(), begun.clone());
            tokio::spawn(async move {
                let lock = locks.lock("a")?.wait(Duration::from_secs(60));
                begun.wait().await;
                lock.acquire().await?.release().await
            })
        })
        .collect();
    begun.wait().await;
    // One of each client is in the store's list.
    truth
        .keys_until("leasehold:", Duration::from_secs(20), |keys| {
            keys.values().any(|entry| match &entry.value {
                leasehold_conformance::truth::Value::Sorted(places) => {
                    places.len() == clients.len()
                }
                _ => false,
            })
        })
        .await?;
    let before = truth.commands().await?;
    let released = Instant::now();
    near.release(&lease.ticket(), None).await?;
    for done in join_all(hands).await {
        done??;
    }
    let took = released.elapsed();
    let commands = truth.commands().await?.since(&before);
    Ok(Cost { scripts: commands.calls("evalsha"), commands: commands.total(), took })
}
