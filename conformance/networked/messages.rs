//! Wake-ups that come at the worst moment, or never.

use std::time::{Duration, Instant};

use leasehold::{Guard, Locks};
use leasehold_conformance::proxy::{Action, Direction, Match, Proxy};
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::time::timeout;

use crate::driver;
use crate::roles;

/// Far below the TTL of 30 s, after a third of which a waiter would look by itself.
const SOON: Duration = Duration::from_secs(5);

pub(crate) async fn c24_a_waiter_looks_again_once_it_is_subscribed() -> Verdict {
    let (near, far, proxy) = both("c24").await?;
    let held = near.lock("a")?.acquire().await?;
    // Its first look finds the name held; its second comes after the subscription.
    let second = Match::command(driver::LOOK).skip(1);
    let second = proxy.on(Direction::ToServer, second, Action::Hold);
    let subscribed = proxy.on(Direction::ToClient, driver::subscribed(), Action::Pass);
    let looks = Match::command(driver::LOOK).always();
    let looks = proxy.on(Direction::ToServer, looks, Action::Pass);
    let lock = far.lock("a")?;
    let release = async {
        subscribed.fired().await;
        second.fired().await;
        held.release().await?;
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
    let (near, far, proxy) = both("c30").await?;
    let held = near.lock("a")?.acquire().await?;
    let subscribing = Match::command(driver::SUBSCRIBE);
    let subscription = proxy.on(Direction::ToServer, subscribing, Action::Hold);
    let lock = far.lock("a")?;
    let release = async {
        subscription.fired().await;
        held.release().await?;
        proxy.deliver(Direction::ToServer);
        Ok::<_, Failure>(())
    };
    let (guard, released) = tokio::join!(timeout(SOON, lock.acquire()), release);
    released?;
    Ok(guard??.release().await?)
}

pub(crate) async fn f77_a_waiter_is_served_in_time_though_each_wake_up_is_lost() -> Verdict {
    const TTL: Duration = Duration::from_secs(3);
    const LATE: Duration = Duration::from_secs(1);
    let (near, far, proxy) = both("f77").await?;
    let lost = proxy.on(Direction::ToClient, driver::wake_ups().always(), Action::Drop);
    for round in 1..=3 {
        let held = near.lock("a")?.acquire().await?;
        // It has found the name held, and then entered the line.
        let answers = Match::command(driver::LOOK).always();
        let answers = proxy.on(Direction::ToClient, answers, Action::Pass);
        let lock = far.lock("a")?.ttl(TTL);
        let waiter =
            tokio::spawn(async move { lock.acquire_within(Duration::from_secs(30)).await });
        answers.fired_times(2).await;
        answers.remove();
        held.release().await?;
        let begun = Instant::now();
        let guard: Guard = waiter.await??;
        let took = begun.elapsed();
        ensure!(lost.count() >= round, "in round {round} no wake-up was sent, so none was lost");
        ensure!(took <= TTL / 3 + LATE, "it came by time, {took:?} after the release");
        guard.release().await?;
    }
    Ok(())
}

/// A client beside the proxy and one behind it, which have the same locks.
async fn both(prefix: &str) -> Result<(Locks, Locks, Proxy), Failure> {
    let server = driver::shared().await?;
    let proxy = Proxy::start(server.addr(), driver::FRAMING).await?;
    let near = roles::connect(&format!("{}?prefix={prefix}", server.url())).await?;
    let far = roles::connect(&format!("{}?prefix={prefix}", proxy.url(server.url()))).await?;
    Ok((near, far, proxy))
}
