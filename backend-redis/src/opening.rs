//! A connection that could not be opened: with whom, at which step, and what may be the matter.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use leasehold_api::ErrorKind;
use redis::ErrorKind::{Io, Parse, UnexpectedReturnType};
use redis::RedisError;

use crate::error::of_server;

/// Why there is no connection. Nothing but greetings was sent.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    step: Step,
    /// `host:port`.
    at: Arc<str>,
    /// Whether TLS was spoken.
    tls: bool,
    source: RedisError,
}

/// How far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Dial,
    /// The TLS handshake, to which the peer said nothing.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "made by TLS alone"))]
    NoTls,
    /// The TLS handshake, to which the peer said something that is no TLS, and will again.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "made by TLS alone"))]
    OtherThanTls,
    /// The two ends don't agree on TLS, which waiting doesn't mend.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "made by TLS alone"))]
    Handshake,
    /// What the server says here may repeat a password (an unknown AUTH is answered with its
    /// arguments), so it is never shown.
    Auth,
    Greet,
}

impl Opening {
    pub(crate) fn new(step: Step, at: &Arc<str>, tls: bool, source: RedisError) -> Self {
        Self { step, at: at.clone(), tls, source }
    }

    /// A server that didn't answer in time while we connected.
    pub(crate) fn timed_out(at: &Arc<str>) -> Self {
        let source = io::Error::from(io::ErrorKind::TimedOut).into();
        Self::new(Step::Dial, at, false, source)
    }

    /// Whether another attempt can't go better, though the server was not reached.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.step, Step::OtherThanTls | Step::Handshake)
    }

    pub(crate) fn kind(&self) -> (ErrorKind, Option<&str>, Cow<'static, str>) {
        let of_connection = matches!(self.step, Step::NoTls | Step::OtherThanTls | Step::Handshake)
            || matches!(self.source.kind(), Io | Parse | UnexpectedReturnType);
        if !of_connection {
            return of_server(&self.source);
        }
        let message = format!("the server at {} {}", self.at, self.why());
        (ErrorKind::Unreachable, None, message.into())
    }

    /// What can be shown of the cause.
    pub(crate) fn into_source(self) -> Option<RedisError> {
        (self.step != Step::Auth || self.source.is_io_error()).then_some(self.source)
    }

    fn why(&self) -> &'static str {
        let greeted = matches!(self.step, Step::Auth | Step::Greet);
        match self.step {
            Step::NoTls | Step::OtherThanTls => {
                "did not take part in the TLS handshake: redis:// is without TLS"
            }
            Step::Handshake => "and this client do not agree on TLS",
            _ if self.source.is_timeout() => "can't be reached: no answer in time",
            // In TLS 1.3 the client is through with the handshake before the server has seen that
            // there is no certificate.
            _ if greeted && self.source.is_io_error() && self.tls => {
                "can't be reached: it ended the connection at the first request; it may want a \
                 certificate (tls_cert, tls_key)"
            }
            _ if greeted && self.source.is_io_error() => {
                "can't be reached: it ended the connection at the first request; it may want TLS \
                 (rediss://)"
            }
            _ if self.source.is_io_error() => "can't be reached",
            _ if self.tls => "does not answer as Redis does",
            _ => "does not answer as Redis does: it is something else, or wants TLS (rediss://)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Opening, Step};
    use leasehold_api::ErrorKind;
    use redis::RedisError;
    use std::io;

    fn io(kind: io::ErrorKind) -> RedisError {
        io::Error::from(kind).into()
    }

    fn unreadable() -> RedisError {
        (redis::ErrorKind::Parse, "x").into()
    }

    #[test]
    fn the_message_names_the_server_and_what_may_be_the_matter() {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, InvalidData, TimedOut};
        for (step, tls, source, says) in [
            (Step::Dial, false, io(ConnectionRefused), "at h:1 can't be reached"),
            (Step::Dial, true, io(TimedOut), "at h:1 can't be reached: no answer in time"),
            (Step::NoTls, true, io(TimedOut), "redis:// is without TLS"),
            (Step::OtherThanTls, true, io(InvalidData), "redis:// is without TLS"),
            (Step::Handshake, true, io(InvalidData), "do not agree on TLS"),
            (Step::Auth, true, io(InvalidData), "a certificate (tls_cert, tls_key)"),
            (Step::Greet, true, io(BrokenPipe), "a certificate (tls_cert, tls_key)"),
            (Step::Greet, false, io(BrokenPipe), "it may want TLS (rediss://)"),
            (Step::Greet, false, io(TimedOut), "can't be reached: no answer in time"),
            (Step::Auth, false, unreadable(), "something else, or wants TLS (rediss://)"),
            (Step::Greet, true, unreadable(), "does not answer as Redis does"),
        ] {
            let opening = Opening::new(step, &"h:1".into(), tls, source);
            let (kind, code, message) = opening.kind();
            assert_eq!((kind, code), (ErrorKind::Unreachable, None), "{message}");
            assert!(message.starts_with("the server at h:1 "), "{message}");
            assert!(message.ends_with(says), "{message}");
        }
    }

    #[test]
    fn what_waiting_does_not_mend_is_final() {
        let is_final = |step| {
            let source = io(io::ErrorKind::InvalidData);
            Opening::new(step, &"h:1".into(), true, source).is_final()
        };
        assert!(is_final(Step::Handshake) && is_final(Step::OtherThanTls));
        assert!(![Step::Dial, Step::NoTls, Step::Auth, Step::Greet].into_iter().any(is_final));
    }
}
