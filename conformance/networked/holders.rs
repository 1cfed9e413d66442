//! Holders that are killed, or stopped and continued.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use leasehold_conformance::{Verdict, ensure, rounds};
use rustix::process::Signal;
use tokio::time::{sleep, sleep_until, timeout};

use crate::child::Child;
use crate::dice::{self, Dice};
use crate::driver;
use crate::roles;
use crate::store::Store;

/// More than [`LATE`], so that a name which is free only after two of them is late.
const TTL: Duration = Duration::from_secs(2);
/// How much later than its TTL a name may fall free on a busy machine: a waiter comes back by
/// time, and a few dozen processes share two processors.
const LATE: Duration = Duration::from_millis(1_500);
const AT_ONCE: usize = 12;

pub(crate) async fn f1_c10_c72_a_killed_holder_is_free_within_its_ttl() -> Verdict {
    let server = driver::shared().await?;
    let url = format!("{}?prefix=killed", server.url());
    let seed = dice::asked().unwrap_or_else(dice::fresh);
    let mut dice = Dice::new(seed);
    let kills = (0..rounds(50, 1_000)).map(|n| {
        // Some milliseconds are some rounds of acquiring, holding and releasing.
        let after = dice.between(Duration::ZERO, Duration::from_millis(40));
        one_kill(&url, n, after)
    });
    let done = stream::iter(kills.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
    dice::of_seed(seed, done.try_collect::<Vec<()>>().await.map(drop))
}

/// Kills a process some time after it began to acquire and release. Every second has a rival that
/// does the same.
async fn one_kill(url: &str, n: usize, after: Duration) -> Verdict {
    let name = format!("kill-{n}");
    let mut child = Child::start("cycle", &[&url, &name, &TTL.as_millis()])?;
    let locks = roles::connect(url).await?;
    let lock = locks.lock(&name)?.ttl(TTL);
    ensure!(child.hear().await? == "ready", "it is ready");
    if n.is_multiple_of(2) {
        let rivalry = async {
            loop {
                let _ = lock.acquire().await?.release().await;
            }
        };
        let rivalry: Result<Verdict, _> = timeout(after, rivalry).await;
        ensure!(rivalry.is_err(), "the rival failed: {rivalry:?}");
    } else {
        // The moment of the kill is a matter of chance.
        sleep(after).await;
    }
    child.kill().await?;
    let killed = Instant::now();
    let guard = lock.acquire_within(TTL + LATE).await?;
    let waited = killed.elapsed();
    ensure!(waited <= TTL + LATE, "{name} was free only after {waited:?}");
    Ok(guard.release().await?)
}

pub(crate) async fn c135_a_fresh_process_gets_what_a_killed_one_held() -> Verdict {
    let server = driver::shared().await?;
    let url = format!("{}?prefix=fresh", server.url());
    let mut dead = Child::start("client", &[&url, &"a", &TTL.as_millis()])?;
    let token = dead.number("acquire", "granted").await?;
    let mut rival = Child::start("client", &[&url, &"a", &TTL.as_millis()])?;
    ensure!(rival.ask("try").await? == "held", "it is held");
    dead.kill().await?;
    sleep(2 * TTL).await;
    let mut fresh = Child::start("client", &[&url, &"a", &TTL.as_millis()])?;
    let next = fresh.number("try", "granted").await?;
    ensure!(next > token, "token {next} follows {token}");
    rival.ends_well().await?;
    fresh.ends_well().await
}

pub(crate) async fn f2_c9_a_stopped_holder_sees_its_loss_first_and_harms_nobody() -> Verdict {
    let server = driver::shared().await?;
    let url = format!("{}?prefix=stopped", server.url());
    let locks = roles::connect(&url).await?;
    let store = Store::open(&url).await?;
    let mut stopped = Child::start("client", &[&url, &"a", &TTL.as_millis()])?;
    let first = stopped.number("acquire", "granted").await?;
    ensure!(stopped.ask("write").await? == "written", "it has the highest token");

    stopped.signal(Signal::STOP)?;
    let begun = tokio::time::Instant::now();
    let guard = locks.lock("a")?.ttl(TTL).acquire_within(TTL + LATE).await?;
    ensure!(store.write(guard.token()?).await?, "the second has a higher token");
    sleep_until(begun + 3 * TTL).await;
    let looked = locks.backend().inspect(guard.name()).await?;
    let owner = looked.map(|holder| holder.owner);

    stopped.signal(Signal::CONT)?;
    let seen = stopped.ask("look").await?;
    ensure!(seen == "lost Lost", "its first look says {seen}");
    ensure!(stopped.ask("renew").await? == "not-mine", "no renewal of another's lease");
    ensure!(stopped.ask("write").await? == "refused", "the store knows a higher token");
    ensure!(stopped.ask("release").await? == "failed Lost", "nothing is left to release");
    ensure!(guard.is_held(), "the second holds on");
    let looked = locks.backend().inspect(guard.name()).await?;
    ensure!(looked.map(|holder| holder.owner) == owner, "the record is the second's");
    ensure!(owner == Some(guard.owner()), "and was all the while");

    guard.release().await?;
    let again = stopped.number("acquire", "granted").await?;
    ensure!(again > first, "token {again} follows {first}");
    ensure!(stopped.ask("write").await? == "written", "with a new token it may write again");
    ensure!(stopped.ask("release").await? == "released", "and ends in good order");
    stopped.ends_well().await
}
