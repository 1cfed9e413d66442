//! The three ways behind one set of verbs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

#[cfg(feature = "containers")]
use super::container::Container;
use super::process::Process;
use super::way::Way;

/// What runs a server. Errors are words for the user.
#[derive(Debug)]
pub(super) enum Host {
    #[cfg(feature = "containers")]
    Container(Container),
    Process(Process),
    /// Somebody else.
    Url,
}

/// One expression a way; the last is for a server that somebody else runs, which takes no commands
/// ([`Host::commands`] is asked before).
macro_rules! each {
    ($host:expr, $inner:ident => $container:expr, $process:expr, $url:expr) => {
        match $host {
            #[cfg(feature = "containers")]
            Self::Container($inner) => $container,
            Self::Process($inner) => $process,
            Self::Url => $url,
        }
    };
}

impl Host {
    pub(super) fn way(&self) -> Way {
        each!(self, _inner => Way::Container, Way::Process, Way::Url)
    }

    /// Whether it takes commands at all.
    pub(super) fn commands(&self) -> bool {
        self.way() != Way::Url
    }

    /// Where its certificates are, on this machine.
    pub(super) fn directory(&self) -> Option<&Path> {
        each!(self, inner => inner.directory(), Some(inner.directory()), None)
    }

    /// Where its main port is for other servers of the same way; `None` if nobody knows.
    pub(super) async fn peer_address(&self, outside: SocketAddr) -> Option<SocketAddr> {
        match self {
            #[cfg(feature = "containers")]
            Self::Container(inner) => inner.peer_address(outside).await,
            Self::Process(_) => Some(outside),
            Self::Url => None,
        }
    }

    pub(super) async fn start(&mut self) -> Result<(), String> {
        each!(self, inner => inner.start().await, inner.start().await, Ok(()))
    }

    pub(super) async fn stop(&mut self) -> Result<(), String> {
        each!(self, inner => inner.stop().await, inner.stop().await, Ok(()))
    }

    pub(super) async fn kill(&mut self) -> Result<(), String> {
        each!(self, inner => inner.kill().await, inner.kill().await, Ok(()))
    }

    pub(super) async fn pause(&mut self) -> Result<(), String> {
        each!(self, inner => inner.pause().await, inner.pause(), Ok(()))
    }

    pub(super) async fn resume(&mut self) -> Result<(), String> {
        each!(self, inner => inner.resume().await, inner.resume(), Ok(()))
    }

    /// Replaces its data by what this directory holds, or by nothing. Only while it does not run.
    pub(super) async fn replace(&mut self, data: Option<Arc<TempDir>>) -> Result<(), String> {
        each!(self, inner => inner.replace(data).await, inner.replace(data.as_deref()), Ok(()))
    }

    pub(super) async fn running(&self) -> bool {
        each!(self, inner => inner.running().await, inner.running(), true)
    }

    pub(super) async fn log(&self) -> String {
        each!(self, inner => inner.log().await, inner.log(), String::new())
    }
}
