//! The one table from the client library's errors to kinds.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use leasehold_api::{Error, ErrorKind, Operation};
use redis::{ErrorKind as ClientKind, RedisError};

use crate::driver::NAME;
use crate::opening::Opening;

/// Where a call failed.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// Before there was a connection.
    Open(Opening),
    /// Before a request was sent: the connection, to the server that is named, had ended.
    Unsent(Arc<str>, RedisError),
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
    /// Whether the request may have landed.
    pub(crate) fn is_indeterminate(&self) -> bool {
        self.kind(Effect::Changes).0 == ErrorKind::Indeterminate
    }

    /// Whether another attempt to connect may go better.
    pub(crate) fn may_pass(&self) -> bool {
        let kind = self.kind(Effect::Reads).0;
        matches!(kind, ErrorKind::Unreachable | ErrorKind::Busy)
    }

    pub(crate) fn into_error(self, operation: Operation, effect: Effect) -> Error {
        let (kind, code, message) = self.kind(effect);
        let error = Error::new(kind, operation, message).with_backend(NAME);
        let error = with_code(error, code);
        let source = match self {
            Self::Open(opening) => opening.into_source(),
            Self::Unsent(_, source) | Self::Call(source) => Some(source),
            Self::Answer(_) => None,
        };
        match source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }

    fn kind(&self, effect: Effect) -> (ErrorKind, Option<&str>, Cow<'static, str>) {
        let source = match self {
            Self::Open(opening) => return opening.kind(),
            Self::Unsent(at, _) => {
                let message = format!("the server at {at} can't be reached");
                return (ErrorKind::Unreachable, None, message.into());
            }
            Self::Answer(what) => return (unknown(effect), None, (*what).into()),
            Self::Call(source) => source,
        };
        match source.kind() {
            ClientKind::Io => {
                (unknown(effect), None, "the connection was lost before the answer".into())
            }
            ClientKind::Parse | ClientKind::UnexpectedReturnType => {
                (unknown(effect), None, "the server's answer can't be read".into())
            }
            _ => of_server(source),
        }
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

/// An error that a script answers as text: that of one lease among many.
pub(crate) fn of_script(text: &str, operation: Operation) -> Error {
    let text = text.trim_start_matches('-');
    let (code, detail) = text.split_once(' ').unwrap_or((text, ""));
    let (kind, code, message) = by_code(code, detail);
    let error = Error::new(kind, operation, message).with_backend(NAME);
    error.with_code(code).with_source(text)
}

/// What the client library says that is not about the connection.
pub(crate) fn of_server(source: &RedisError) -> (ErrorKind, Option<&str>, Cow<'static, str>) {
    match source.kind() {
        ClientKind::Server(_) | ClientKind::Extension => {
            let detail = source.detail().unwrap_or_default();
            let (kind, code, message) = by_code(source.code().unwrap_or_default(), detail);
            (kind, Some(code), message.into())
        }
        ClientKind::AuthenticationFailed => {
            (ErrorKind::Auth, None, "the server refuses the user or the password".into())
        }
        _ => (ErrorKind::Unclassified, None, "the client library failed".into()),
    }
}

fn with_code(error: Error, code: Option<&str>) -> Error {
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

fn by_code<'a>(code: &'a str, detail: &str) -> (ErrorKind, &'a str, &'static str) {
    let code = match code {
        "ERR" => in_text(detail).unwrap_or(code),
        _ => code,
    };
    match CODES.iter().find(|(known, ..)| *known == code) {
        Some((_, kind, message)) => (*kind, code, message),
        None => {
            let message = "the server answered an error that this driver doesn't know";
            (ErrorKind::Unclassified, code, message)
        }
    }
}

/// The code of an error whose own is `ERR`: by its text, or within that of a script's command, which
/// Redis 6.2 hands on as "Error running script (call to f_..): @user_script:8: -OOM ..".
fn in_text(detail: &str) -> Option<&'static str> {
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
    use crate::link::Target;
    use crate::opening::{Opening, Step};
    use crate::options::Options;
    use leasehold_api::ErrorKind::{Auth, Busy, NotPrimary, Refused, Unsupported};
    use leasehold_api::{Error, ErrorKind, Operation};
    use redis::RedisError;
    use std::error::Error as _;
    use std::io;

    /// What each code is. Not read off the table: this is what the table is compared with.
    const KINDS: [(&str, ErrorKind); 21] = [
        ("ASK", Unsupported),
        ("BUSY", Busy),
        ("CLUSTERDOWN", Busy),
        ("CROSSSLOT", Unsupported),
        ("DENIED", Auth),
        ("ERR", Refused),
        ("EXHAUSTED", Refused),
        ("FOREIGN", Refused),
        ("LOADING", Busy),
        ("MASTERDOWN", NotPrimary),
        ("MISCONF", Refused),
        ("MOVED", Unsupported),
        ("NOAUTH", Auth),
        ("NOPERM", Auth),
        ("NOPROTO", Unsupported),
        ("NOREPLICAS", Refused),
        ("OOM", Refused),
        ("READONLY", NotPrimary),
        ("TRYAGAIN", Busy),
        ("WRONGPASS", Auth),
        ("WRONGTYPE", Refused),
    ];

    /// What the client library makes of a server's line.
    fn server(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    fn lost() -> RedisError {
        io::Error::from(io::ErrorKind::BrokenPipe).into()
    }

    fn unopened(step: Step, source: RedisError) -> Failure {
        let target = Target::new(Options::new("h", 1)).unwrap();
        Failure::Open(Opening::new(step, &target, source))
    }

    fn quoted(error: &Error) -> String {
        error.source().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn each_code_has_its_kind_wherever_it_comes_from() {
        for (code, kind) in KINDS {
            let line = format!("{code} some words of the server");
            for failure in [
                Failure::Call(server(&line)),
                unopened(Step::Greet, server(&line)),
                unopened(Step::Auth, server(&line)),
            ] {
                assert!(!failure.is_indeterminate(), "{code}");
                let error = failure.into_error(Operation::Acquire, Effect::Changes);
                assert_eq!((error.kind(), error.code()), (kind, Some(code)));
                assert!(error.to_string().ends_with(&format!("({code})")), "{error}");
            }
            let error = of_script(&line, Operation::Renew);
            assert_eq!((error.kind(), error.code()), (kind, Some(code)));
        }
        assert_eq!(CODES.len(), KINDS.len(), "a code of the table is not in this list");
    }

    #[test]
    fn the_servers_words_are_kept_as_source_unless_they_may_hold_a_password() {
        let line = "ERR some words of the server";
        for failure in [Failure::Call(server(line)), unopened(Step::Greet, server(line))] {
            let error = failure.into_error(Operation::Acquire, Effect::Changes);
            assert!(quoted(&error).contains("some words of the server"), "{error:?}");
            assert!(!error.to_string().contains("some words"), "{error}");
        }
        assert_eq!(quoted(&of_script(line, Operation::Renew)), line);
        assert_eq!(quoted(&of_script("-OOM is full", Operation::Renew)), "OOM is full");
        let error =
            unopened(Step::Auth, server(line)).into_error(Operation::Connect, Effect::Reads);
        assert!(error.source().is_none(), "{error:?}");
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
        let garbage = || RedisError::from((redis::ErrorKind::Parse, "x"));
        for not in [
            unopened(Step::Dial, lost()),
            unopened(Step::Greet, lost()),
            unopened(Step::Greet, garbage()),
            Failure::Unsent("h:1".into(), lost()),
        ] {
            assert!(!not.is_indeterminate() && not.may_pass());
            let error = not.into_error(Operation::Acquire, Effect::Changes);
            assert_eq!(error.kind(), ErrorKind::Unreachable);
            assert!(error.to_string().contains("the server at h:1 "), "{error}");
        }
    }
}
