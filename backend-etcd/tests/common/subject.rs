//! The driver as the conformance suite sees it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use leasehold_api::{Backend, LockName, Owner};
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::servers::{Etcd, EtcdCluster, Server};
use leasehold_conformance::truth::{EtcdClaim, EtcdKeys, EtcdTruth};
use leasehold_conformance::{Data, Failure, Link, Record, Share, Store, Subject, Verdict};
use tokio::sync::OnceCell;

const PREFIX: &str = "conformance";

/// Elections so short that the shortest lease is one of 1 s.
pub(crate) fn quick() -> Etcd {
    Etcd::new().ticks(Duration::from_millis(50), Duration::from_millis(500))
}

/// At etcd's own pace: three members and many clients on a busy machine miss heartbeats that come
/// each 50 ms, and an election leaves a call without an answer.
fn three(settings: Etcd) -> Etcd {
    settings.ticks(Duration::from_millis(100), Duration::from_secs(1))
}

/// The driver over etcd: one server, or a cluster of three.
pub(crate) enum EtcdSubject {
    One,
    Three,
}

#[async_trait]
impl Subject for EtcdSubject {
    fn name(&self) -> &str {
        match self {
            Self::One => "etcd",
            Self::Three => "etcd, a cluster of three",
        }
    }

    async fn store(&self, share: Share) -> Result<Box<dyn Store>, Failure> {
        static ONE: OnceCell<Server> = OnceCell::const_new();
        static THREE: OnceCell<EtcdCluster> = OnceCell::const_new();
        let place = match (self, share) {
            (Self::One, Share::Shared) => Place::Server(Held::Shared(
                ONE.get_or_try_init(async || quick().start().await).await?,
            )),
            (Self::One, Share::Private) => {
                Place::Server(Held::Own(Box::new(quick().controlled().start().await?)))
            }
            (Self::Three, Share::Shared) => {
                let cluster =
                    THREE.get_or_try_init(async || three(Etcd::new()).cluster(3).await).await?;
                Place::Cluster(Held::Shared(cluster))
            }
            (Self::Three, Share::Private) => Place::Cluster(Held::Own(Box::new(
                three(Etcd::new().controlled()).cluster(3).await?,
            ))),
        };
        let truth = EtcdTruth::connect(place.url()).await?;
        let keys = EtcdKeys::new(PREFIX);
        Ok(Box::new(EtcdStore { place, truth, keys, proxies: OnceCell::new() }))
    }

    // A cluster of three writes everything three times, and here to one disk.
    fn ttl(&self) -> Duration {
        match self {
            Self::One => Duration::from_secs(2),
            Self::Three => Duration::from_secs(3),
        }
    }

    // The server looks for expired leases each half second, and then asks the cluster.
    fn late(&self) -> Duration {
        Duration::from_millis(1_500)
    }
}

enum Held<T: 'static> {
    Shared(&'static T),
    Own(Box<T>),
}

impl<T> Held<T> {
    fn get(&self) -> &T {
        match self {
            Self::Shared(shared) => shared,
            Self::Own(own) => own,
        }
    }
}

enum Place {
    Server(Held<Server>),
    Cluster(Held<EtcdCluster>),
}

impl Place {
    fn url(&self) -> &str {
        match self {
            Self::Server(server) => server.get().url(),
            Self::Cluster(cluster) => cluster.get().url(),
        }
    }

    fn is_own(&self) -> bool {
        matches!(self, Self::Server(Held::Own(_)) | Self::Cluster(Held::Own(_)))
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Server(server) => vec![server.get().addr()],
            Self::Cluster(cluster) => cluster.get().members().iter().map(Server::addr).collect(),
        }
    }
}

struct EtcdStore {
    place: Place,
    truth: EtcdTruth,
    keys: EtcdKeys,
    proxies: OnceCell<Vec<Proxy>>,
}

impl EtcdStore {
    async fn proxies(&self) -> Result<&[Proxy], Failure> {
        let start = async || {
            let addresses = self.place.addresses();
            let start = |at| Proxy::start(at, Framing::Grpc);
            try_join_all(addresses.into_iter().map(start)).await
        };
        Ok(self.proxies.get_or_try_init(start).await?)
    }

