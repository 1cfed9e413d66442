//! Many who wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use leasehold::Locks;
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::sync::Barrier;

use crate::common::{claim, connect, take};
use crate::roles;

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
