//! A server, or several, with the truth about it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_api::{Acquired, Backend, Claim, Lease, LockName, Owner, Ttl};
use leasehold_conformance::Failure;
use leasehold_conformance::servers::{Etcd, EtcdCluster, Server};
use leasehold_conformance::truth::{EtcdClaim, EtcdKeys, EtcdTruth};
use tokio::sync::OnceCell;

use crate::common::{connect, subject};

/// How much later than its TTL a lease may end: the server looks for ended ones each half second,
/// and then asks the cluster.
pub(crate) const LATE: Duration = Duration::from_millis(1_500);

/// How soon a loss is told that somebody else's doing is.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What a test sees of etcd besides its clients.
pub(crate) struct Place {
    pub(crate) members: Vec<SocketAddr>,
    pub(crate) truth: EtcdTruth,
    pub(crate) keys: EtcdKeys,
    prefix: String,
}

impl Place {
    /// One server for all tests of this binary, with keys under a prefix of this test's.
    pub(crate) async fn shared(prefix: &str) -> Result<Self, Failure> {
        static SERVER: OnceCell<Server> = OnceCell::const_new();
        let server = SERVER.get_or_try_init(async || subject::quick().start().await).await?;
        Self::of(server, prefix).await
    }

    pub(crate) async fn of(server: &Server, prefix: &str) -> Result<Self, Failure> {
        Self::at(vec![server.addr()], server.url(), prefix).await
    }

    pub(crate) async fn of_cluster(cluster: &EtcdCluster, prefix: &str) -> Result<Self, Failure> {
        let members = cluster.members().iter().map(Server::addr).collect();
        Self::at(members, cluster.url(), prefix).await
    }

    async fn at(members: Vec<SocketAddr>, url: &str, prefix: &str) -> Result<Self, Failure> {
        let truth = EtcdTruth::connect(url).await?;
        Ok(Self { members, truth, keys: EtcdKeys::new(prefix), prefix: prefix.to_owned() })
    }

    pub(crate) async fn locks(&self) -> Result<Locks, Failure> {
        self.locks_by(&self.members).await
    }

    /// Locks of a client that reaches the members by other addresses.
    pub(crate) async fn locks_by(&self, members: &[SocketAddr]) -> Result<Locks, Failure> {
        Ok(Locks::with_backend(connect(members, &self.prefix).await?))
    }

    pub(crate) async fn claims(&self, name: &LockName) -> Result<Vec<EtcdClaim>, Failure> {
        Ok(self.truth.claims(&self.keys, name).await?)
    }

    /// Waits until so many claims of a name stand in the store, and gives them.
    pub(crate) async fn claims_are(
        &self,
        name: &LockName,
        count: usize,
        within: Duration,
    ) -> Result<Vec<EtcdClaim>, Failure> {
        let line = self.keys.claims(name);
        let begun = Instant::now();
        self.truth.pairs_until(&line, within, |pairs| pairs.len() == count).await?;
        let claims = self.claims(name).await?;
        if claims.len() == count {
            return Ok(claims);
        }
        let (found, after) = (claims.len(), begun.elapsed());
        Err(Failure::failed(format!("{found} claims of {name} after {after:?}: {claims:?}")))
    }

    /// Waits until the one claim of a name is under a watch.
    pub(crate) async fn is_watched(&self, before: u64) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.truth.usage().await?.watches <= before {
            if begun.elapsed() > Duration::from_secs(5) {
                return Err(Failure::failed("no watch was opened"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

/// A server of this test's own, quick in its elections.
pub(crate) async fn own(etcd: Etcd) -> Result<(Server, Place), Failure> {
    let server = etcd.start().await?;
    let place = Place::of(&server, "faults").await?;
    Ok((server, place))
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(crate) fn claim(name: &str, ttl: Duration) -> Claim {
    Claim::new(self::name(name), Owner::random(), Ttl::new(ttl).unwrap())
}

/// The lease of a claim that must be granted.
pub(crate) async fn take(client: &dyn Backend, claim: &Claim) -> Result<Lease, Failure> {
    match client.acquire(claim).await? {
        Acquired::Granted(grant) => {
            Ok(Lease::new(claim.name.clone(), claim.owner, grant.token, claim.ttl))
        }
        held => Err(Failure::failed(format!("{} must be free, but: {held:?}", claim.name))),
    }
}
