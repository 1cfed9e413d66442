//! A connection that could not be opened: with whom, at which step, and what may be the matter.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::ErrorKind;
use redis::ErrorKind::{Io, Parse, UnexpectedReturnType};
use redis::RedisError;

use crate::error::of_server;
use crate::link::Target;
use crate::options::Options;

/// Why there is no connection. Nothing but greetings was sent.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    step: Step,
    /// `host:port`.
    at: Arc<str>,
    /// Whether TLS was spoken.
    tls: bool,
    /// How long an answer was waited for at most.
    patience: Duration,
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
    /// The server refuses the client's certificate, or that there is none. In TLS 1.3 the client is
    /// through with the handshake before it hears of that.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "made by TLS alone"))]
    Certificate,
    /// What the server says here may repeat a password (an unknown AUTH is answered with its
    /// arguments), so it is never shown.
    Auth,
    Greet,
}

impl Opening {
    pub(crate) fn new(step: Step, target: &Target, source: RedisError) -> Self {
        let Options { tls, timeout, connect_timeout, .. } = &target.options;
        let patience = *timeout.min(connect_timeout);
        Self { step, at: target.place.clone(), tls: tls.is_some(), patience, source }
    }

    /// A server that didn't answer in time while we connected.
    pub(crate) fn timed_out(target: &Target) -> Self {
        Self::new(Step::Dial, target, io::Error::from(io::ErrorKind::TimedOut).into())
    }

    pub(crate) fn kind(&self) -> (ErrorKind, Option<&str>, Cow<'static, str>) {
        let of_tls = !matches!(self.step, Step::Dial | Step::Auth | Step::Greet);
        let of_connection =
            of_tls || matches!(self.source.kind(), Io | Parse | UnexpectedReturnType);
        if !of_connection {
            return of_server(&self.source);
        }
        // What another attempt can't mend must not look as if it could.
        let kind = match self.step {
            Step::OtherThanTls => ErrorKind::Unsupported,
            Step::Handshake | Step::Certificate => ErrorKind::Auth,
            _ => ErrorKind::Unreachable,
        };
        (kind, None, format!("the server at {} {}", self.at, self.why()).into())
    }

    /// What can be shown of the cause.
    pub(crate) fn into_source(self) -> Option<RedisError> {
        (self.step != Step::Auth || self.source.is_io_error()).then_some(self.source)
    }

    fn why(&self) -> Cow<'static, str> {
        let silent = self.source.is_timeout();
        let greeted = matches!(self.step, Step::Auth | Step::Greet);
        let patience = humantime::format_duration(self.patience);
        match self.step {
            Step::NoTls if silent => {
                "did not answer in the TLS handshake: it is frozen, or redis:// is without TLS"
            }
            Step::NoTls | Step::OtherThanTls => {
                "did not take part in the TLS handshake: redis:// is without TLS"
            }
            Step::Handshake => "and this client do not agree on TLS",
            Step::Certificate => "wants a certificate, or another one (tls_cert, tls_key)",
            Step::Auth | Step::Greet if silent => {
                return format!("took the connection, but did not answer within {patience}").into();
            }
            _ if silent => "can't be reached: no answer in time",
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
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::{Opening, Step};
    use crate::link::Target;
    use crate::options::Options;
    use leasehold_api::ErrorKind::{Auth, Unreachable, Unsupported};
    use redis::RedisError;
    use std::io;

    fn io(kind: io::ErrorKind) -> RedisError {
        io::Error::from(kind).into()
    }

    fn unreadable() -> RedisError {
        (redis::ErrorKind::Parse, "x").into()
    }

    fn opening(step: Step, tls: bool, source: RedisError) -> Opening {
        let mut target = Target::new(Options::new("h", 1)).unwrap();
        target.options.tls = tls.then(Default::default);
        Opening::new(step, &target, source)
    }

    #[test]
    fn the_message_names_the_server_and_what_may_be_the_matter() {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, InvalidData, TimedOut};
        for (step, tls, source, kind, says) in [
            (Step::Dial, false, io(ConnectionRefused), Unreachable, "can't be reached"),
            (Step::Dial, true, io(TimedOut), Unreachable, "can't be reached: no answer in time"),
            (Step::NoTls, true, io(BrokenPipe), Unreachable, "redis:// is without TLS"),
            (Step::NoTls, true, io(TimedOut), Unreachable, "frozen, or redis:// is without TLS"),
            (Step::OtherThanTls, true, io(InvalidData), Unsupported, "redis:// is without TLS"),
            (Step::Handshake, true, io(InvalidData), Auth, "do not agree on TLS"),
            (Step::Certificate, true, io(InvalidData), Auth, "another one (tls_cert, tls_key)"),
            (Step::Auth, true, io(BrokenPipe), Unreachable, "a certificate (tls_cert, tls_key)"),
            (Step::Greet, true, io(BrokenPipe), Unreachable, "a certificate (tls_cert, tls_key)"),
            (Step::Greet, false, io(BrokenPipe), Unreachable, "it may want TLS (rediss://)"),
            (Step::Greet, false, io(TimedOut), Unreachable, "did not answer within 2s"),
            (Step::Auth, false, unreadable(), Unreachable, "or wants TLS (rediss://)"),
            (Step::Greet, true, unreadable(), Unreachable, "does not answer as Redis does"),
        ] {
            let opening = opening(step, tls, source);
            let (is, code, message) = opening.kind();
            assert_eq!((is, code), (kind, None), "{message}");
            assert!(message.starts_with("the server at h:1 "), "{message}");
            assert!(message.ends_with(says), "{message}");
        }
    }

    #[test]
    fn what_waiting_does_not_mend_has_a_kind_that_says_so() {
        let retryable = |step| {
            let (kind, ..) = opening(step, true, io(io::ErrorKind::InvalidData)).kind();
            leasehold_api::Error::new(kind, leasehold_api::Operation::Connect, "").is_retryable()
        };
        let never: [Step; 3] = [Step::Handshake, Step::OtherThanTls, Step::Certificate];
        assert!(!never.into_iter().any(retryable));
        assert!([Step::Dial, Step::NoTls, Step::Auth, Step::Greet].into_iter().all(retryable));
    }
}
