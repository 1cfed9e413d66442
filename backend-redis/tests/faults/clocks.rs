//! Wall clocks that are wrong: the server's, and the clients'.

use std::time::{Duration, SystemTime};

use leasehold::Loss;
use leasehold_api::ErrorKind;
use leasehold_conformance::servers::{Redis, WallClock};
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::child::Child;
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

pub(crate) async fn f65_clients_in_other_times_and_zones_exclude_each_other() -> Verdict {
    let server = Redis::shared().await?;
    let url = format!("{}?prefix=zones", server.url());
    let clocks = [WallClock::new()?, WallClock::new()?];
    clocks[0].set(HOUR)?;
    clocks[1].set(-HOUR)?;
    let mut early = client(&url, &clocks[0], "Pacific/Kiritimati")?;
    let mut late = client(&url, &clocks[1], "Etc/GMT+12")?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    for (child, expected) in [(&mut early, now + 3600), (&mut late, now - 3600)] {
        let clock = child.number("clock", "clock").await?;
        ensure!(clock.abs_diff(expected) < 60, "its clock shows {clock}, not {expected}");
    }
    let mut last = 0;
    for _ in 0..2 {
        for (holder, rival) in [(0, 1), (1, 0)] {
            let both = [&mut early, &mut late];
            let [holder, rival] = if holder < rival { both } else { swapped(both) };
            let token = holder.number("acquire", "granted").await?;
            ensure!(token > last, "token {token} follows {last}");
            last = token;
            let left = holder.number("look", "held").await?;
            ensure!(left <= TTL.as_millis() as u64, "{left} ms of {TTL:?} are left");
            let refused = rival.ask(&format!("acquire {}", TTL.as_millis() * 5 / 4)).await?;
            ensure!(refused == "failed NotAcquired", "the rival was told: {refused}");
            holder.number("look", "held").await?;
            ensure!(holder.ask("release").await? == "released", "it was held to the end");
        }
    }
    early.number("acquire", "granted").await?;
    early.kill().await?;
    let wait = (TTL + LATE).as_millis();
    late.number(&format!("acquire {wait}"), "granted").await?;
    late.ends_well().await
}

fn swapped<T>([first, second]: [T; 2]) -> [T; 2] {
    [second, first]
}

fn client(url: &str, clock: &WallClock, zone: &str) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([url, "a", &TTL.as_millis().to_string()]);
    command.envs(clock.environment()).env("TZ", zone);
    Child::spawn("client", command)
}
