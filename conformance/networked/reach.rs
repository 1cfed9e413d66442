//! Connections that end, hang, or cannot be had.

use std::time::{Duration, Instant};

use leasehold_api::ErrorKind;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::time::timeout;

use crate::driver;
use crate::roles;
use crate::store::Store;

const TTL: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_millis(1_500);

pub(crate) async fn f24_a_client_goes_on_when_its_server_comes_up_again() -> Verdict {
    let server = driver::own().await?;
    let proxy = Proxy::start(server.addr(), driver::FRAMING).await?;
    let locks = roles::connect(&proxy.url(server.url())).await?;
    server.stop().await?;
    let lock = locks.lock("a")?.ttl(TTL);
    let start = async {
        // It has asked in vain more than once.
        proxy.until(|counts| counts.in_vain >= 3).await;
        server.start().await
    };
    let (guard, started) = tokio::join!(lock.acquire_within(Duration::from_secs(30)), start);
    started?;
    Ok(guard?.release().await?)
}

pub(crate) async fn c52_reset_connections_leave_owner_and_deadline() -> Verdict {
    const RESETS: u64 = 8;
    let server = driver::shared().await?;
    let url = |base: &str| format!("{base}?prefix=c52");
    let proxy = Proxy::start(server.addr(), driver::FRAMING).await?;
    let far = roles::connect(&url(&proxy.url(server.url()))).await?;
    let near = roles::connect(&url(server.url())).await?;
    let guard = far.lock("a")?.ttl(2 * TTL).acquire().await?;
    let token = guard.token()?;
    let accepted = proxy.counts().accepted;
    for reset in 0..RESETS {
        proxy.reset();
        let end = Instant::now() + TTL / 2;
        while Instant::now() < end {
            ensure!(guard.is_held(), "lost after {reset} resets and one more");
            let Some(holder) = near.backend().inspect(guard.name()).await? else {
                return Err(Failure::failed("its record is gone"));
            };
            ensure!(holder.owner == guard.owner(), "it is another's: {holder:?}");
            // What the guard believes is never more than what the server keeps.
            let (believed, kept) = (guard.remaining(), holder.remaining);
            let kept = kept.map_or(Duration::MAX, |kept| kept + driver::GRAIN);
            ensure!(believed <= kept, "{believed:?} of {kept:?}");
            tokio::time::sleep(TTL / 20).await;
        }
    }
    let again = proxy.counts().accepted - accepted;
    ensure!(again >= RESETS / 2, "only {again} connections were opened again");
    ensure!(guard.token()? == token, "the same token");
    Ok(guard.release().await?)
}

pub(crate) async fn c105_a_partitioned_holder_is_lost_before_it_heals() -> Verdict {
    let server = driver::shared().await?;
    let url = |base: &str| format!("{base}?prefix=c105");
    let proxy = Proxy::start(server.addr(), driver::FRAMING).await?;
    let far = roles::connect(&url(&proxy.url(server.url()))).await?;
    let near = roles::connect(&url(server.url())).await?;
    let store = Store::open(&url(server.url())).await?;
    let first = far.lock("a")?.ttl(TTL).acquire().await?;
    let token = first.token()?;
    ensure!(store.write(token).await?, "it has the highest token");

    proxy.blackhole();
    let second = near.lock("a")?.ttl(TTL).acquire_within(TTL + LATE).await?;
    ensure!(!first.is_held(), "lost before anybody else got in");
    ensure!(second.token()? > token, "{second:?} follows {token}");
    ensure!(store.write(second.token()?).await?, "the next token");
    timeout(LATE, first.lost()).await?;
    ensure!(first.token().is_err(), "a lost guard tells no token");

    proxy.heal();
    ensure!(!store.write(token).await?, "the store refuses the old token");
    let error = first.release().await.expect_err("it is lost");
    ensure!(error.kind() == ErrorKind::Lost, "{error}");
    ensure!(second.is_held(), "{error}: and the second's is untouched");
    Ok(second.release().await?)
}
