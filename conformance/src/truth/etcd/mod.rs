//! The truth about etcd, and an operator's hands in it.

mod claims;
mod keys;
mod leases;
mod operator;
mod pairs;
mod sockets;
mod stats;

use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

pub use self::claims::EtcdClaim;
pub use self::keys::EtcdKeys;
pub use self::leases::EtcdLease;
pub use self::pairs::EtcdPair;
pub use self::stats::{EtcdCalls, EtcdUse};
pub use crate::gateway::EtcdError;
use crate::gateway::{Credentials, Gateway};

/// How long etcd may take to answer (a test may pause it, or an election may be under way).
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one of several members may take, before another is asked.
const ANSWER: Duration = Duration::from_secs(2);

/// Between two rounds of questions.
const BREATH: Duration = Duration::from_millis(20);

/// gRPC's number for a member that cannot serve now: without a leader, in an election.
const UNAVAILABLE: i64 = 14;

/// A reader of etcd by its JSON gateway, and of what it counts; not by gRPC, as the driver does.
///
/// Of a cluster it asks any member that answers, and another where one does not; a read is always of
/// the newest state. Its own calls are taken out of [`calls`](Self::calls). All that it sends may be
/// sent twice.
///
/// Every method fails with the server's refusal, or when no member answered for 30 s; at once where
/// all of them are down.
#[derive(Debug)]
pub struct EtcdTruth {
    members: Vec<Gateway>,
    /// The member that answered last.
    last: AtomicUsize,
    /// When each member had started, by its own clock, when its counters were read last.
    started: tokio::sync::Mutex<Vec<f64>>,
}

impl EtcdTruth {
    /// A reader of the server or cluster at a URL without TLS
    /// ([`Server::url`](crate::servers::Server::url),
    /// [`EtcdCluster::url`](crate::servers::EtcdCluster::url)), as the user in it.
    ///
    /// # Errors
    ///
    /// [`EtcdError`] if etcd does not answer, or refuses the user.
    ///
    /// # Panics
    ///
    /// If it is not a URL with at least one host.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind.
    pub async fn connect(url: &str) -> Result<Self, EtcdError> {
        let (_, rest) = url.split_once("://").expect("a URL");
        let authority = rest.split(['/', '?', '#']).next().expect("a part at least");
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        let addresses = hosts.split(',').filter_map(|host| host.to_socket_addrs().ok()?.next());
        let credentials = Credentials::of_url(url);
        let members: Vec<_> =
            addresses.map(|address| Gateway::new(address, credentials.clone())).collect();
        assert!(!members.is_empty(), "no host with a port that is known");
        let started = tokio::sync::Mutex::new(vec![0.0; members.len()]);
        let truth = Self { members, last: AtomicUsize::new(0), started };
        truth.revision().await?;
        Ok(truth)
    }

    /// Any call of the gateway, like `/v3/kv/range`; see [`EtcdTruth`] for what the methods do not
    /// do.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// The call may be under way. It may be sent twice, so it should be one that bears it.
    pub async fn call(&self, path: &str, body: &Value) -> Result<Value, EtcdError> {
        let started = Instant::now();
        let limit = if self.members.len() == 1 { PATIENCE } else { ANSWER };
        loop {
            let first = self.last.load(Ordering::Relaxed);
            let mut may_come = None;
            let mut gone = None;
            for index in (first..first + self.members.len()).map(|n| n % self.members.len()) {
                match self.members[index].call(path, body, limit).await {
                    Err(error @ EtcdError::Refused { code: UNAVAILABLE, .. }) => {
                        may_come = Some(error);
                    }
                    Err(error @ EtcdError::Silent { .. }) => may_come = Some(error),
                    Err(error @ EtcdError::Unreachable { .. }) => gone = Some(error),
                    answer => {
                        self.last.store(index, Ordering::Relaxed);
                        return answer;
                    }
                }
            }
            match (may_come, gone) {
                (Some(error), _) if started.elapsed() > PATIENCE => return Err(error),
                (None, Some(error)) => return Err(error),
                _ => tokio::time::sleep(BREATH).await,
            }
        }
    }
}
