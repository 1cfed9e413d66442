//! A primary and its replica, and clients that follow an address.

use std::time::{Duration, Instant};

use leasehold::Loss;
use leasehold_api::ErrorKind;
use leasehold_conformance::proxy::{Framing, Proxy};
use leasehold_conformance::servers::{Redis, Server};
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::time::{sleep, timeout};

use crate::common::fails;
use crate::roles;
use crate::store::Store;

const LATE: Duration = Duration::from_millis(1_500);

/// Two servers, the second a replica of the first, and an address that moves from one to the other.
struct Pair {
    servers: [Server; 2],
    truths: [RedisTruth; 2],
    address: Proxy,
}

impl Pair {
    async fn start() -> Result<Self, Failure> {
        // A replica is served at once, and not with the next that may come within 5 s.
        let redis = || Redis::new().arg("--repl-diskless-sync-delay", "0").controlled();
        let servers = [redis().start().await?, redis().start().await?];
        let truths = [
            RedisTruth::connect(servers[0].url()).await?,
            RedisTruth::connect(servers[1].url()).await?,
        ];
        let address = Proxy::start(servers[0].addr(), Framing::Resp).await?;
        let pair = Self { servers, truths, address };
        pair.follow(1, 0).await?;
        pair.is_in_step().await?;
        Ok(pair)
    }

    fn url(&self) -> String {
        self.address.url(self.servers[0].url())
    }

    /// Makes one a replica of the other.
    async fn follow(&self, replica: usize, primary: usize) -> Verdict {
        let peer = self.servers[primary].peer_addr().await?;
        let (host, port) = (peer.ip().to_string(), peer.port().to_string());
        self.truths[replica].command(&["REPLICAOF", &host, &port]).await?;
        Ok(())
    }

    /// Waits until the replica has all that was written so far, and says so. What it has may be of
    /// its first copy, behind which later writes still wait.
    async fn is_in_step(&self) -> Verdict {
        self.truths[0].set("step", "", None).await?;
        let acknowledged = self.truths[0].command(&["WAIT", "1", "10000"]).await?;
        ensure!(format!("{acknowledged:?}") == "int(1)", "in 10 s: {acknowledged:?}");
        self.truths[0].delete("step").await?;
        Ok(())
    }

    /// The replica is cut off: it follows nobody who is there.
    async fn cut_replication(&self) -> Verdict {
        self.truths[1].command(&["REPLICAOF", "127.0.0.1", "1"]).await?;
        Ok(())
    }

    /// The replica is the primary from now on, and new connections find it.
    async fn promote(&self) -> Verdict {
        self.truths[1].command(&["REPLICAOF", "NO", "ONE"]).await?;
        self.address.aim(self.servers[1].addr());
        Ok(())
    }

    /// The same because the primary died.
    async fn fail_over(&self) -> Verdict {
        self.servers[0].kill().await?;
        self.promote().await?;
        self.address.cut();
        Ok(())
    }
}

pub(crate) async fn f29_a_lock_lost_in_a_failover_is_lost_at_the_next_renewal() -> Verdict {
    const TTL: Duration = Duration::from_secs(4);
    let pair = Pair::start().await?;
    let locks = roles::connect(&pair.url()).await?;
    let rivals = roles::connect(&pair.url()).await?;
    pair.cut_replication().await?;
    let first = locks.lock("a")?.ttl(TTL).acquire().await?;
    let token = first.token()?;
    pair.fail_over().await?;

    // The documented window: both believe that they hold it until the first one's next renewal.
    let second = rivals.lock("a")?.ttl(TTL).acquire_within(LATE).await?;
    ensure!(second.token()? > token, "{second:?} follows {token}, which the replica never saw");
    let seen = timeout(TTL / 3 + LATE, first.lost()).await?;
    ensure!(matches!(seen, Loss::Gone | Loss::TakenOver), "a renewal sees it: {seen}");
    ensure!(second.is_held(), "the second's is untouched");
    // Who checks tokens never notices the window.
    let store = Store::open(pair.servers[1].url()).await?;
    ensure!(store.write(second.token()?).await?, "the higher token");
    ensure!(!store.write(token).await?, "the lower token must be refused");
    Ok(())
}

pub(crate) async fn c45_a_failover_to_an_empty_script_cache_goes_unnoticed() -> Verdict {
    const TTL: Duration = Duration::from_millis(900);
    let pair = Pair::start().await?;
    let locks = roles::connect(&pair.url()).await?;
    let guard = locks.lock("a")?.ttl(TTL).acquire().await?;
    pair.is_in_step().await?;
    pair.truths[1].script_flush().await?;
    pair.fail_over().await?;
    sleep(2 * TTL).await;
    ensure!(guard.is_held(), "renewed on the new primary: {guard:?}");
    let owner = locks.backend().inspect(guard.name()).await?.map(|holder| holder.owner);
    ensure!(owner == Some(guard.owner()), "there it stands too: {owner:?}");
    Ok(guard.release().await?)
}

pub(crate) async fn c46_a_missing_replica_is_a_typed_refusal_until_it_is_back() -> Verdict {
    let pair = Pair::start().await?;
    let locks = roles::connect(&pair.url()).await?;
    pair.truths[0].config_set("min-replicas-to-write", "1").await?;
    let lock = locks.lock("a")?;
    lock.acquire().await?.release().await?;
    pair.servers[1].kill().await?;
    loop {
        let info = format!("{:?}", pair.truths[0].command(&["INFO", "replication"]).await?);
        if info.contains("connected_slaves:0") {
            break;
        }
        sleep(Duration::from_millis(2)).await;
    }
    fails(lock.acquire().await, ErrorKind::Refused, Some("NOREPLICAS"));
    pair.servers[1].start().await?;
    pair.follow(1, 0).await?;
    let whole = Instant::now();
    let guard = loop {
        match lock.acquire().await {
            Ok(guard) => break guard,
            Err(error) => ensure!(whole.elapsed() < Duration::from_secs(10), "{error}"),
        }
        sleep(Duration::from_millis(20)).await;
    };
    Ok(guard.release().await?)
}

pub(crate) async fn f30_a_demoted_primary_is_left_for_the_new_one() -> Verdict {
    const TTL: Duration = Duration::from_millis(900);
    let pair = Pair::start().await?;
    let locks = roles::connect(&pair.url()).await?;
    let guard = locks.lock("a")?.ttl(TTL).acquire().await?;
    pair.is_in_step().await?;
    pair.promote().await?;
    // Connections to the old one stay open; it refuses what is written there.
    pair.follow(0, 1).await?;
    sleep(2 * TTL).await;
    ensure!(guard.is_held(), "renewed on the new primary: {guard:?}");
    let next = locks.lock("b")?.ttl(TTL).acquire().await?;
    ensure!(next.token()? > guard.token()?, "{next:?} follows {guard:?}");
    Ok(guard.release().await?)
}
