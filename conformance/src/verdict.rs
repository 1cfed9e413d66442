//! How a check or a test ends.

use std::error::Error as StdError;
use std::fmt;

use crate::require;

/// What a check or a test answers.
pub type Verdict = Result<(), Failure>;

/// Why a check did not pass. Every error converts into one by `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    end: End,
    why: String,
}

/// How a check that did not pass is counted.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The backend is wrong.
    Failed,
    /// The backend or its subject lacks a convenience that the check is about.
    NotApplicable,
    /// What the check runs against is not on this machine.
    Missing,
}

impl Failure {
    /// The backend is wrong, and this is how.
    #[must_use]
    pub fn failed(why: impl Into<String>) -> Self {
        Self { end: End::Failed, why: why.into() }
    }

    /// The check is about a convenience that is not there, and this is which.
    #[must_use]
    pub fn not_applicable(why: impl Into<String>) -> Self {
        Self { end: End::NotApplicable, why: why.into() }
    }

    /// What the check runs against is not on this machine; a failure where `LEASEHOLD_REQUIRE`
    /// lists `what` (or `all`), and where it lists what nobody knows.
    #[must_use]
    pub fn missing(what: &str, why: impl fmt::Display) -> Self {
        match require::refuses(what) {
            Some(required) => Self::failed(format!("no {what}: {why} ({required})")),
            None => Self { end: End::Missing, why: format!("no {what}: {why}") },
        }
    }

    /// How it is counted.
    #[must_use]
    pub fn end(&self) -> End {
        self.end
    }

    /// What happened, for people.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// A convenience's absence, where there is no switch, is a failure.
    pub(crate) fn without_switch(self) -> Self {
        match self.end {
            End::NotApplicable => {
                Self::failed(format!("no switch for this group, but: {}", self.why))
            }
            _ => self,
        }
    }
}

impl<E: StdError + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        #[cfg(feature = "servers")]
        if let Some(failure) = of_server(&error) {
            return failure;
        }
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            why.push_str(&format!(": {inner}"));
            source = inner.source();
        }
        Self::failed(why)
    }
}

/// A missing server is told apart from one that fails, and from one that can't be moved.
#[cfg(feature = "servers")]
fn of_server(error: &(dyn StdError + 'static)) -> Option<Failure> {
    use crate::servers::{Error, Missing};
    let missing = match error.downcast_ref::<Error>() {
        Some(Error::Missing(missing)) => missing,
        Some(error @ Error::Unsupported { .. }) => {
            return Some(Failure::not_applicable(error.to_string()));
        }
        _ => error.downcast_ref::<Missing>()?,
    };
    Some(Failure::missing(&missing.kind.to_string(), &missing.why))
}

/// Whatever a test function may answer.
pub trait IntoVerdict {
    /// Turns it into a verdict.
    ///
    /// # Errors
    ///
    /// The failure that the answer stands for.
    fn into_verdict(self) -> Verdict;
}

impl IntoVerdict for () {
    fn into_verdict(self) -> Verdict {
        Ok(())
    }
}

impl<E: Into<Failure>> IntoVerdict for Result<(), E> {
    fn into_verdict(self) -> Verdict {
        self.map_err(Into::into)
    }
}

/// Returns a [`Failure`] from the check unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Failure::failed(format!($($message)+)));
        }
    };
}

#[cfg(test)]
mod tests {
    use super::{End, Failure};

    #[test]
    fn an_error_becomes_a_failure_with_its_sources() {
        let source = std::io::Error::other("cut");
        let error = leasehold_api::Error::new(
            leasehold_api::ErrorKind::Unreachable,
            leasehold_api::Operation::Acquire,
            "no answer",
        );
        let failure = Failure::from(error.with_source(source));
        assert_eq!((failure.end(), failure.why()), (End::Failed, "acquire: no answer: cut"));
    }

    #[test]
    fn without_a_switch_nothing_is_not_applicable() {
        let failure = Failure::not_applicable("no such hook").without_switch();
        assert_eq!(failure.end(), End::Failed);
        assert!(failure.why().contains("no such hook"));
    }

    #[cfg(feature = "servers")]
    #[test]
    fn a_missing_server_is_told_from_one_that_failed() {
        use crate::servers::{Error, Kind, Missing};
        let missing = Missing { kind: Kind::Redis, why: "tried".into() };
        let end = |error: Error| Failure::from(error).end();
        assert_ne!(end(Error::from(missing)), End::NotApplicable);
        let why = "port in use".to_owned();
        assert_eq!(end(Error::Failed { kind: Kind::Redis, why }), End::Failed);
    }
}
