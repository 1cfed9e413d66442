//! The one table from the client library's errors to kinds.

use std::fmt;
use std::io;

use leasehold_api::{Error, ErrorKind, Operation};
use redis::{ErrorKind as ClientKind, RedisError};

use crate::driver::NAME;

/// Where a call failed.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// Before there was a connection.
    Open(RedisError),
    /// Because the two ends don't agree on TLS, which waiting doesn't mend.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "made by TLS alone"))]
    Handshake(RedisError),
    /// While the connection was introduced. What the server says here may repeat a password (an
    /// unknown AUTH is answered with its arguments), so it is never shown.
    Greet(RedisError),
    /// Before a request was sent: the connection had ended.
    Unsent(RedisError),
    /// In a request that may have been sent.
    Call(RedisError),
    /// The answer was not of the form that we asked for.
    Answer(&'static str),
}

/// What a request does if it lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Changes,
    Reads,
}

/// The server's codes. In a script the same codes come from the commands it calls.
const CODES: &[(&str, ErrorKind, &str)] = &[
    ("NOAUTH", ErrorKind::Auth, "the server wants a password"),
    ("WRONGPASS", ErrorKind::Auth, "the server refuses the user or the password"),
    ("NOPERM", ErrorKind::Auth, "the user lacks a permission that leasehold needs"),
    ("DENIED", ErrorKind::Auth, "the server is in protected mode and takes local clients only"),
    ("OOM", ErrorKind::Refused, "the server's memory is full"),
    ("MISCONF", ErrorKind::Refused, "the server refuses writes, as it can't save to disk"),
    ("NOREPLICAS", ErrorKind::Refused, "the server refuses writes, as it has too few replicas"),
    ("WRONGTYPE", ErrorKind::Refused, "a key of leasehold's holds something else"),
    ("FOREIGN", ErrorKind::Refused, "a key of leasehold's holds something else"),
    ("EXHAUSTED", ErrorKind::Refused, "there is no higher token"),
    ("ERR", ErrorKind::Refused, "the server refuses the request"),
    ("READONLY", ErrorKind::NotPrimary, "the server is a replica"),
    ("MASTERDOWN", ErrorKind::NotPrimary, "the server is a replica that lost its primary"),
    ("LOADING", ErrorKind::Busy, "the server is loading its data"),
    ("BUSY", ErrorKind::Busy, "the server is busy with a script"),
    ("TRYAGAIN", ErrorKind::Busy, "the server is moving keys"),
    ("CLUSTERDOWN", ErrorKind::Busy, "the cluster is down"),
    ("MOVED", ErrorKind::Unsupported, "the server is a node of a cluster"),
    ("ASK", ErrorKind::Unsupported, "the server is a node of a cluster"),
    ("CROSSSLOT", ErrorKind::Unsupported, "the server is a node of a cluster"),
    ("NOPROTO", ErrorKind::Unsupported, "the server doesn't speak this protocol"),
];

/// What has no code of its own, by a part of its text (Redis 6.2 to 7).
const TEXTS: &[(&str, &str)] = &[
    ("can't run this command", "NOPERM"),
    ("can't access at least one of the keys", "NOPERM"),
    ("without any password configured", "WRONGPASS"),
    ("max number of clients", "BUSY"),
    ("Script killed by user", "BUSY"),
];

impl Failure {
    /// A server that didn't answer in time while we connected.
    pub(crate) fn timed_out() -> Self {
        Self::Open(io::Error::from(io::ErrorKind::TimedOut).into())
    }

    /// Whether the request may have landed.
    pub(crate) fn is_indeterminate(&self) -> bool {
        self.kind(Effect::Changes).0 == ErrorKind::Indeterminate
    }

    /// Whether another attempt to connect may go better.
    pub(crate) fn may_pass(&self) -> bool {
        let kind = self.kind(Effect::Reads).0;
        matches!(kind, ErrorKind::Unreachable | ErrorKind::Busy)
            && !matches!(self, Self::Handshake(_))
    }

