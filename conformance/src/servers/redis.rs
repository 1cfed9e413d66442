//! Redis, one server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use url::Url;

use super::clock::WallClock;
use super::error::Error;
use super::missing::Kind;
use super::recipe::{Place, Recipe};
use super::server::Server;
use super::tls::{self, Certificates};
use super::way::Way;

/// How a Redis server is to be started.
///
/// As it comes, it keeps its data over [`Server::stop`] (it writes a snapshot on SIGTERM) and loses
/// what is newer than that by [`Server::kill`]; it needs no password; `DEBUG` commands are allowed.
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until `start`"]
pub struct Redis {
    arguments: Vec<String>,
    password: Option<String>,
    certificates: Option<Certificates>,
    controlled: bool,
    environment: Vec<(String, String)>,
    /// It is older than 7.0, which brought the setting that `DEBUG` needs since.
    before_7: bool,
}

const DEBUG: &str = "enable-debug-command";

impl Redis {
    /// A server with the settings above.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a setting of Redis' configuration file as an argument, like `--maxmemory` and `10mb`.
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.extend([name.into(), value.into()]);
        self
    }

    /// The default user needs this password. It is part of [`Server::url`].
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Writes each change to disk before it is answered: data also survive [`Server::kill`].
    pub fn append_only(self) -> Self {
        self.arg("--appendonly", "yes").arg("--appendfsync", "always")
    }

    /// Serves TLS too, on a second port, with a certificate made for this server; see
    /// [`Server::tls`].
    #[cfg(feature = "tls")]
    pub fn tls(mut self) -> Self {
        self.certificates = Some(Certificates::generate());
        self
    }

    /// Says that the test is going to stop, kill, pause or empty the server, so that one which
    /// cannot be is missing from the start.
    pub fn controlled(mut self) -> Self {
        self.controlled = true;
        self
    }

    /// The server's wall clock is this one. Only a child process can have another than the machine.
    pub fn wall_clock(mut self, clock: &WallClock) -> Self {
        let environment = clock.environment().into_iter();
        self.environment =
            environment.map(|(name, path)| (name, path.display().to_string())).collect();
        self
    }

    /// Starts a server of this test alone in the first way that works, and waits until it serves.
    ///
    /// By [`Way::Url`] it is the server that runs, with whatever is in it.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] where no way works; [`Error::Failed`] if the server ended at once (a
    /// setting it refuses) or did not serve within 30 s.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no server behind.
    pub async fn start(&self) -> Result<Server, Error> {
        Server::launch(Arc::new(self.clone()), None).await
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
        Server::launch(Arc::new(self.clone()), Some(way)).await
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
}

#[async_trait]
impl Recipe for Redis {
    fn kind(&self) -> Kind {
        Kind::Redis
    }

    fn program(&self) -> &'static str {
        "redis-server"
    }

    fn ports(&self) -> Vec<u16> {
        match self.certificates {
            None => vec![6379],
            Some(_) => vec![6379, 6380],
        }
    }

    fn arguments(&self, place: &Place) -> Vec<String> {
        let mut all = Vec::new();
        let mut set = |name: &str, value: &str| all.extend([name.to_owned(), value.to_owned()]);
        set("--bind", place.bind);
        set("--port", &place.ports[0].to_string());
        set("--dir", &place.data);
        // A container is reached from the engine's bridge, not from its own loopback.
        set("--protected-mode", "no");
        if !self.before_7 {
            set(&format!("--{DEBUG}"), "yes");
        }
        if let Some(password) = &self.password {
            set("--requirepass", password);
        }
        if self.certificates.is_some() {
            let file = |name: &str| format!("{}/{name}", place.files);
            set("--tls-port", &place.ports[1].to_string());
            set("--tls-ca-cert-file", &file(tls::CA));
            set("--tls-cert-file", &file(tls::CERTIFICATE));
            set("--tls-key-file", &file(tls::KEY));
            set("--tls-auth-clients", "no");
        }
        // A save point makes SIGTERM write a snapshot; this one is never due while a test runs.
        // Of one word "3600 1" 6.2 would make none.
        all.extend(["--save", "3600", "1"].map(str::to_owned));
        all.extend(self.arguments.iter().cloned());
        all
    }

    fn for_older(&self, why: &str) -> Option<Arc<dyn Recipe>> {
        // As 6.2 words it: >>> 'enable-debug-command "yes"' Bad directive or wrong number ...
        let refused = !self.before_7 && why.contains(DEBUG);
        refused.then(|| Arc::new(Self { before_7: true, ..self.clone() }) as Arc<dyn Recipe>)
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.environment.clone()
    }

    #[cfg(feature = "containers")]
    fn needs_a_process(&self) -> Option<&'static str> {
        (!self.environment.is_empty()).then_some("a container has the machine's clock")
    }

    fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    #[cfg(feature = "containers")]
    fn images(&self) -> (&'static str, &'static [&'static str]) {
        ("LEASEHOLD_REDIS_IMAGE", &["redis:7", "leasehold-redis:local"])
    }

    fn url_variable(&self) -> &'static str {
        "LEASEHOLD_REDIS_URL"
    }

    fn needs_its_own(&self) -> Option<&'static str> {
        if self.controlled {
            Some("the test stops, pauses or empties its server")
        } else if self.certificates.is_some() {
            Some("the test wants TLS with a certificate of its own")
        } else if !self.environment.is_empty() {
            Some("the test wants a clock of its own")
        } else if self.password.is_some() || !self.arguments.is_empty() {
            Some("the test wants settings of its own")
        } else {
            None
        }
    }

    fn url(&self, address: SocketAddr) -> String {
        let mut url =
            Url::parse(&format!("redis://{address}")).expect("an address is an authority");
        url.set_password(self.password.as_deref()).expect("the URL has a host");
        url.to_string()
    }

    async fn probe(&self, address: SocketAddr) -> Result<(), String> {
        let ask = async {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(b"PING\r\n").await?;
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        match tokio::time::timeout(Duration::from_secs(1), ask).await {
            // Whatever else it says (a password is needed, say), it serves.
            Ok(Ok(answer)) if answer.ends_with('\n') && !answer.starts_with("-LOADING") => Ok(()),
            Ok(Ok(answer)) => Err(format!("it answers PING with {answer:?}")),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it does not answer PING within 1 s".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DEBUG, Redis};
    use crate::servers::recipe::{Place, Recipe};

    #[test]
    fn a_server_that_does_not_know_a_setting_is_started_without_it() {
        let place = Place {
            bind: "127.0.0.1",
            ports: vec![1, 2],
            data: String::new(),
            files: String::new(),
        };
        let sets = |recipe: &dyn Recipe| recipe.arguments(&place).iter().any(|a| a.contains(DEBUG));
        let redis = Redis::new();
        assert!(sets(&redis));
        assert!(redis.for_older("Address already in use").is_none());
        let why = "it ended at once; it printed: >>> 'enable-debug-command \"yes\"'\n\
                   Bad directive or wrong number of arguments";
        let older = redis.for_older(why).unwrap();
        assert!(!sets(&*older));
        assert!(older.for_older(why).is_none());
    }
}
