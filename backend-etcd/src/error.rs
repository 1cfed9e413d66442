//! The one table from the client library's errors to kinds; `said.rs` has the server's part of it.

use std::fmt;
use std::time::Duration;

use leasehold_api::ErrorKind::{self, Auth, Busy, NotPrimary, Refused, Unclassified, Unreachable};
use leasehold_api::{Error, Operation};
use tonic::Status;

use crate::broken::{self, Broken};
use crate::driver::NAME;
use crate::said::{Fate, meaning};

/// What a member may want that ends a connection without a word.
const MUTE: &str = "a member ended the connection at the first request: it may want TLS (etcds://)";

/// Why a request has no good answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server or the client library said so.
    Said(etcd_client::Error),
    /// A member ended the connection at the first request, without TLS and without a word.
    Mute(etcd_client::Error),
    /// A member refused the TLS handshake, as a second one found out.
    #[cfg(feature = "tls")]
    Tls(std::io::Error),
    /// Nobody said anything for so long.
    Silent(Duration),
    /// The answer was not of the form that we asked for.
    Answer(&'static str),
    /// There is no higher token.
    Exhausted,
    /// A release by owner came while the call was under way.
    GivenUp,
    /// What was compared kept changing under the request.
    Contended,
}

/// What a request does if it lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Changes,
    Reads,
}

impl Failure {
    /// A watch that was refused, of which the server's reason is told and no status.
    pub(crate) fn refused_watch(reason: &str) -> Self {
        etcd_client::Error::GRpcStatus(Status::permission_denied(reason)).into()
    }

    /// Whether the user or the session's token was refused.
    pub(crate) fn is_auth(&self) -> bool {
        self.broken().is_none() && self.kind(Effect::Reads).0 == Auth
    }

    /// Whether the request may have landed.
    pub(crate) fn is_indeterminate(&self) -> bool {
        self.kind(Effect::Changes).0 == ErrorKind::Indeterminate
    }

    /// Whether nothing was sent: there was no connection.
    pub(crate) fn is_unsent(&self) -> bool {
        self.broken().is_some_and(Broken::is_unsent)
    }

    /// Whether the connection ended, and nobody knows why.
    pub(crate) fn is_cut(&self) -> bool {
        self.broken() == Some(Broken::Cut)
    }

    /// What became of the connection, if this is about that.
    fn broken(&self) -> Option<Broken> {
        match self {
            Self::Said(error) | Self::Mute(error) => broken::of_client(error),
            #[cfg(feature = "tls")]
            Self::Tls(error) => crate::tls::of_io(error),
            _ => None,
        }
    }

    /// Whether another member may do better.
    pub(crate) fn is_members(&self) -> bool {
        let kind = self.kind(Effect::Reads).0;
        self.broken().is_some()
            || matches!(kind, Unreachable | NotPrimary)
            || self.said("etcdserver: no leader")
    }

    /// Whether the session's token was refused, but another may be accepted.
    pub(crate) fn wants_new_token(&self) -> bool {
        self.said("etcdserver: invalid auth token")
            || self.said("etcdserver: revision of auth store is old")
    }

    pub(crate) fn is_no_lease(&self) -> bool {
        // The client library's own words, of an answer with no time left.
        let no_time_left = matches!(self, Self::Said(etcd_client::Error::LeaseKeepAliveError(_)));
        no_time_left || self.said("etcdserver: requested lease not found")
    }

    pub(crate) fn is_lease_there(&self) -> bool {
        self.said("etcdserver: lease already exists")
    }

    /// Whether nothing can be written any more. The write that took the last space has been done,
    /// and is answered so, too.
    pub(crate) fn is_no_space(&self) -> bool {
        self.kind(Effect::Changes).1 == Some("NOSPACE")
    }

