//! One member of a cluster, or all there is of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use url::Url;

use super::peers::Peers;
use super::settings::Settings;
use crate::gateway::{Credentials, EtcdError, Gateway, id};
use crate::servers::missing::Kind;
use crate::servers::recipe::{Place, Recipe};
use crate::servers::tls::{self, Certificates};

/// How long one question may take.
const ANSWER: Duration = Duration::from_secs(1);

/// How long it may take to turn authentication on.
const SETTLE: Duration = Duration::from_secs(10);

/// The file with the key of signed tokens, and what is in it.
const SECRET: (&str, &str) = ("token.key", "a key that only tests have");

/// The user who may do everything.
const ROOT: &str = "root";

/// A member as it is started.
#[derive(Clone, Debug)]
pub(super) struct Member {
    settings: Settings,
    index: usize,
    peers: Arc<Peers>,
}

impl Member {
    pub(super) fn new(settings: Settings, index: usize, peers: Arc<Peers>) -> Self {
        Self { settings, index, peers }
    }

    /// Where its files are, in the directory for its data.
    pub(super) fn data(directory: &Path) -> PathBuf {
        directory.join("etcd")
    }

    pub(super) fn gateway(&self, address: SocketAddr) -> Gateway {
        let credentials = self.settings.password.clone();
        let credentials =
            credentials.map(|password| Credentials { user: ROOT.to_owned(), password });
        Gateway::new(address, credentials)
    }
    /// Turns authentication on, unless it is.
    async fn authenticate(&self, address: SocketAddr, password: &str) -> Result<(), EtcdError> {
        let gateway = Gateway::new(address, None);
        let ask = json!({"name": ROOT, "password": password});
        match gateway.call("/v3/auth/authenticate", &ask, SETTLE).await {
            Err(EtcdError::Refused { message, .. }) if message.contains("not enabled") => (),
            answer => return answer.map(drop),
        }
        let steps = [
            ("/v3/auth/user/add", ask),
            ("/v3/auth/role/add", json!({"name": ROOT})),
            ("/v3/auth/user/grant", json!({"user": ROOT, "role": ROOT})),
            ("/v3/auth/enable", json!({})),
        ];
        for (path, body) in steps {
            match gateway.call(path, &body, SETTLE).await {
                // An earlier start came this far.
                Err(EtcdError::Refused { message, .. }) if message.contains("already exists") => (),
                answer => drop(answer?),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Recipe for Member {
    fn kind(&self) -> Kind {
        Kind::Etcd
    }

    fn program(&self) -> &'static str {
        "etcd"
    }

    fn ports(&self) -> Vec<u16> {
        match self.settings.certificates {
            None => vec![2379],
            Some(_) => vec![2379, 2378],
        }
    }

    fn arguments(&self, place: &Place) -> Vec<String> {
        let mut all = self.identity();
        let mut set = |name: &str, value: &str| all.extend([name.to_owned(), value.to_owned()]);
        let file = |name: &str| format!("{}/{name}", place.files);
        let bind = place.bind;
        let mut clients = format!("http://{bind}:{}", place.ports[0]);
        if self.settings.certificates.is_some() {
            clients.push_str(&format!(",https://{bind}:{}", place.ports[1]));
            set("--cert-file", &file(tls::CERTIFICATE));
            set("--key-file", &file(tls::KEY));
            if self.settings.wants_certificates {
                set("--trusted-ca-file", &file(tls::CA));
            }
        }
        set("--listen-client-urls", &clients);
        set("--advertise-client-urls", &clients);
        set("--listen-peer-urls", &format!("http://{bind}:{}", self.peers.port(self.index)));
        set("--data-dir", &Self::data(Path::new(&place.data)).display().to_string());
        // 3.4 would write to the journal and in another form.
        set("--logger", "zap");
        set("--log-outputs", "stderr");
        set("--log-level", "error");
        if self.settings.password.is_some() {
            // The weakest hash: it is computed at each authentication.
            set("--bcrypt-cost", "4");
        }
        if let Some(ttl) = self.settings.signed_tokens {
            let key = file(SECRET.0);
            let ttl = ttl.as_secs();
            set("--auth-token", &format!("jwt,sign-method=HS256,priv-key={key},ttl={ttl}s"));
        }
        if self.settings.wants_certificates {
            // A flag takes no word of its own.
            all.push("--client-cert-auth".to_owned());
        }
        all.extend(self.settings.arguments.iter().cloned());
        all
    }

    fn identity(&self) -> Vec<String> {
        let all = (0..self.peers.count())
            .map(|index| format!("{}=http://{}", name(index), self.peers.address(index)));
        let own = format!("http://{}", self.peers.address(self.index));
        [
            ("--name", name(self.index)),
            ("--initial-advertise-peer-urls", own),
            ("--initial-cluster", all.collect::<Vec<_>>().join(",")),
            ("--initial-cluster-token", self.peers.token().to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }

    fn for_older(&self, _: &str) -> Option<Arc<dyn Recipe>> {
        None
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.peers.environment(self.index)
    }

    #[cfg(feature = "containers")]
    fn on_the_machines_network(&self) -> bool {
        // The members find each other by addresses that are known before they start.
        true
    }

    fn certificates(&self) -> Option<&Certificates> {
        self.settings.certificates.as_ref()
    }

    fn files(&self) -> Vec<(&'static str, &str)> {
        let mut all = Vec::new();
        if let Some(certificates) = &self.settings.certificates {
            all.extend(certificates.files());
        }
        if self.settings.signed_tokens.is_some() {
            all.push(SECRET);
        }
        all
    }

    #[cfg(feature = "containers")]
    fn images(&self) -> (&'static str, &'static [&'static str]) {
        ("LEASEHOLD_ETCD_IMAGE", &["quay.io/coreos/etcd:v3.5.21", "leasehold-etcd:local"])
    }

    fn url_variable(&self) -> &'static str {
        "LEASEHOLD_ETCD_URL"
    }

    fn needs_its_own(&self) -> Option<&'static str> {
        if self.peers.count() > 1 {
            Some("the test wants a cluster of its own")
        } else if self.settings.controlled {
            Some("the test stops, pauses or empties its server")
        } else if self.settings.certificates.is_some() {
            Some("the test wants TLS with a certificate of its own")
        } else if self.settings.password.is_some()
            || self.settings.signed_tokens.is_some()
            || !self.settings.arguments.is_empty()
        {
            Some("the test wants settings of its own")
        } else {
            None
        }
    }

    fn url(&self, address: SocketAddr) -> String {
        url(&[address], self.settings.password.as_deref())
    }

    async fn probe(&self, address: SocketAddr) -> Result<(), String> {
        // Any member that runs answers this, whoever asks; without a leader it serves nothing.
        let status =
            self.gateway(address).status(ANSWER).await.map_err(|error| error.to_string())?;
        match status.leader {
            0 => Err("it has no leader".into()),
            _ => Ok(()),
        }
    }

    async fn settle(&self, address: SocketAddr) -> Result<(), String> {
        match &self.settings.password {
            // One of a cluster is enough.
            Some(password) if self.index == 0 => {
                self.authenticate(address, password).await.map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }
}

/// What a member says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status {
    pub(super) member: u64,
    pub(super) leader: u64,
    pub(super) term: u64,
}

impl Gateway {
    pub(super) async fn status(&self, limit: Duration) -> Result<Status, EtcdError> {
        // Of all calls, this one needs no user.
        let answer: Value = self.call("/v3/maintenance/status", &json!({}), limit).await?;
        let member = id(&answer["header"]["member_id"]);
        Ok(Status { member, leader: id(&answer["leader"]), term: id(&answer["raftTerm"]) })
    }
}

fn name(index: usize) -> String {
    format!("member-{index}")
}

/// The URL of these servers, as the driver wants it.
pub(super) fn url(addresses: &[SocketAddr], password: Option<&str>) -> String {
    let mut url = Url::parse("etcd://host").expect("it is one");
    if let Some(password) = password {
        url.set_username(ROOT).expect("the URL has a host");
        url.set_password(Some(password)).expect("the URL has a host");
    }
    // Several hosts are more than the type can hold.
    let hosts: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    let (before, after) = url.as_str().rsplit_once("host").expect("it ends so");
    format!("{before}{}{after}", hosts.join(","))
}
