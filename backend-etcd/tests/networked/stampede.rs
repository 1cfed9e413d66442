//! Many who wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use leasehold::Locks;
use leasehold_api::LockName;
use leasehold_conformance::truth::{EtcdKeys, EtcdTruth};
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::sync::Barrier;

use crate::{driver, roles};

pub(crate) async fn f78_five_hundred_waiters_cost_the_same_a_hand_over() -> Verdict {
    let (few, many) = (stampede(100).await?, stampede(500).await?);
    for (waiters, cost) in [(100.0, &few), (500.0, &many)] {
        // A hand-over between processes is a release and the entry of the client's next waiter.
        let (txns, all) = (cost.txns as f64 / waiters, cost.requests as f64 / waiters);
        ensure!(txns <= 4.0, "{txns} transactions a hand-over with {waiters} waiting");
        ensure!(all <= 8.0, "{all} requests a hand-over with {waiters} waiting");
    }
    let (each_few, each_many) = (few.took / 100, many.took / 500);
    ensure!(
        each_many <= 3 * each_few + Duration::from_millis(5),
        "a hand-over takes {each_few:?} with 100 waiting and {each_many:?} with 500"
    );
    Ok(())
}

struct Cost {
    txns: u64,
    requests: u64,
    took: Duration,
}

/// So many wait for one name, ten to a client; then it goes through all their hands.
async fn stampede(waiters: usize) -> Result<Cost, Failure> {
    let server = driver::own().await?;
    let truth = EtcdTruth::connect(server.url()).await?;
    let url = format!("{}?prefix=stampede", server.url());
    let clients: Vec<Locks> = try_join_all((0..waiters / 10).map(|_| roles::connect(&url))).await?;
    let near = roles::connect(&url).await?;
    let held = near.lock("a")?.acquire().await?;
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
    // One of each client is in the line, and the holder.
    let line = EtcdKeys::new("stampede").claims(&LockName::new("a")?);
    let all = clients.len() + 1;
    let pairs = truth.pairs_until(&line, Duration::from_secs(20), |pairs| pairs.len() == all);
    let found = pairs.await?.len();
    ensure!(found == all, "{found} are in line, not {all}");
    let before = truth.calls().await?;
    let released = Instant::now();
    held.release().await?;
    for done in join_all(hands).await {
        done??;
    }
    let took = released.elapsed();
    let calls = truth.calls().await?.since(&before);
    Ok(Cost { txns: calls.requests("Txn"), requests: calls.total(), took })
}