    /// Whether another attempt to connect may go better.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.kind(Effect::Reads).0, ErrorKind::Unreachable | ErrorKind::Busy)
    }

    pub(crate) fn into_error(self, operation: Operation, effect: Effect) -> Error {
        let (kind, code, message) = self.kind(effect);
        let mut error = Error::new(kind, operation, message).with_backend(NAME);
        if let Some(code) = code {
            error = error.with_code(code);
        }
        match self {
            Self::Said(source) | Self::Mute(source) => error.with_source(source),
            #[cfg(feature = "tls")]
            Self::Tls(source) => error.with_source(source),
            _ => error,
        }
    }

    fn said(&self, begins: &str) -> bool {
        matches!(self, Self::Said(etcd_client::Error::GRpcStatus(status))
            if status.message().starts_with(begins))
    }

    fn kind(&self, effect: Effect) -> (ErrorKind, Option<&'static str>, String) {
        let unknown = match effect {
            Effect::Changes => ErrorKind::Indeterminate,
            Effect::Reads => ErrorKind::Unreachable,
        };
        if let Some(broken) = self.broken() {
            let (kind, says) = broken.says(unknown);
            let says = match self {
                Self::Mute(_) if broken == Broken::Cut => MUTE,
                _ => says,
            };
            return (kind, None, says.to_owned());
        }
        let status = match self {
            Self::Said(etcd_client::Error::GRpcStatus(status)) => status,
            Self::Silent(time) => return (unknown, None, format!("no answer within {time:?}")),
            Self::Answer(what) => return (unknown, None, (*what).to_owned()),
            Self::Exhausted => {
                return (Refused, Some("EXHAUSTED"), "there is no higher token".to_owned());
            }
            Self::GivenUp => {
                let message = "its owner was released meanwhile";
                return (Busy, Some("GIVEN_UP"), message.to_owned());
            }
            Self::Contended => {
                let message = "others changed floor and sessions again and again meanwhile";
                return (Busy, None, message.to_owned());
            }
            _ => return (Unclassified, None, "the client library failed".to_owned()),
        };
        let (fate, code, message) = meaning(status);
        let kind = match fate {
            Fate::Refused(kind) => kind,
            Fate::Unknown => unknown,
        };
        (kind, Some(code), message.to_owned())
    }
}

