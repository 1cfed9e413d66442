//! What a server says, and what that means: a row a message, or a status code.

use leasehold_api::ErrorKind::{self, Auth, Busy, NotPrimary, Refused, Unclassified, Unsupported};
use tonic::{Code, Status};

/// What may have become of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It had no effect.
    Refused(ErrorKind),
    /// Nobody knows.
    Unknown,
}

/// What a server says, by how its message begins (etcd 3.4 to 3.6; a longer one stands before the
/// one that begins it), and what may have become of the request.
pub(crate) const SAID: &[(&str, Fate, &str, &str)] = &[
    (
        "etcdserver: mvcc: database space exceeded",
        Fate::Refused(Refused),
        "NOSPACE",
        "the cluster's storage quota is used up",
    ),
    (
        "etcdserver: no space",
        Fate::Refused(Refused),
        "NOSPACE",
        "the cluster's storage quota is used up",
    ),
    (
        "etcdserver: corrupt cluster",
        Fate::Refused(Refused),
        "CORRUPT",
        "the cluster has raised the alarm that its data differ",
    ),
    (
        "etcdserver: request is too large",
        Fate::Refused(Refused),
        "TOO_LARGE",
        "the request is larger than the cluster takes",
    ),
    (
        "etcdserver: too many operations in txn request",
        Fate::Refused(Refused),
        "TOO_MANY_OPS",
        "the cluster takes fewer operations in a transaction",
    ),
    (
        "etcdserver: too large lease TTL",
        Fate::Refused(Refused),
        "TTL",
        "the TTL is longer than the cluster takes",
    ),
    (
        "etcdserver: requested lease not found",
        Fate::Refused(Refused),
        "LEASE_NOT_FOUND",
        "the lease that carries the lock is gone",
    ),
    (
        "etcdserver: lease already exists",
        Fate::Refused(Refused),
        "LEASE_EXISTS",
        "the lease exists already",
    ),
    (
        "etcdserver: mvcc: required revision has been compacted",
        Fate::Refused(Refused),
        "COMPACTED",
        "what was asked for has been compacted",
    ),
    (
        "etcdserver: mvcc: required revision is a future revision",
        Fate::Refused(Refused),
        "FUTURE",
        "the cluster is at an older revision than it was",
    ),
    (
        "etcdserver: permission denied",
        Fate::Refused(Auth),
        "PERMISSION_DENIED",
        "the user lacks a permission that leasehold needs",
    ),
    (
        "etcdserver: authentication failed",
        Fate::Refused(Auth),
        "AUTH_FAILED",
        "the cluster refuses the user or the password",
    ),
    (
        "etcdserver: user name is empty",
        Fate::Refused(Auth),
        "NO_USER",
        "the cluster wants a user and a password",
    ),
    (
        "etcdserver: invalid auth token",
        Fate::Refused(Auth),
        "AUTH_TOKEN",
        "the cluster refuses the session's token",
    ),
    (
        "etcdserver: revision of auth store is old",
        Fate::Refused(Auth),
        "AUTH_OLD",
        "the cluster's users were changed meanwhile",
    ),
    (
        "etcdserver: authentication is not enabled",
        Fate::Refused(Auth),
        "NO_AUTH",
        "the cluster knows no users",
    ),
    (
        "etcdserver: root user does not exist",
        Fate::Refused(Auth),
        "NO_ROOT",
        "the cluster has no root user",
    ),
    (
        "etcdserver: too many requests",
        Fate::Refused(Busy),
        "TOO_MANY_REQUESTS",
        "the cluster has too many requests to do",
    ),
    (
        "etcdserver: no leader",
        Fate::Refused(Busy),
        "NO_LEADER",
        "the member has no leader just now",
    ),
    (
        "etcdserver: not leader",
        Fate::Refused(Busy),
        "NOT_LEADER",
        "the member is not the leader any more",
    ),
    (
        "etcdserver: unhealthy cluster",
        Fate::Refused(Busy),
        "UNHEALTHY",
        "the cluster is not healthy",
    ),
    (
        "etcdserver: not capable",
        Fate::Refused(Unsupported),
        "NOT_CAPABLE",
        "the cluster is too old for this",
    ),
    (
        "etcdserver: rpc not supported for learner",
        Fate::Refused(NotPrimary),
        "LEARNER",
        "the member is a learner",
    ),
    (
        "etcdserver: request timed out",
        Fate::Unknown,
        "TIMED_OUT",
        "the cluster did not come to an answer in time",
    ),
    ("etcdserver: leader changed", Fate::Unknown, "LEADER_CHANGED", "the leader changed meanwhile"),
    ("etcdserver: server stopped", Fate::Unknown, "STOPPED", "the member was stopped meanwhile"),
    (
        "etcdserver: request cancelled",
        Fate::Unknown,
        "CANCELLED",
        "the request was cancelled meanwhile",
    ),
];

/// What a server says without a message that we know.
fn by_code(code: Code) -> (Fate, &'static str, &'static str) {
    match code {
        Code::Unavailable => (Fate::Unknown, "UNAVAILABLE", "the member is not available"),
        Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => {
            (Fate::Unknown, "TIMED_OUT", "the cluster did not come to an answer in time")
        }
        Code::ResourceExhausted => {
            (Fate::Refused(Busy), "EXHAUSTED", "the cluster has too much to do")
        }
        Code::PermissionDenied | Code::Unauthenticated => {
            (Fate::Refused(Auth), "AUTH", "the cluster refuses the user")
        }
        Code::Unimplemented => {
            (Fate::Refused(Unsupported), "UNIMPLEMENTED", "the server doesn't speak this protocol")
        }
        _ => (
            Fate::Refused(Unclassified),
            "UNKNOWN",
            "the server answered an error that this driver doesn't know",
        ),
    }
}

/// What a status means: what may have become of the request, a code, and words.
pub(crate) fn meaning(status: &Status) -> (Fate, &'static str, &'static str) {
    let known = SAID.iter().find(|(begins, ..)| status.message().starts_with(begins));
    match known {
        Some((_, fate, code, message)) => (*fate, code, message),
        None => by_code(status.code()),
    }
}
