//! A server whose wall clock is wrong.

use std::time::Duration;

use leasehold::Loss;
use leasehold_api::ErrorKind;
use leasehold_conformance::servers::{Redis, WallClock};
use leasehold_conformance::{Verdict, ensure};
use tokio::time::{sleep, timeout};

use crate::place::as_process;
use crate::roles;

const HOUR: i64 = 3600;
const TTL: Duration = Duration::from_millis(900);
const LATE: Duration = Duration::from_millis(1_500);

pub(crate) async fn f36_a_server_clock_an_hour_ahead_is_a_loss_in_time() -> Verdict {
    let clock = WallClock::new()?;
    let server = as_process(&Redis::new().wall_clock(&clock)).await?;
    let locks = roles::connect(server.url()).await?;
    let rivals = roles::connect(server.url()).await?;
    let renewed = locks.lock("renewed")?.ttl(TTL).acquire().await?;
    let still = locks.lock("still")?.ttl(TTL).keep_alive(false).acquire().await?;
    let (before, tokens) = (still.remaining(), (renewed.token()?, still.token()?));

    clock.set(HOUR)?;
    // The server frees everything at once.
    let second = rivals.lock("still")?.ttl(TTL).acquire_within(LATE).await?;
    ensure!(second.token()? > tokens.1, "{second:?} follows {still:?}");
    ensure!(still.remaining() <= before, "the deadline did not move: {still:?}");
    let seen = timeout(TTL + LATE, renewed.lost()).await?;
    ensure!(seen == Loss::Gone, "the next renewal sees it: {seen}");
    let seen = timeout(TTL + LATE, still.lost()).await?;
    ensure!(seen == Loss::Deadline, "nobody asked, so its deadline decides: {seen}");
    ensure!(second.is_held(), "by the new time it is held as by the old");

    clock.set(0)?;
    let third = rivals.lock("renewed")?.ttl(TTL).acquire_within(LATE).await?;
    ensure!(third.token()? > tokens.0, "{third:?} follows {renewed:?}");
    Ok(())
}

pub(crate) async fn f36_a_server_clock_an_hour_behind_moves_no_deadline() -> Verdict {
    let clock = WallClock::new()?;
    let server = as_process(&Redis::new().wall_clock(&clock)).await?;
    let locks = roles::connect(server.url()).await?;
    let rivals = roles::connect(server.url()).await?;
    let renewed = locks.lock("renewed")?.ttl(TTL).acquire().await?;
    let still = locks.lock("still")?.ttl(TTL).keep_alive(false).acquire().await?;
    let (before, token) = (still.remaining(), still.token()?);

    clock.set(-HOUR)?;
    ensure!(still.remaining() <= before, "the deadline did not move: {still:?}");
    let seen = timeout(TTL + LATE, still.lost()).await?;
    ensure!(seen == Loss::Deadline, "by the client's own clock: {seen}");
    // A lost lease is freed by its owner, so nobody waits for the hour.
    let second = rivals.lock("still")?.ttl(TTL).acquire_within(TTL + LATE).await?;
    ensure!(second.token()? > token, "{second:?} follows {token}");
    sleep(TTL).await;
    ensure!(renewed.is_held(), "a renewal counts from the server's new time");
    let rival = rivals.lock("renewed")?.ttl(TTL).acquire_within(TTL / 3).await;
    let kind = rival.map(drop).map_err(|error| error.kind());
    ensure!(kind == Err(ErrorKind::NotAcquired), "{kind:?}");
    let token = renewed.token()?;
    renewed.release().await?;
    let next = rivals.lock("renewed")?.ttl(TTL).acquire_within(LATE).await?;
    ensure!(next.token()? > token, "{next:?} follows {token}");
    Ok(())
}
