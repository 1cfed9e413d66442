//! What is the matter with a connection, by the client library's errors.

use std::error::Error;
use std::io;

use leasehold_api::ErrorKind::{self, Auth, Unreachable, Unsupported};

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// There was none to send on.
    Unopened,
    /// The peer ended it during the TLS handshake, and told nothing.
    NoTls,
    /// The peer said something in the TLS handshake that is no TLS, and will again.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "made by TLS alone"))]
    OtherThanTls,
    /// The two ends don't agree on TLS, which waiting doesn't mend.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "made by TLS alone"))]
    Handshake,
    /// The server refuses the client's certificate, or that there is none.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "made by TLS alone"))]
    Certificate,
    /// It ended, and what was sent may have landed.
    Cut,
}

impl Broken {
    /// Whether nothing was done of what was asked.
    pub(crate) fn is_unsent(self) -> bool {
        self != Self::Cut
    }

    /// The kind and the words; `unknown` is the kind of a request that may have landed.
    pub(crate) fn says(self, unknown: ErrorKind) -> (ErrorKind, &'static str) {
        match self {
            Self::Unopened => (Unreachable, "no member can be reached"),
            Self::NoTls => (
                Unreachable,
                "a member ended the connection in the TLS handshake: etcd:// is without TLS",
            ),
            Self::OtherThanTls => (
                Unsupported,
                "a member did not take part in the TLS handshake: etcd:// is without TLS",
            ),
            Self::Handshake => (Auth, "a member and this client do not agree on TLS"),
            Self::Certificate => {
                (Auth, "a member wants a certificate, or another one (tls_cert, tls_key)")
            }
            Self::Cut => (unknown, "the connection was lost before the answer"),
        }
    }
}

/// What an error says of the connection, if it is about that.
pub(crate) fn of_client(error: &etcd_client::Error) -> Option<Broken> {
    use etcd_client::Error::{EndpointError, GRpcStatus, IoError, TransportError, WatchError};
    match error {
        // A status that the transport made, and no server, has a source.
        GRpcStatus(status) => Some(of_source(Error::source(status)?)),
        TransportError(error) => Some(of_source(error)),
        IoError(error) => Some(of_source(error)),
        // The latter: a stream that ended before its first answer.
        EndpointError(_) | WatchError(_) => Some(Broken::Cut),
        _ => None,
    }
}

fn of_source(error: &(dyn Error + 'static)) -> Broken {
    let (mut error, mut broken) = (Some(error), Broken::Cut);
    while let Some(at) = error {
        if at.is::<tonic::ConnectError>() {
            broken = Broken::Unopened;
        }
        if let Some(io) = at.downcast_ref::<io::Error>() {
            #[cfg(feature = "tls")]
            if let Some(of_tls) = crate::tls::of_io(io) {
                return of_tls;
            }
            // A dial never ends so, but a handshake does.
            if broken == Broken::Unopened && io.kind() == io::ErrorKind::UnexpectedEof {
                return Broken::NoTls;
            }
        }
        error = at.source();
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::{Broken, of_client};
    use crate::error::{Effect, Failure};
    use etcd_client::Error as ClientError;
    use leasehold_api::ErrorKind::{Auth, Indeterminate, Unreachable, Unsupported};
    use leasehold_api::Operation::Acquire;
    use std::io;
    use tonic::{ConnectError, Status};

    fn status(of: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        ClientError::GRpcStatus(Status::from_error(of.into()))
    }

    fn opening(error: io::Error) -> ClientError {
        status(ConnectError(error.into()))
    }

    #[cfg(feature = "tls")]
    fn of_tls(error: tokio_rustls::rustls::Error) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    #[test]
    fn each_error_of_the_connection_is_what_became_of_it() {
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, TimedOut, UnexpectedEof};
        for (error, is) in [
            (opening(ConnectionRefused.into()), Some(Broken::Unopened)),
            (opening(TimedOut.into()), Some(Broken::Unopened)),
            (opening(UnexpectedEof.into()), Some(Broken::NoTls)),
            (status(io::Error::from(ConnectionReset)), Some(Broken::Cut)),
            (status(io::Error::from(UnexpectedEof)), Some(Broken::Cut)),
            (ClientError::IoError(ConnectionReset.into()), Some(Broken::Cut)),
            (ClientError::EndpointError(String::new()), Some(Broken::Cut)),
            (ClientError::WatchError(String::new()), Some(Broken::Cut)),
            // What a server says has no source, whatever it says.
            (ClientError::GRpcStatus(Status::unavailable("transport error")), None),
            (ClientError::LeaseKeepAliveError(String::new()), None),
            (ClientError::InvalidArgs(String::new()), None),
            (ClientError::Internal(String::new()), None),
        ] {
            assert_eq!(of_client(&error), is, "{error:?}");
        }
    }

    #[test]
    #[cfg(feature = "tls")]
    fn each_end_of_a_tls_handshake_is_what_is_to_be_mended() {
        use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
        let issuer = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let alert = Error::AlertReceived;
        for (error, is) in [
            (issuer(), Broken::Handshake),
            (alert(AlertDescription::ProtocolVersion), Broken::Handshake),
            (alert(AlertDescription::HandshakeFailure), Broken::Handshake),
            (alert(AlertDescription::BadCertificate), Broken::Certificate),
            (alert(AlertDescription::CertificateRequired), Broken::Certificate),
            (alert(AlertDescription::UnknownCA), Broken::Certificate),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), Broken::OtherThanTls),
        ] {
            let error = opening(of_tls(error));
            assert_eq!(of_client(&error), Some(is), "{error:?}");
        }
        // After the handshake, as the HTTP/2 library tells it.
        let told = |error: Error| status(io::Error::other(error.to_string()));
        let wanted = told(alert(AlertDescription::BadCertificate));
        assert_eq!(of_client(&wanted), Some(Broken::Certificate));
        assert_eq!(of_client(&told(Error::DecryptError)), Some(Broken::Cut));
        let found = Failure::Tls(of_tls(alert(AlertDescription::BadCertificate)));
        assert_eq!(found.into_error(Acquire, Effect::Changes).kind(), Auth);
    }

    #[test]
    fn what_waiting_does_not_mend_is_not_retryable_and_no_members_matter_alone() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        for (broken, kind, retryable) in [
            (Broken::Unopened, Unreachable, true),
            (Broken::NoTls, Unreachable, true),
            (Broken::OtherThanTls, Unsupported, false),
            (Broken::Handshake, Auth, false),
            (Broken::Certificate, Auth, false),
            (Broken::Cut, Indeterminate, true),
        ] {
            let (is, says) = broken.says(Indeterminate);
            assert_eq!(is, kind, "{broken:?}");
            let error = leasehold_api::Error::new(is, Acquire, says);
            assert_eq!(error.is_retryable(), retryable, "{broken:?}");
            assert_eq!(broken.is_unsent(), broken != Broken::Cut);
        }
        // Nor has a refused certificate to do with a session's token.
        assert!(Failure::Said(opening(refused())).is_members());
        let mute = Failure::Mute(status(refused())).into_error(Acquire, Effect::Changes);
        assert_eq!(mute.kind(), Indeterminate);
        assert!(mute.to_string().contains("it may want TLS (etcds://)"), "{mute}");
    }
}