    pub(crate) fn into_error(self, operation: Operation, effect: Effect) -> Error {
        let (kind, code, message) = self.kind(effect);
        let mut error = Error::new(kind, operation, message).with_backend(NAME);
        if let Some(code) = code {
            error = error.with_code(code);
        }
        match self {
            Self::Open(source)
            | Self::Handshake(source)
            | Self::Unsent(source)
            | Self::Call(source) => error.with_source(source),
            Self::Greet(source) if source.is_io_error() => error.with_source(source),
            Self::Greet(_) | Self::Answer(_) => error,
        }
    }

    fn kind(&self, effect: Effect) -> (ErrorKind, Option<String>, &'static str) {
        let source = match self {
            Self::Open(source)
            | Self::Greet(source)
            | Self::Unsent(source)
            | Self::Call(source) => source,
            Self::Handshake(_) => {
                return (ErrorKind::Unreachable, None, "the TLS handshake failed");
            }
            Self::Answer(what) => return (unknown(effect), None, what),
        };
        match source.kind() {
            ClientKind::Io if matches!(self, Self::Call(_)) => {
                (unknown(effect), None, "the connection was lost before the answer")
            }
            ClientKind::Io => (ErrorKind::Unreachable, None, "the server can't be reached"),
            ClientKind::Server(_) | ClientKind::Extension => {
                let detail = source.detail().unwrap_or_default();
                by_code(source.code().unwrap_or_default(), detail)
            }
            ClientKind::AuthenticationFailed => {
                (ErrorKind::Auth, None, "the server refuses the user or the password")
            }
            ClientKind::Parse | ClientKind::UnexpectedReturnType => {
                (unknown(effect), None, "the server's answer can't be read")
            }
            _ => (ErrorKind::Unclassified, None, "the client library failed"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, code, message) = self.kind(Effect::Reads);
        match code {
            Some(code) => write!(f, "{message} ({code})"),
            None => f.write_str(message),
        }
    }
}

/// An error that a script answers as text: that of one lease among many.
pub(crate) fn of_script(text: &str, operation: Operation) -> Error {
    let (code, detail) = text.split_once(' ').unwrap_or((text, ""));
    let (kind, code, message) = by_code(code.trim_start_matches('-'), detail);
    let error = Error::new(kind, operation, message).with_backend(NAME);
    match code {
        Some(code) => error.with_code(code),
        None => error,
    }
}

/// The kind of a request that may have landed.
fn unknown(effect: Effect) -> ErrorKind {
    match effect {
        Effect::Changes => ErrorKind::Indeterminate,
        Effect::Reads => ErrorKind::Unreachable,
    }
}

fn by_code(code: &str, detail: &str) -> (ErrorKind, Option<String>, &'static str) {
    let code = match code {
        "ERR" => in_text(detail).unwrap_or(code),
        _ => code,
    };
    match CODES.iter().find(|(known, ..)| *known == code) {
        Some((_, kind, message)) => (*kind, Some(code.to_owned()), message),
        None => (
            ErrorKind::Unclassified,
            Some(code.to_owned()),
            "the server answered an error that this driver doesn't know",
        ),
    }
}

/// The code of an error whose own is `ERR`: by its text, or within that of a script's command, which
/// Redis 6.2 hands on as "Error running script (call to f_..): @user_script:8: -OOM ..".
fn in_text(detail: &str) -> Option<&str> {
    if let Some((_, code)) = TEXTS.iter().find(|(text, _)| detail.contains(text)) {
        return Some(code);
    }
    let (_, raised) = detail.split_once("@user_script:")?;
    let (_, raised) = raised.split_once(": ").map(|(line, raised)| (line, raised.trim_start()))?;
    // "@user_script: 8: -OOM .." has a space more.
    let raised = raised.strip_prefix(|c: char| c.is_ascii_digit()).map_or(raised, |rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches([':', ' '])
    });
    let word = raised.trim_start_matches('-').split(' ').next()?;
    CODES.iter().map(|(code, ..)| *code).find(|code| *code == word)
}

#[cfg(test)]
mod tests {
    use super::{CODES, Effect, Failure, TEXTS, of_script};
    use leasehold_api::{ErrorKind, Operation};
    use redis::RedisError;
    use std::io;

