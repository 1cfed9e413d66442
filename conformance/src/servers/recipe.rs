//! What the harness must know of a kind of server to start one in any way.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;

use super::missing::Kind;
use super::tls::Certificates;

/// A kind of server as configured by a test: how to start it, and when it is ready.
#[async_trait]
pub(super) trait Recipe: Debug + Send + Sync {
    /// Its kind.
    fn kind(&self) -> Kind;

    /// The binary to look for in `PATH`, and the first word of a container's command.
    fn program(&self) -> &'static str;

    /// The ports it listens on inside a container, the main one first. By other ways it gets as
    /// many free ones.
    fn ports(&self) -> Vec<u16>;

    /// Everything on its command line after the program.
    fn arguments(&self, place: &Place) -> Vec<String>;

    /// The options among those that say who it is and who the others are: a tool that makes data for
    /// it needs the same.
    #[cfg(feature = "etcd")]
    fn identity(&self) -> Vec<String> {
        Vec::new()
    }

    /// This recipe without what a server refused that has just printed `why`, if an older version
    /// is known to refuse it and does without.
    fn for_older(&self, why: &str) -> Option<Arc<dyn Recipe>>;

    /// What it must find in its environment.
    fn environment(&self) -> Vec<(String, String)>;

    /// Why a container will not do, if so.
    #[cfg(feature = "containers")]
    fn needs_a_process(&self) -> Option<&'static str> {
        None
    }

    /// Whether its container must share the machine's network: it listens on the same ports then
    /// by every way, and reaches other servers on loopback.
    #[cfg(feature = "containers")]
    fn on_the_machines_network(&self) -> bool {
        false
    }

    /// What it needs to serve TLS, if it does.
    fn certificates(&self) -> Option<&Certificates>;

    /// The names and contents of the files that it must find in [`Place::files`].
    fn files(&self) -> Vec<(&'static str, &str)> {
        self.certificates().map(|all| all.files().to_vec()).unwrap_or_default()
    }

    /// The variable that names an image, and the images to use where it is not set, best first.
    #[cfg(feature = "containers")]
    fn images(&self) -> (&'static str, &'static [&'static str]);

    /// The variable that names a running server.
    fn url_variable(&self) -> &'static str;

    /// Why a server that runs already will not do, if so.
    fn needs_its_own(&self) -> Option<&'static str>;

    /// The URL of the server at this address, as a client wants it.
    fn url(&self, address: SocketAddr) -> String;

    /// Asks the server whether it serves. It is called again until it says so.
    ///
    /// # Errors
    ///
    /// With words for the user while it does not.
    async fn probe(&self, address: SocketAddr) -> Result<(), String>;

    /// What is left to do once it serves, on new data and on old.
    ///
    /// # Errors
    ///
    /// With words for the user.
    async fn settle(&self, address: SocketAddr) -> Result<(), String> {
        let _ = address;
        Ok(())
    }
}

/// Where one server runs, as it sees itself.
#[derive(Debug)]
pub(super) struct Place {
    /// The address to listen on.
    pub(super) bind: &'static str,
    /// The ports to listen on, in the order of [`Recipe::ports`].
    pub(super) ports: Vec<u16>,
    /// The directory for its data.
    pub(super) data: String,
    /// The directory that holds its [files](Recipe::files).
    pub(super) files: String,
}
