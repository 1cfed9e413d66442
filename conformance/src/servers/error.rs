//! Why a server could not be had or moved.

use super::missing::{Kind, Missing};
use super::way::Way;

/// Why an operation on a server failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such server on this machine; see [`Missing`].
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The server was started in a way that cannot do this.
    #[error("a {kind} server by {way} cannot be told to {operation}")]
    Unsupported {
        /// The kind of server.
        kind: Kind,
        /// How it was started.
        way: Way,
        /// What was asked.
        operation: &'static str,
    },
    /// The server is there, but it did not do what it was told.
    #[error("{kind} server: {why}")]
    Failed {
        /// The kind of server.
        kind: Kind,
        /// What happened; with the last lines the server printed, where they explain it.
        why: String,
    },
}

impl Error {
    pub(super) fn missing(kind: Kind, why: impl Into<String>) -> Self {
        Self::Missing(Missing { kind, why: why.into() })
    }

    pub(super) fn failed(kind: Kind, why: impl Into<String>) -> Self {
        Self::Failed { kind, why: why.into() }
    }
}