    async fn first(&self, name: &LockName) -> Result<Option<EtcdClaim>, Failure> {
        Ok(self.truth.holder(&self.keys, name).await?)
    }

    async fn must_have(&self, name: &LockName) -> Result<EtcdClaim, Failure> {
        let first = self.first(name).await?;
        first.ok_or_else(|| Failure::failed(format!("{name} has no record")))
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Failure> {
        Ok(super::connect(&self.place.addresses(), PREFIX).await?)
    }

    async fn restart(&self, data: Data) -> Verdict {
        match (&self.place, data) {
            (Place::Server(server), Data::Kept) => server.get().restart().await?,
            (Place::Server(server), Data::Lost) => server.get().restart_empty().await?,
            (Place::Cluster(cluster), Data::Kept) => cluster.get().restart().await?,
            (Place::Cluster(cluster), Data::Lost) => cluster.get().restart_empty().await?,
        }
        Ok(())
    }

    async fn lose_data(&self) -> Verdict {
        // In one step, as nothing waits then for what is not forgotten yet.
        self.truth.delete_all("").await?;
        Ok(())
    }

    async fn delete_record(&self, name: &LockName) -> Verdict {
        let record = self.must_have(name).await?;
        self.truth.delete(record.key).await?;
        Ok(())
    }

    async fn overwrite_record(&self, name: &LockName) -> Verdict {
        let record = self.must_have(name).await?;
        let value = format!("held 7 1 0 {}", Owner::random());
        Ok(self.truth.put(record.key, value, 0).await?)
    }

    async fn record(&self, name: &LockName) -> Result<Option<Record>, Failure> {
        Ok(self.first(name).await?.map(|first| {
            // The server tells whole seconds, and less is gone than the one that it leaves out.
            let remaining = first.remaining.map(|left| left + Duration::from_secs(1));
            Record { remaining, token: first.token() }
        }))
    }

    async fn leftovers(&self, name: &LockName) -> Result<Vec<String>, Failure> {
        let claims = self.truth.claims(&self.keys, name).await?;
        // What follows the last slash is whose it is.
        let of_whom = |key: &str| key.rfind('/').map_or(key.len(), |slash| slash);
        let mut left: Vec<_> =
            claims.iter().map(|claim| claim.key[..of_whom(&claim.key)].to_owned()).collect();
        if self.place.is_own() {
            // Where other checks run, it is one of theirs that has no key yet.
            let leases = self.truth.leases().await?;
            let bare = leases.iter().filter(|lease| lease.keys.is_empty());
            left.extend(bare.map(|lease| format!("a lease without a key: {lease:?}")));
        }
        Ok(left)
    }

    async fn connections(&self) -> Result<usize, Failure> {
        Ok(self.truth.connections()?)
    }

    async fn connect_by_link(&self) -> Result<Arc<dyn Backend>, Failure> {
        let addresses: Vec<_> = self.proxies().await?.iter().map(Proxy::addr).collect();
        Ok(super::connect(&addresses, PREFIX).await?)
    }

    async fn link(&self, link: Link) -> Verdict {
        use Direction::{ToClient, ToServer};
        for proxy in self.proxies().await? {
            match link {
                Link::Healthy => {
                    proxy.heal();
                    proxy.accept().await?;
                }
                Link::Refused => {
                    proxy.refuse().await;
                    proxy.reset();
                }
                Link::Blackholed => {
                    proxy.set(ToServer, Action::Silence);
                    proxy.set(ToClient, Action::Silence);
                }
                Link::AnswersLost => proxy.set(ToClient, Action::Silence),
                Link::AnswersHeld => proxy.set(ToClient, Action::Hold),
                Link::RequestsHeld => proxy.set(ToServer, Action::Hold),
                Link::CutAtRequest(after) => {
                    proxy.on(ToServer, Match::answers().skip(after), Action::Cut);
                }
                Link::CutAtAnswer(after) => {
                    proxy.on(ToClient, Match::answers().skip(after), Action::Cut);
                }
                other => {
                    // A stream's number is used once.
                    let why = format!("over HTTP/2 the proxy has no state {other:?}");
                    return Err(Failure::not_applicable(why));
                }
            }
        }
        Ok(())
    }
}