    /// What the client library makes of a server's line.
    fn server(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    fn lost() -> RedisError {
        io::Error::from(io::ErrorKind::BrokenPipe).into()
    }

    #[test]
    fn each_code_has_its_kind_wherever_it_comes_from() {
        for (code, kind, message) in CODES {
            let line = format!("{code} some words of the server");
            for failure in [Failure::Call(server(&line)), Failure::Greet(server(&line))] {
                let error = failure.into_error(Operation::Acquire, Effect::Changes);
                assert_eq!((error.kind(), error.code()), (*kind, Some(*code)));
                assert_eq!(error.to_string(), format!("redis: acquire: {message} ({code})"));
            }
            let error = of_script(&line, Operation::Renew);
            assert_eq!((error.kind(), error.code()), (*kind, Some(*code)));
            assert!(!Failure::Call(server(&line)).is_indeterminate(), "{code}");
        }
    }

    #[test]
    fn a_code_within_a_script_is_found_as_redis_6_2_and_7_hand_it_on() {
        for (line, code) in [
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:3.",
                "OOM",
            ),
            (
                "ERR Error running script (call to f_1f): @user_script:8: OOM command not allowed",
                "OOM",
            ),
            (
                "ERR Error running script (call to f_1f): @user_script: 8: -READONLY You can't write",
                "READONLY",
            ),
            (
                "ERR Error running script (call to f_1f): @user_script:2: -MISCONF Redis is configured",
                "MISCONF",
            ),
            (
                "ERR Error running script (call to f_1f): @user_script:9: WRONGTYPE Operation against",
                "WRONGTYPE",
            ),
            (
                "ERR Error running script (call to f_1f): @user_script:9: The user executing the script can't run this command or subcommand",
                "NOPERM",
            ),
            (
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 1f, on @user_script:1.",
                "NOPERM",
            ),
            (
                "ERR Error running script (call to f_1f): @user_script:9: Script killed by user with SCRIPT KILL...",
                "BUSY",
            ),
            (
                "ERR Error running script (call to f_1f): @user_script:9: attempt to index nil",
                "ERR",
            ),
            (
                "ERR AUTH <password> called without any password configured for the default user.",
                "WRONGPASS",
            ),
            ("ERR max number of clients reached", "BUSY"),
            ("ERR unknown command 'EVALSHA'", "ERR"),
        ] {
            let error = Failure::Call(server(line)).into_error(Operation::Acquire, Effect::Changes);
            assert_eq!(error.code(), Some(code), "{line}");
            assert_eq!(of_script(line, Operation::Renew).code(), Some(code), "{line}");
        }
        assert!(TEXTS.iter().all(|(_, code)| CODES.iter().any(|(known, ..)| known == code)));
    }

    #[test]
    fn what_is_not_in_the_table_is_unclassified() {
        for line in ["NEWCODE of a later version", "NOSCRIPT No matching script", "EXECABORT x"] {
            let failure = Failure::Call(server(line));
            assert!(!failure.may_pass());
            let error = failure.into_error(Operation::Acquire, Effect::Changes);
            assert_eq!(error.kind(), ErrorKind::Unclassified, "{line}");
            assert!(line.starts_with(error.code().unwrap()));
        }
        let client = RedisError::from((redis::ErrorKind::Client, "whatever"));
        let error = Failure::Call(client).into_error(Operation::Acquire, Effect::Changes);
        assert_eq!((error.kind(), error.code()), (ErrorKind::Unclassified, None));
    }

    #[test]
    fn a_lost_connection_is_indeterminate_only_if_something_may_have_changed() {
        let kind = |failure: Failure, effect| failure.into_error(Operation::Acquire, effect).kind();
        let unreadable = RedisError::from((redis::ErrorKind::Parse, "x"));
        for sent in [Failure::Call(lost()), Failure::Call(unreadable), Failure::Answer("x")] {
            assert!(sent.is_indeterminate());
            assert_eq!(kind(sent.clone(), Effect::Changes), ErrorKind::Indeterminate);
            assert_eq!(kind(sent, Effect::Reads), ErrorKind::Unreachable);
        }
        for not in [Failure::Open(lost()), Failure::Greet(lost()), Failure::Unsent(lost())] {
            assert!(!not.is_indeterminate() && not.may_pass());
            assert_eq!(kind(not, Effect::Changes), ErrorKind::Unreachable);
        }
    }
}
