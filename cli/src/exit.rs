//! How the command ends: its exit statuses, and which error gives which.

use std::error::Error as _;
use std::fmt;

use leasehold::ErrorKind;

/// Wrong usage (`EX_USAGE` of sysexits).
pub(crate) const USAGE: u8 = 64;
/// The backend can't be reached, or refuses (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: u8 = 69;
/// A fault of this program or of the system (`EX_SOFTWARE`).
pub(crate) const INTERNAL: u8 = 70;
/// The lock was not acquired in time (`EX_TEMPFAIL`).
pub(crate) const NOT_ACQUIRED: u8 = 75;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// The configuration is wrong, or the backend can't give what it asks for (`EX_CONFIG`).
pub(crate) const CONFIG: u8 = 78;
/// The command can't be run, or is not there, as shells say it.
pub(crate) const CANNOT_RUN: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;

/// An end with a message: what is wrong, and the status that says so.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: u8, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(CONFIG, message)
    }

    /// With what it is about in front.
    pub(crate) fn within(mut self, what: &dyn fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// With another status: the same error of a flag and of a file differ in it.
    pub(crate) fn with_status(mut self, status: u8) -> Self {
        self.status = status;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<leasehold::Error> for Failure {
    fn from(error: leasehold::Error) -> Self {
        let mut message = error.to_string();
        // What a server says begins with its code, which the message has already.
        let code = error.code().map(|code| [format!("{code}: "), format!("\"{code}\": ")]);
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            let rest = code.iter().flatten().find_map(|code| text.strip_prefix(code.as_str()));
            let text = rest.unwrap_or(&text);
            if !message.contains(text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        Self::new(status(error.kind()), message)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(INTERNAL, error.to_string())
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        std::io::Error::from(error).into()
    }
}

fn status(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotAcquired => NOT_ACQUIRED,
        ErrorKind::Lost => LOST,
        ErrorKind::BadInput | ErrorKind::Auth | ErrorKind::Unsupported | ErrorKind::Guarantee => {
            CONFIG
        }
        ErrorKind::Unreachable
        | ErrorKind::Refused
        | ErrorKind::NotPrimary
        | ErrorKind::Busy
        | ErrorKind::TooLate
        | ErrorKind::Indeterminate => UNAVAILABLE,
        _ => INTERNAL,
    }
}
