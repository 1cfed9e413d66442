//! The server that is measured on: started, and looked at by other means than the clients'.

use std::time::{Duration, Instant};

use leasehold_conformance::servers::{Etcd, Redis, Server, Way};
use leasehold_conformance::truth::{EtcdTruth, RedisTruth};
use leasehold_conformance::{Failure, Verdict, ensure};

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One Redis server.
    Redis,
    /// One member of etcd.
    Etcd,
}

impl Kind {
    /// That of a URL.
    pub(crate) fn of(url: &str) -> Self {
        if url.starts_with("redis") { Self::Redis } else { Self::Etcd }
    }
}

/// A server for this bench alone.
pub(crate) struct Under {
    server: Server,
    truth: Truth,
}

enum Truth {
    Redis(Box<RedisTruth>),
    Etcd(EtcdTruth),
}

impl Under {
    /// Starts it as a process: a container's network would be measured with it.
    pub(crate) async fn start(kind: Kind) -> Result<Self, Failure> {
        let server = match kind {
            Kind::Redis => Redis::new().start_by(Way::Process).await?,
            Kind::Etcd => Etcd::new().start_by(Way::Process).await?,
        };
        let truth = match kind {
            Kind::Redis => Truth::Redis(Box::new(RedisTruth::connect(server.url()).await?)),
            Kind::Etcd => Truth::Etcd(EtcdTruth::connect(server.url()).await?),
        };
        Ok(Self { server, truth })
    }

    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// Readies a token of this name, and answers the one before the first. Etcd forgets the keys
    /// that are gone, as a cluster that compacts itself does now and then.
    pub(crate) async fn begin_line(&self, name: &str) -> Result<u64, Failure> {
        match &self.truth {
            Truth::Redis(truth) => {
                truth.delete(name).await?;
                truth.command(&["RPUSH", name, "1"]).await?;
                Ok(0)
            }
            Truth::Etcd(truth) => {
                truth.compact().await?;
                Ok(truth.revision().await?)
            }
        }
    }

    /// How many requests that it had: scripts, and transactions, reads and keepalives. Watches are
    /// not among them.
    pub(crate) async fn requests(&self) -> Result<u64, Failure> {
        match &self.truth {
            Truth::Redis(truth) => {
                let commands = truth.commands().await?;
                Ok(commands.calls("evalsha") + commands.calls("eval"))
            }
            Truth::Etcd(truth) => {
                let calls = truth.calls().await?;
                Ok(calls.total() - calls.requests("Watch"))
            }
        }
    }

    /// Resident memory, in bytes, where the server tells.
    pub(crate) async fn memory(&self) -> Result<Option<u64>, Failure> {
        Ok(match &self.truth {
            Truth::Redis(_) => None,
            Truth::Etcd(truth) => Some(truth.usage().await?.memory),
        })
    }

    /// Waits until so many locks are watched, where locks are. Before that a renewal looks at each.
    pub(crate) async fn watches(&self, locks: usize) -> Verdict {
        const LIMIT: Duration = Duration::from_secs(60);
        const AGAIN: Duration = Duration::from_millis(50);
        let Truth::Etcd(truth) = &self.truth else { return Ok(()) };
        let until = Instant::now() + LIMIT;
        while truth.usage().await?.watches < locks as u64 {
            ensure!(Instant::now() < until, "not all of {locks} locks are watched after {LIMIT:?}");
            tokio::time::sleep(AGAIN).await;
        }
        Ok(())
    }

    /// Its name and version.
    pub(crate) async fn version(&self) -> Result<String, Failure> {
        match &self.truth {
            Truth::Redis(truth) => {
                let answer = truth.command(&["INFO", "server"]).await?;
                let text: String = redis::from_redis_value(answer)?;
                let version = text.lines().find_map(|line| line.strip_prefix("redis_version:"));
                Ok(format!("Redis {}", version.unwrap_or("of unknown version")))
            }
            Truth::Etcd(truth) => {
                let status = truth.call("/v3/maintenance/status", &serde_json::json!({})).await?;
                let version = status["version"].as_str();
                Ok(format!("etcd {}", version.unwrap_or("of unknown version")))
            }
        }
    }
}
