//! Connections that end, hang, or cannot be had.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_api::ErrorKind;
use leasehold_conformance::proxy::{Framing, Proxy};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Verdict, ensure};

use crate::common::{claim, connect, fails, take};
use crate::roles;

const TTL: Duration = Duration::from_millis(900);
const LATE: Duration = Duration::from_millis(1_500);

pub(crate) async fn c52_killed_connections_lose_nothing() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let locks = roles::connect(server.url()).await?;
    let guard = locks.lock("a")?.ttl(TTL).acquire().await?;
    let (token, owner) = (guard.token()?, guard.owner());
    let begun = Instant::now();
    let mut killed = 0;
    while begun.elapsed() < 2 * TTL {
        killed += truth.client_kill_all().await?;
        let held = truth.keys("leasehold:").await?.into_iter().find_map(|(key, entry)| {
            let is_record = String::from_utf8_lossy(&key).contains("}:lock:");
            let text = entry.value.text().map(str::to_owned);
            is_record.then_some((text?, entry.ttl?))
        });
        let Some((record, left)) = held else { panic!("its record is gone") };
        ensure!(record.starts_with(&format!("held {owner} {token} ")), "{record}");
        // What the guard believes is never more than what the server keeps.
        ensure!(guard.remaining() <= left, "{:?} of {left:?}", guard.remaining());
        ensure!(guard.is_held(), "held without a break");
        tokio::time::sleep(TTL / 9).await;
    }
    ensure!(killed >= 4, "{killed} connections were killed");
    ensure!(guard.token()? == token, "the same token");
    Ok(guard.release().await?)
}

pub(crate) async fn connect_storms_are_bounded() -> Verdict {
    const ASKING: usize = 200;
    let server = Redis::new().controlled().start().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let client = connect(&proxy.url(server.url()), "").await?;
    server.stop().await?;
    proxy.until(|counts| counts.open == 0).await;
    let begun = Instant::now();
    let until = begun + Duration::from_millis(800);
    let asking = (0..ASKING).map(|n| {
        let client = client.clone();
        async move {
            let claim = claim(&format!("a{n}"));
            let mut asked = 0;
            while Instant::now() < until {
                let _ = client.acquire(&claim).await;
                tokio::task::yield_now().await;
                asked += 1;
            }
            asked
        }
    });
    let asked: usize = join_all(asking).await.into_iter().sum();
    let attempts = proxy.counts().in_vain;
    // One at a time, 20 ms apart, for all who ask together.
    let most = begun.elapsed().as_millis() as u64 / 20 + 2;
    ensure!(attempts >= 2 && attempts <= most, "{attempts} attempts for {asked}, at most {most}");
    ensure!(asked as u64 > 5 * most, "only {asked} were asked for");
    Ok(())
}

pub(crate) async fn requests_on_a_silent_connection_end_after_the_timeout() -> Verdict {
    const LIMIT: Duration = Duration::from_millis(400);
    let server = Redis::shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let url = proxy.url(server.url());
    let client = connect(&url, "prefix=quiet&timeout=400ms&connect_timeout=400ms").await?;
    let lease = take(&*client, &claim("a")).await?;
    proxy.blackhole();
    let begun = Instant::now();
    fails(client.renew(&lease).await, ErrorKind::Indeterminate, None);
    let took = begun.elapsed();
    ensure!(took >= LIMIT / 2 && took < LIMIT + LATE, "it took {took:?}");
    // So does the next, which has to connect first: that one was surely not sent.
    let begun = Instant::now();
    fails(client.renew(&lease).await, ErrorKind::Unreachable, None);
    let took = begun.elapsed();
    ensure!(took < LIMIT + LATE, "it took {took:?}");
    proxy.heal();
    let mut renewed = client.renew(&lease).await;
    while renewed.as_ref().is_err_and(leasehold_api::Error::is_retryable) {
        renewed = client.renew(&lease).await;
    }
    renewed?;
    Ok(())
}
