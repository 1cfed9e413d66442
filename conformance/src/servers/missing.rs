//! A server that is not there.

use std::fmt;

/// A kind of server that the harness can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A Redis server.
    Redis,
    /// An etcd server, or a member of a cluster.
    Etcd,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "redis",
            Self::Etcd => "etcd",
        })
    }
}

/// No server of a kind can be had on this machine.
///
/// Passed on by `?` it becomes a [`Failure`](crate::Failure) that shows the test as ignored, by
/// name, or fails it where `LEASEHOLD_REQUIRE` lists the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The kind that was asked for.
    pub kind: Kind,
    /// What was tried, and why each way failed.
    pub why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} server: {}", self.kind, self.why)
    }
}

impl std::error::Error for Missing {}
