//! A leader that has been followed by another and does not know.

use std::time::{Duration, Instant};

use leasehold_conformance::{Verdict, ensure};
use tokio::time::timeout;

use crate::common::subject::quick;
use crate::place::{LATE, Place};

/// The holder reaches that leader alone, as a client on its side of a partition does.
pub(crate) async fn keepalives_of_a_deposed_leader_count_for_nothing() -> Verdict {
    // The leader stands still for longer than an election, and so shortly before the end of its
    // lease that it goes on answering from its memory until the others have ended it.
    const TTL: Duration = Duration::from_secs(8);
    let stopped = TTL * 3 / 5;
    let cluster = quick().controlled().separable().cluster(3).await?;
    let place = Place::of_cluster(&cluster, "faults").await?;
    let leader = cluster.leader().await?;
    let others: Vec<_> = (0..3).filter(|n| *n != leader).map(|n| place.members[n]).collect();
    let holder = place.locks_by(&[place.members[leader]]).await?;
    let guard = holder.lock("a")?.ttl(TTL).acquire().await?;
    let first = guard.token()?;
    // Its first renewal is answered, so that its terms are known.
    tokio::time::sleep(TTL / 3 + Duration::from_millis(500)).await;
    let waiter = place.locks_by(&others).await?;
    let lock = waiter.lock("a")?.ttl(TTL);
    let waiter = tokio::spawn(async move {
        let guard = lock.acquire_within(10 * TTL).await?;
        Ok::<_, leasehold::Error>((guard, Instant::now()))
    });

    cluster.member(leader).pause().await?;
    cluster.isolate(leader)?;
    let begun = Instant::now();
    tokio::time::sleep(stopped).await;
    cluster.member(leader).resume().await?;
    timeout(TTL + LATE, guard.lost()).await?;
    let lost = begun.elapsed();
    let (next, granted) = timeout(3 * TTL, waiter).await???;
    let granted = granted - begun;
    ensure!(next.token()? > first, "{next:?} follows {first}");
    ensure!(lost <= granted, "granted after {granted:?}, and the holder lost after {lost:?}");
    Ok(next.release().await?)
}
