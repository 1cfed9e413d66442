//! A network that loses packets: a namespace of its own, in which one packet of five is dropped.

use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold::Guard;
use leasehold_conformance::{Failure, Verdict, ensure, long};
use tokio::process::Command;

use crate::child::Child;
use crate::dice::{self, Dice};
use crate::driver;
use crate::roles::{self, Words};
use crate::watch::{Watch, Work};

const TTL: Duration = Duration::from_secs(3);
const CLIENTS: usize = 3;
/// That many tasks of each client acquire and let go.
const TASKS: usize = 3;
const NAMES: u64 = 3;

/// By which `LEASEHOLD_REQUIRE` asks for such a network.
const LOSSY: &str = "packet-loss";

const LOSS: &str = "add table inet lossy; \
    add chain inet lossy input { type filter hook input priority 0; }; \
    add rule inet lossy input meta l4proto tcp numgen random mod 100 < 20 counter drop";

pub(crate) async fn f87_packet_loss_doubles_nothing() -> Verdict {
    // Whether a server can be had as a process: in the namespace there is nothing else.
    drop(driver::process().await?);
    let try_out = ["--net", "sh", "-c", "ip link set lo up && nft -c \"$1\"", "sh", LOSS];
    let tried = Command::new("unshare").args(try_out).output().await;
    let tried = tried.map_err(|error| Failure::missing(LOSSY, format!("unshare: {error}")))?;
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr).into_owned();
        return Err(Failure::missing(LOSSY, why.trim()));
    }
    let time = if long() { 60 } else { 5 };
    let mut command = Command::new("unshare");
    command.arg("--net").arg(std::env::current_exe()?).arg((time * 1_000).to_string());
    let mut child = Child::spawn("packets", command)?;
    let told = child.hear().await?;
    child.ends_well().await?;
    let numbers: Vec<u64> = told.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let &[granted, lost, kept, dropped] = &numbers[..] else {
        return Err(Failure::failed(format!("it said {told}")));
    };
    ensure!(dropped > 20, "only {dropped} packets were dropped");
    ensure!(granted >= 3 * time, "only {granted} locks were granted in {time} s");
    ensure!(lost * 5 <= granted, "{lost} of {granted} short holds were lost");
    ensure!(kept >= 1, "every client lost the lock that it held all the time");
    Ok(())
}

/// The process in the namespace: tells how many locks were granted, how many of them were lost, how
/// many of those held all the time were kept, and how many packets were dropped.
pub(crate) async fn play(mut words: Words) -> Verdict {
    let time = words.millis()?;
    run("ip", &["link", "set", "lo", "up"]).await?;
    let server = driver::process().await?;
    let clients = try_join_all((0..CLIENTS).map(|_| roles::connect(server.url()))).await?;
    let mut kept = Vec::new();
    for (n, locks) in clients.iter().enumerate() {
        kept.push(locks.lock(&format!("kept-{n}"))?.ttl(TTL).acquire().await?);
    }
    run("nft", &[LOSS]).await?;

    let watch = Watch::default();
    let until = tokio::time::Instant::now() + time;
    let workers = clients.iter().enumerate().flat_map(|(client, locks)| {
        let watch = &watch;
        (0..TASKS).map(move |_| {
            let hold = Duration::from_millis(200);
            let work = Work { client, names: NAMES, ttl: TTL, hold, until };
            watch.work(locks, work, Dice::new(dice::fresh()))
        })
    });
    let done = try_join_all(workers).await?;
    let held = kept.iter().filter(|guard| Guard::is_held(guard)).count();
    let dropped = dropped_packets().await?;
    run("nft", &["flush", "ruleset"]).await?;
    watch.verdict("packet-loss")?;
    let near = roles::connect(server.url()).await?;
    for n in 0..NAMES {
        let lock = near.lock(&format!("name-{n}"))?.ttl(TTL);
        lock.acquire_within(4 * TTL).await?.release().await?;
    }
    let (granted, lost) = done.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("{granted} {lost} {held} {dropped}");
    Ok(())
}

async fn dropped_packets() -> Result<u64, Failure> {
    let text = run("nft", &["list", "ruleset"]).await?;
    let counted = text.split("counter packets ").nth(1).and_then(|rest| rest.split(' ').next());
    let counted = counted.ok_or_else(|| Failure::failed(format!("no counter in {text}")))?;
    Ok(counted.parse()?)
}

async fn run(program: &str, words: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program).args(words).output().await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{program} {words:?}: {}", text(&output.stderr));
    Ok(text(&output.stdout))
}
