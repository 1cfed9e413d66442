//! The one error type, and its kinds.

use std::fmt;

use crate::lease::{Holder, Loss};
use crate::name::LockName;

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What went wrong, in the terms a caller decides by.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A name, duration, URL or option is outside what is allowed. Nothing was sent.
    BadInput,
    /// The wait ended while somebody else held the lock; see [`Error::holder`].
    NotAcquired,
    /// The backend can't be reached; the request surely had no effect.
    Unreachable,
    /// The backend refused the credentials, or they lack a permission; or one of the two does not
    /// trust the other's certificate.
    Auth,
    /// The backend refused the request; see [`Error::code`].
    Refused,
    /// The server asked is not the primary, so it can't decide who holds a lock.
    NotPrimary,
    /// The backend is there but can't serve just now (loading, busy, overloaded).
    Busy,
    /// The lock was granted, but the grant was over when it came, and the wait too. It is released.
    TooLate,
    /// The lock was lost before; see [`Error::loss`].
    Lost,
    /// The request may have taken effect, now or later.
    Indeterminate,
    /// The backend, as configured, has no such operation or setting.
    Unsupported,
    /// The backend can't give the guarantee or the scope that was asked for.
    Guarantee,
    /// The client was closed.
    Closed,
    /// A client or guard was used in a forked child of the process that made it.
    Forked,
    /// The driver doesn't know this error of its client library.
    Unclassified,
}

/// The operation that failed.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reading configuration: names, durations, URLs, options.
    Configure,
    /// Connecting to the backend.
    Connect,
    /// Acquiring a lock.
    Acquire,
    /// Renewing a lease.
    Renew,
    /// Releasing a lease.
    Release,
    /// Using a guard: its token, or work run under it.
    Hold,
    /// Reading or raising tokens.
    Tokens,
    /// Looking at the holder of a lock.
    Inspect,
    /// Looking at all holders.
    List,
    /// Ending somebody else's lease.
    Evict,
    /// Closing a client.
    Close,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configure => "configure",
            Self::Connect => "connect",
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Hold => "hold",
            Self::Tokens => "tokens",
            Self::Inspect => "inspect",
            Self::List => "list",
            Self::Evict => "evict",
            Self::Close => "close",
        })
    }
}

/// An error of a driver or of the client.
///
/// `Display` is one sentence without the source; [`source`](std::error::Error::source) has the
/// client library's own error where there is one. Neither holds a secret.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

#[derive(Debug, thiserror::Error)]
#[error("{}", self.sentence())]
struct Inner {
    kind: ErrorKind,
    lock: Option<LockName>,
    operation: Operation,
    backend: &'static str,
    message: String,
    code: Option<String>,
    holder: Option<Holder>,
    loss: Option<Loss>,
    source: Option<Source>,
}

impl Error {
    /// An error of `kind` in `operation`, with a message for people. The message must hold no
    /// secret and not repeat the source.
    #[must_use]
    pub fn new(kind: ErrorKind, operation: Operation, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            lock: None,
            operation,
            backend: "",
            message: message.into(),
            code: None,
            holder: None,
            loss: None,
            source: None,
        }))
    }

    /// [`ErrorKind::BadInput`] with what is wrong and what is allowed.
    #[must_use]
    pub fn bad_input(operation: Operation, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadInput, operation, message)
    }

    /// [`ErrorKind::Lost`] with its reason.
    #[must_use]
    pub fn lost(operation: Operation, loss: Loss) -> Self {
        let mut error = Self::new(ErrorKind::Lost, operation, format!("the lock is lost: {loss}"));
        error.0.loss = Some(loss);
        error
    }

    /// Names the backend.
    #[must_use]
    pub fn with_backend(mut self, backend: &'static str) -> Self {
        self.0.backend = backend;
        self
    }

    /// Names the lock.
    #[must_use]
    pub fn with_lock(mut self, name: &LockName) -> Self {
        self.0.lock = Some(name.clone());
        self
    }

    /// Names the operation, where the one that failed was part of another.
    #[must_use]
    pub fn with_operation(mut self, operation: Operation) -> Self {
        self.0.operation = operation;
        self
    }

    /// Adds the server's own code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// Adds who held the lock when it was last seen.
    #[must_use]
    pub fn with_holder(mut self, holder: Option<Holder>) -> Self {
        self.0.holder = holder;
        self
    }

    /// Adds the client library's error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The backend's name; empty where none took part.
    #[must_use]
    pub fn backend(&self) -> &str {
        self.0.backend
    }

    /// The lock it is about, where it is about one.
    #[must_use]
    pub fn lock(&self) -> Option<&LockName> {
        self.0.lock.as_ref()
    }

    /// The server's own code, such as `OOM` or `MISCONF`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// Who held the lock when it was last seen.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.0.holder.as_ref()
    }

    /// Why the lock was lost.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss
    }

    /// Whether the same call may succeed later with nothing changed by the caller. A release need
    /// not be repeated: the client goes on by itself.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        use ErrorKind::{Busy, Indeterminate, NotAcquired, NotPrimary, TooLate, Unreachable};
        matches!(
            self.0.kind,
            NotAcquired | Unreachable | NotPrimary | Busy | TooLate | Indeterminate
        )
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        let mut source = std::error::Error::source(self);
        let mut last = String::new();
        while let Some(error) = source {
            let text = error.to_string();
            // A library's error may show its own source.
            if text != last {
                write!(f, ": {text}")?;
            }
            (source, last) = (error.source(), text);
        }
        Ok(())
    }
}

impl Inner {
    fn sentence(&self) -> String {
        let mut sentence = match &self.lock {
            Some(name) => format!("{} {name}: {}", self.operation, self.message),
            None => format!("{}: {}", self.operation, self.message),
        };
        if !self.backend.is_empty() {
            sentence.insert_str(0, &format!("{}: ", self.backend));
        }
        if let Some(code) = &self.code {
            sentence.push_str(&format!(" ({code})"));
        }
        sentence
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, ErrorKind, Operation};
    use std::error::Error as _;

    #[test]
    fn display_is_one_sentence_and_leaves_the_source_to_source() {
        let error = Error::new(ErrorKind::Refused, Operation::Acquire, "the server refuses writes")
            .with_backend("redis")
            .with_code("MISCONF")
            .with_source("inner text");
        assert_eq!(error.to_string(), "redis: acquire: the server refuses writes (MISCONF)");
        assert_eq!(
            format!("{:?}", error),
            "Refused: redis: acquire: the server refuses writes (MISCONF): inner text"
        );
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("inner text"));
    }

    #[test]
    fn debug_says_once_what_an_error_and_its_source_say_alike() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Shows(#[source] std::io::Error);
        let refused = std::io::Error::other("refused");
        let error = Error::new(ErrorKind::Unreachable, Operation::Connect, "can't be reached")
            .with_source(Shows(refused));
        assert_eq!(format!("{error:?}"), "Unreachable: connect: can't be reached: refused");
    }
}
