//! A server that a test has, whatever runs it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

#[cfg(feature = "etcd")]
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

use super::error::Error;
use super::host::Host;
use super::launch::bring_up;
use super::missing::Kind;
use super::recipe::Recipe;
use super::tls::Tls;
use super::way::Way;
use crate::ports::Port;

/// A running server, or one that runs again after [`start`](Self::start).
///
/// It is gone, with its data, when this is dropped; the drop waits for that, some milliseconds for
/// a process and up to a second for a container. Every method can be called from any runtime and
/// at any time; each waits for the one before.
#[must_use = "the server ends when this is dropped"]
pub struct Server {
    way: Way,
    address: SocketAddr,
    url: String,
    tls: Option<Tls>,
    host: Mutex<Host>,
    // After the host: the ports are free again when the server is gone. A recipe may hold some too.
    recipe: Arc<dyn Recipe>,
    _ports: Vec<Port>,
}

impl Server {
    /// Puts together what runs and serves.
    pub(super) fn assemble(
        recipe: Arc<dyn Recipe>,
        host: Host,
        address: SocketAddr,
        url: Option<String>,
        ports: Vec<Port>,
    ) -> Self {
        let url = url.unwrap_or_else(|| recipe.url(address));
        let tls = match (recipe.certificates(), host.directory(), ports.get(1)) {
            (Some(certificates), Some(directory), Some(port)) => {
                Some(certificates.reach(port.number(), &url, directory))
            }
            _ => None,
        };
        let way = host.way();
        Self { way, address, url, tls, host: Mutex::new(host), recipe, _ports: ports }
    }

    /// What kind of server it is.
    pub fn kind(&self) -> Kind {
        self.recipe.kind()
    }

    /// In which way it was started.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Its address, the same over all restarts.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Its port, the same over all restarts.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its address as another server of the harness by the same way finds it, for a replica.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] by [`Way::Url`]; [`Error::Failed`] if the engine does not tell.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn peer_addr(&self) -> Result<SocketAddr, Error> {
        let host = self.host("say where other servers find it").await?;
        let address = host.peer_address(self.address).await;
        address.ok_or_else(|| self.failed("its address for other servers is not known".into()))
    }

    /// Its URL, with the password if one was set.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How to reach it over TLS, if it was started so.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Ends it with SIGTERM and waits until it is gone. Its data are kept as it keeps them itself.
    ///
    /// A paused server is resumed first. Nothing happens to one that is down.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] by [`Way::Url`]; [`Error::Failed`] if it is not gone after 10 s.
    ///
    /// # Cancel safety
    ///
    /// The server may be going down; call again to be certain.
    pub async fn stop(&self) -> Result<(), Error> {
        let mut host = self.host("stop").await?;
        host.stop().await.map_err(|why| self.failed(why))
    }

    /// Ends it with SIGKILL and waits until it is gone. Its data are what had reached the disk.
    ///
    /// Nothing happens to one that is down.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    ///
    /// # Cancel safety
    ///
    /// As [`stop`](Self::stop).
    pub async fn kill(&self) -> Result<(), Error> {
        let mut host = self.host("end by SIGKILL").await?;
        host.kill().await.map_err(|why| self.failed(why))
    }

    /// Stops it where it stands, by SIGSTOP or the engine's freezer: connections stay open, the
    /// kernel goes on to accept new ones, and nothing is answered.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] by [`Way::Url`]; [`Error::Failed`] if the engine refuses.
    ///
    /// # Cancel safety
    ///
    /// The server may be paused or not; call again, or [`resume`](Self::resume) it.
    pub async fn pause(&self) -> Result<(), Error> {
        let mut host = self.host("pause").await?;
        host.pause().await.map_err(|why| self.failed(why))
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    ///
    /// As [`pause`](Self::pause).
    pub async fn resume(&self) -> Result<(), Error> {
        let mut host = self.host("resume").await?;
        host.resume().await.map_err(|why| self.failed(why))
    }

    /// Starts it again after [`stop`](Self::stop) or [`kill`](Self::kill), on the data that were
    /// kept, and waits until it serves. Nothing happens to one that runs.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] by [`Way::Url`]; [`Error::Failed`] if it ended at once or does not
    /// serve within 30 s.
    ///
    /// # Cancel safety
    ///
    /// The server may be down or starting; call again.
    pub async fn start(&self) -> Result<(), Error> {
        let mut host = self.host("start").await?;
        self.bring_up(&mut host).await.map_err(|why| self.failed(why))
    }

    /// [`stop`](Self::stop) and [`start`](Self::start): down and up again with its data.
    ///
    /// # Errors
    ///
    /// As those two.
    ///
    /// # Cancel safety
    ///
    /// The server may be down; call [`start`](Self::start).
    pub async fn restart(&self) -> Result<(), Error> {
        let mut host = self.host("restart").await?;
        host.stop().await.map_err(|why| self.failed(why))?;
        self.bring_up(&mut host).await.map_err(|why| self.failed(why))
    }

    /// Ends it, removes its data, and starts it again on the same port: a server that knows nothing
    /// of what was.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    ///
    /// The server may be down, with its data or without.
    pub async fn restart_empty(&self) -> Result<(), Error> {
        let mut host = self.host("restart without its data").await?;
        host.kill().await.map_err(|why| self.failed(why))?;
        host.replace(None).await.map_err(|why| self.failed(why))?;
        self.bring_up(&mut host).await.map_err(|why| self.failed(why))
    }

    /// What a tool that makes data for it must be told; see [`Recipe::identity`].
    #[cfg(feature = "etcd")]
    pub(super) fn identity(&self) -> Vec<String> {
        self.recipe.identity()
    }

    /// Ends it and puts what this directory holds, or nothing, in the place of its data.
    #[cfg(feature = "etcd")]
    pub(super) async fn replace_data(&self, data: Option<TempDir>) -> Result<(), Error> {
        let mut host = self.host("replace its data").await?;
        host.kill().await.map_err(|why| self.failed(why))?;
        host.replace(data.map(Arc::new)).await.map_err(|why| self.failed(why))
    }

    /// Whether it runs; a paused server does.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn is_running(&self) -> bool {
        self.host.lock().await.running().await
    }

    /// What it printed, as far as the harness has it: nothing by [`Way::Url`].
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn log(&self) -> String {
        self.host.lock().await.log().await
    }

    async fn host(&self, operation: &'static str) -> Result<MutexGuard<'_, Host>, Error> {
        let host = self.host.lock().await;
        if host.commands() {
            return Ok(host);
        }
        Err(Error::Unsupported { kind: self.kind(), way: self.way, operation })
    }

    fn failed(&self, why: String) -> Error {
        Error::failed(self.kind(), why)
    }

    async fn bring_up(&self, host: &mut Host) -> Result<(), String> {
        bring_up(self.recipe.as_ref(), host, self.address).await
    }
}

impl fmt::Debug for Server {
    // Without the URL: one from the environment may hold a password that is not ours to show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("kind", &self.kind())
            .field("way", &self.way)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
