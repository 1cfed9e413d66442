//! etcd, one server or a cluster of several.

mod cluster;
mod member;
mod peers;
mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use self::member::Member;
use self::peers::Peers;
use super::error::Error;
use super::missing::Kind;
use super::server::Server;
#[cfg(feature = "tls")]
use super::tls::Certificates;
use super::way::Way;
use settings::Settings;

pub use self::cluster::EtcdCluster;
pub use self::snapshot::Snapshot;

mod settings;

/// How an etcd server, or each member of a cluster, is to be started.
///
/// As it comes, it keeps its data over [`Server::stop`] and [`Server::kill`]; it needs no password;
/// everything else is as etcd has it, so that it makes a lease of 1 s one of 2 s. In a container it
/// shares the machine's network.
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until `start` or `cluster`"]
pub struct Etcd(Settings);

impl Etcd {
    /// A server with the settings above.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an option, like `--max-txn-ops` and `64`.
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.arguments.extend([name.into(), value.into()]);
        self
    }

    /// Beyond this many bytes it takes no more writes (NOSPACE). Not below 128 KiB or so: an empty
    /// server has that.
    pub fn quota(self, bytes: u64) -> Self {
        self.arg("--quota-backend-bytes", bytes.to_string())
    }

    /// The leader's heartbeat, and how long a member waits for one; the latter is at least five
    /// times the former. Without it 100 ms and 1 s. The shortest lease is 1.5 times the latter, in
    /// whole seconds.
    pub fn ticks(self, heartbeat: Duration, election: Duration) -> Self {
        self.arg("--heartbeat-interval", heartbeat.as_millis().to_string())
            .arg("--election-timeout", election.as_millis().to_string())
    }

    /// The user root needs this password, and so everybody needs a user. It is part of
    /// [`Server::url`].
    pub fn root_password(mut self, password: impl Into<String>) -> Self {
        self.0.password = Some(password.into());
        self
    }

    /// A token of an authenticated user ends when it was not used for this long, in whole seconds.
    pub fn token_ttl(self, ttl: Duration) -> Self {
        self.arg("--auth-token-ttl", ttl.as_secs().to_string())
    }

    /// Tokens are signed (JWT), and end this long after they were made whether they are used or
    /// not, in whole seconds.
    pub fn signed_tokens(mut self, ttl: Duration) -> Self {
        self.0.signed_tokens = Some(ttl);
        self
    }

    /// Serves TLS too, on a second port, with a certificate made for it; see [`Server::tls`].
    #[cfg(feature = "tls")]
    pub fn tls(mut self) -> Self {
        self.0.certificates = Some(Certificates::generate());
        self
    }

    /// Serves TLS to those alone who show a certificate of the authority [`Tls::ca_pem`]
    /// (the server's own will do); without TLS it serves all.
    ///
    /// [`Tls::ca_pem`]: super::Tls::ca_pem
    #[cfg(feature = "tls")]
    pub fn tls_with_certificates(mut self) -> Self {
        self.0.wants_certificates = true;
        self.tls()
    }

    /// Says that the test is going to stop, kill, pause or empty the server, so that one which
    /// cannot be is missing from the start.
    pub fn controlled(mut self) -> Self {
        self.0.controlled = true;
        self
    }

    /// What the members of a cluster say to each other goes through proxies:
    /// [`EtcdCluster::isolate`] and [`EtcdCluster::link`] need it.
    pub fn separable(mut self) -> Self {
        self.0.separable = true;
        self
    }

    /// Starts a server of this test alone in the first way that works, and waits until it serves.
    ///
    /// By [`Way::Url`] it is the server that runs, with whatever is in it.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] where no way works; [`Error::Failed`] if the server ended at once (an
    /// option it refuses) or did not serve within 30 s.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no server behind.
    pub async fn start(&self) -> Result<Server, Error> {
        self.launch(None).await
    }

    /// As [`start`](Self::start), in this way and no other.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start). `LEASEHOLD_SERVERS` is not read.
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Self::start).
    pub async fn start_by(&self, way: Way) -> Result<Server, Error> {
        self.launch(Some(way)).await
    }

    /// Starts a cluster of this many members in the first way that works, and waits until all serve.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start). By [`Way::Url`] there is none.
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Self::start).
    pub async fn cluster(&self, members: usize) -> Result<EtcdCluster, Error> {
        EtcdCluster::launch(&self.0, members, None).await
    }

    /// As [`cluster`](Self::cluster), in this way and no other.
    ///
    /// # Errors
    ///
    /// As [`cluster`](Self::cluster). `LEASEHOLD_SERVERS` is not read.
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Self::start).
    pub async fn cluster_by(&self, members: usize, way: Way) -> Result<EtcdCluster, Error> {
        EtcdCluster::launch(&self.0, members, Some(way)).await
    }

    /// One server for the whole test binary, started by the first test that asks.
    ///
    /// Tests that use it keep to key prefixes of their own and neither stop nor empty it.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); every later call repeats the first call's error.
    ///
    /// # Cancel safety
    ///
    /// The next caller starts again.
    pub async fn shared() -> Result<&'static Server, Error> {
        static SHARED: OnceCell<Result<Server, Error>> = OnceCell::const_new();
        let started = SHARED.get_or_init(async || Self::new().start().await).await;
        started.as_ref().map_err(Clone::clone)
    }

    /// One cluster of three for the whole test binary, like [`shared`](Self::shared).
    ///
    /// # Errors
    ///
    /// As [`shared`](Self::shared).
    ///
    /// # Cancel safety
    ///
    /// The next caller starts again.
    pub async fn shared_cluster() -> Result<&'static EtcdCluster, Error> {
        static SHARED: OnceCell<Result<EtcdCluster, Error>> = OnceCell::const_new();
        let started = SHARED.get_or_init(async || Self::new().cluster(3).await).await;
        started.as_ref().map_err(Clone::clone)
    }

    async fn launch(&self, way: Option<Way>) -> Result<Server, Error> {
        let peers = Peers::new(1, false).await;
        let peers = peers.map_err(|error| Error::failed(Kind::Etcd, error.to_string()))?;
        Server::launch(Arc::new(Member::new(self.0.clone(), 0, Arc::new(peers))), way).await
    }
}
