//! Clients whose wall clocks and time zones are not the server's.

use std::time::{Duration, SystemTime};

use leasehold_conformance::servers::WallClock;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::process::Command;

use crate::child::Child;
use crate::driver;

const HOUR: i64 = 3600;
const TTL: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_millis(1_500);

pub(crate) async fn f65_clients_in_other_times_and_zones_exclude_each_other() -> Verdict {
    let server = driver::shared().await?;
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