impl From<etcd_client::Error> for Failure {
    fn from(error: etcd_client::Error) -> Self {
        Self::Said(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, code, message) = self.kind(Effect::Reads);
        match code {
            Some(code) => write!(f, "{message} ({code})"),
            None => f.write_str(&message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Effect, Failure};
    use crate::said::SAID;
    use etcd_client::Error as ClientError;
    use leasehold_api::{ErrorKind, Operation};
    use std::time::Duration;
    use tonic::{Code, Status};

    fn said(code: Code, message: &str) -> Failure {
        Failure::Said(ClientError::GRpcStatus(Status::new(code, message)))
    }

    fn kinds(failure: Failure) -> (ErrorKind, ErrorKind) {
        let reads = failure.kind(Effect::Reads).0;
        (failure.into_error(Operation::Acquire, Effect::Changes).kind(), reads)
    }

    #[test]
    fn each_message_of_a_server_has_its_kind_and_code() {
        use ErrorKind::{Auth, Busy, Indeterminate, NotPrimary, Refused, Unreachable, Unsupported};
        let rows = [
            (
                "etcdserver: mvcc: database space exceeded",
                Code::ResourceExhausted,
                Refused,
                "NOSPACE",
            ),
            ("etcdserver: no space", Code::ResourceExhausted, Refused, "NOSPACE"),
            ("etcdserver: corrupt cluster", Code::DataLoss, Refused, "CORRUPT"),
            ("etcdserver: request is too large", Code::InvalidArgument, Refused, "TOO_LARGE"),
            (
                "etcdserver: too many operations in txn request",
                Code::InvalidArgument,
                Refused,
                "TOO_MANY_OPS",
            ),
            ("etcdserver: too large lease TTL", Code::OutOfRange, Refused, "TTL"),
            ("etcdserver: requested lease not found", Code::NotFound, Refused, "LEASE_NOT_FOUND"),
            ("etcdserver: lease already exists", Code::FailedPrecondition, Refused, "LEASE_EXISTS"),
            (
                "etcdserver: mvcc: required revision has been compacted",
                Code::OutOfRange,
                Refused,
                "COMPACTED",
            ),
            (
                "etcdserver: mvcc: required revision is a future revision",
                Code::OutOfRange,
                Refused,
                "FUTURE",
            ),
            ("etcdserver: permission denied", Code::PermissionDenied, Auth, "PERMISSION_DENIED"),
            (
                "etcdserver: authentication failed, invalid user ID or password",
                Code::InvalidArgument,
                Auth,
                "AUTH_FAILED",
            ),
            ("etcdserver: user name is empty", Code::InvalidArgument, Auth, "NO_USER"),
            ("etcdserver: invalid auth token", Code::Unauthenticated, Auth, "AUTH_TOKEN"),
            ("etcdserver: revision of auth store is old", Code::InvalidArgument, Auth, "AUTH_OLD"),
            (
                "etcdserver: authentication is not enabled",
                Code::FailedPrecondition,
                Auth,
                "NO_AUTH",
            ),
            ("etcdserver: root user does not exist", Code::FailedPrecondition, Auth, "NO_ROOT"),
            ("etcdserver: too many requests", Code::ResourceExhausted, Busy, "TOO_MANY_REQUESTS"),
            ("etcdserver: no leader", Code::Unavailable, Busy, "NO_LEADER"),
            ("etcdserver: not leader", Code::FailedPrecondition, Busy, "NOT_LEADER"),
            ("etcdserver: unhealthy cluster", Code::Unavailable, Busy, "UNHEALTHY"),
            ("etcdserver: not capable", Code::Unavailable, Unsupported, "NOT_CAPABLE"),
            ("etcdserver: rpc not supported for learner", Code::Unavailable, NotPrimary, "LEARNER"),
            (
                "etcdserver: request timed out, possibly due to previous leader failure",
                Code::Unavailable,
                Indeterminate,
                "TIMED_OUT",
            ),
            ("etcdserver: leader changed", Code::Unavailable, Indeterminate, "LEADER_CHANGED"),
            ("etcdserver: server stopped", Code::Unavailable, Indeterminate, "STOPPED"),
            ("etcdserver: request cancelled", Code::Cancelled, Indeterminate, "CANCELLED"),
        ];
        assert_eq!(rows.len(), SAID.len(), "each row of the table has a row here");
        for ((message, code, kind, name), (begins, ..)) in rows.into_iter().zip(SAID) {
            assert!(message.starts_with(begins), "{message} is not the row of {begins}");
            let (changes, reads) = kinds(said(code, message));
            assert_eq!(changes, kind, "{message}");
            let read_kind = if kind == Indeterminate { Unreachable } else { kind };
            assert_eq!(reads, read_kind, "{message}");
            let error = said(code, message).into_error(Operation::Acquire, Effect::Changes);
            assert_eq!(error.code(), Some(name));
            assert!(!error.to_string().contains("etcdserver"), "the source says that: {error}");
        }
    }

    #[test]
    fn each_code_without_a_known_message_has_its_kind() {
        use ErrorKind::{Auth, Busy, Indeterminate, Unclassified, Unsupported};
        for (code, kind) in [
            (Code::Unavailable, Indeterminate),
            (Code::DeadlineExceeded, Indeterminate),
            (Code::Cancelled, Indeterminate),
            (Code::Aborted, Indeterminate),
            (Code::ResourceExhausted, Busy),
            (Code::PermissionDenied, Auth),
            (Code::Unauthenticated, Auth),
            (Code::Unimplemented, Unsupported),
            (Code::Unknown, Unclassified),
            (Code::Internal, Unclassified),
            (Code::InvalidArgument, Unclassified),
            (Code::OutOfRange, Unclassified),
        ] {
            assert_eq!(kinds(said(code, "something new")).0, kind, "{code:?}");
        }
    }

    #[test]
    fn what_was_never_sent_is_unreachable_and_what_was_is_indeterminate() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let unsent = Status::from_error(Box::new(tonic::ConnectError(Box::new(refused))));
        let unsent = Failure::Said(ClientError::GRpcStatus(unsent));
        assert!(unsent.is_unsent() && unsent.is_members());
        assert_eq!(kinds(unsent).0, ErrorKind::Unreachable);
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let cut = Failure::Said(ClientError::GRpcStatus(Status::from_error(Box::new(reset))));
        assert!(!cut.is_unsent() && cut.is_members());
        assert_eq!(kinds(cut), (ErrorKind::Indeterminate, ErrorKind::Unreachable));
        let silent = Failure::Silent(Duration::from_secs(2));
        assert_eq!(kinds(silent), (ErrorKind::Indeterminate, ErrorKind::Unreachable));
        assert_eq!(kinds(Failure::Exhausted).0, ErrorKind::Refused);
        assert_eq!(kinds(Failure::Contended).0, ErrorKind::Busy);
    }
}
