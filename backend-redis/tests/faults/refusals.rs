//! A server that refuses, or throws away.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{Guard, Locks, Loss};
use leasehold_api::ErrorKind;
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::servers::{Redis, Server};
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::time::{sleep, timeout};

use crate::common::fails;
use crate::roles;

const TTL: Duration = Duration::from_millis(1_200);
const LATE: Duration = Duration::from_millis(1_500);
const LOCKS: usize = 20;

pub(crate) async fn f31_a_busy_server_is_retried_within_the_wait() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let locks = roles::connect(&proxy.url(server.url())).await?;
    let refusals = Match::when(|message| message.bytes.starts_with(b"-BUSY")).always();
    let refused = proxy.on(Direction::ToClient, refusals, Action::Pass);
    let busy = truth.busy().await?;
    let end = async {
        refused.fired_times(3).await;
        busy.end(&truth).await
    };
    let lock = locks.lock("a")?;
    let (guard, ended) = tokio::join!(lock.acquire_within(Duration::from_secs(20)), end);
    ended?;
    guard?.release().await?;
    // A wait that is over first ends with what the server said last.
    let busy = truth.busy().await?;
    let kind = lock.acquire_within(TTL / 3).await.map(drop).map_err(|error| error.kind());
    ensure!(kind == Err(ErrorKind::Busy), "{kind:?}");
    Ok(busy.end(&truth).await?)
}

pub(crate) async fn f32_c51_what_volatile_lru_evicts_is_lost_at_the_next_renewal() -> Verdict {
    evicted_is_lost("volatile-lru").await
}

pub(crate) async fn f32_c51_what_allkeys_random_evicts_is_lost_at_the_next_renewal() -> Verdict {
    evicted_is_lost("allkeys-random").await
}

async fn evicted_is_lost(policy: &str) -> Verdict {
    let full = Full::start(policy).await?;
    let warnings = full.locks.profile().warnings.join("; ");
    ensure!(warnings.contains(&format!("maxmemory-policy is {policy}")), "{warnings}");
    let guards = full.hold().await?;
    // It fills up until some lock is gone; then nothing more is thrown away.
    let mut kept = full.records().await?;
    for round in 0.. {
        ensure!(round < 500, "nothing was evicted: {} records", kept.len());
        full.fill(20).await?;
        kept = full.records().await?;
        if kept.len() < LOCKS {
            break;
        }
    }
    full.truth.config_set("maxmemory", "0").await?;
    kept = full.records().await?;
    let (kept, gone): (Vec<_>, Vec<_>) =
        guards.into_iter().partition(|guard| kept.contains(&guard.name().to_string()));
    // By a renewal, so before the deadline.
    let seen = join_all(gone.iter().map(|guard| timeout(TTL / 2 + LATE, guard.lost()))).await;
    for seen in seen {
        ensure!(seen? == Loss::Gone, "a renewal sees that its record is gone");
    }
    sleep(TTL).await;
    let held = kept.iter().filter(|guard| guard.is_held()).count();
    ensure!(held == kept.len(), "{held} of {} are held", kept.len());
    // What was thrown away takes no token with it.
    for guard in gone.iter().take(3) {
        let owner = full.locks.lock(guard.name().as_str())?.acquire_within(LATE).await?;
        ensure!(owner.is_held(), "it is free");
    }
    Ok(())
}

pub(crate) async fn f32_c51_without_eviction_new_locks_are_refused_and_old_ones_stay() -> Verdict {
    let full = Full::start("noeviction").await?;
    let warnings = full.locks.profile().warnings.join("; ");
    ensure!(!warnings.contains("maxmemory-policy"), "{warnings}");
    let guards = full.hold().await?;
    while full.fill(20).await? {}
    // Without the room that one more filler did not fit into.
    full.truth.config_set("maxmemory", "4mb").await?;
    let refused = full.locks.lock("another")?.acquire_within(TTL).await;
    fails(refused, ErrorKind::Refused, Some("OOM"));
    sleep(TTL).await;
    ensure!(guards.iter().all(Guard::is_held), "all stay held: {guards:?}");
    for guard in guards {
        guard.release().await?;
    }
    ensure!(full.records().await?.is_empty(), "and are released");
    Ok(())
}

/// A server of 5 MB.
struct Full {
    _server: Server,
    truth: RedisTruth,
    locks: Locks,
}

impl Full {
    async fn start(policy: &str) -> Result<Self, Failure> {
        let server = Redis::new().arg("--maxmemory", "5mb").arg("--maxmemory-policy", policy);
        let server = server.start().await?;
        let truth = RedisTruth::connect(server.url()).await?;
        let locks = roles::connect(server.url()).await?;
        Ok(Self { _server: server, truth, locks })
    }

    async fn hold(&self) -> Result<Vec<Guard>, Failure> {
        let mut guards = Vec::new();
        for n in 0..LOCKS {
            guards.push(self.locks.lock(&format!("lock-{n}"))?.ttl(TTL).acquire().await?);
        }
        Ok(guards)
    }

    /// Writes so much that has nothing to do with locks; false if it is refused.
    async fn fill(&self, keys: usize) -> Result<bool, Failure> {
        for _ in 0..keys {
            let key = format!("filler-{:x}", crate::dice::fresh());
            match self.truth.set(key, "x".repeat(10_000), None).await {
                Ok(()) => {}
                Err(error) if error.code() == Some("OOM") => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// The names that have a record.
    async fn records(&self) -> Result<Vec<String>, Failure> {
        let keys = self.truth.keys("leasehold:").await?.into_keys();
        let name = |key: Vec<u8>| {
            let key = String::from_utf8(key).unwrap();
            key.split_once("}:lock:").map(|(_, name)| name.to_owned())
        };
        Ok(keys.filter_map(name).collect())
    }
}

pub(crate) async fn f33_c42_a_refused_release_is_said() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let locks = roles::connect(server.url()).await?;
    let rivals = roles::connect(server.url()).await?;
    let lock = locks.lock("a")?.ttl(TTL);
    let guard = lock.acquire().await?;
    let name = guard.name().clone();
    truth.config_set("min-replicas-to-write", "1").await?;
    let error = fails(guard.release().await, ErrorKind::Refused, Some("NOREPLICAS"));
    ensure!(error.to_string().contains("too few replicas"), "{error}");
    // Unknown until its TTL: the record is there, and nobody else gets in.
    ensure!(rivals.backend().inspect(&name).await?.is_some(), "nothing was half done");
    truth.config_set("min-replicas-to-write", "0").await?;
    let next = rivals.lock("a")?.ttl(TTL).acquire_within(TTL + LATE).await?;
    Ok(next.release().await?)
}
