//! What is locked.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Operation};

/// What is locked: UTF-8, 1 to 512 bytes, no control characters.
///
/// Names are compared byte by byte: they are neither trimmed, nor folded in case, nor brought to
/// one Unicode form. Checked once, here; cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 512;

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`BadInput`](crate::ErrorKind::BadInput) for an empty name, one over 512 bytes, or one
    /// with a control character; the message says which and what is allowed.
    pub fn new(name: &str) -> Result<Self, Error> {
        let refuse = |what: String| {
            let message = format!(
                "{what}; allowed are 1 to {} bytes of UTF-8 without control characters",
                Self::MAX_BYTES
            );
            Err(Error::bad_input(Operation::Configure, message))
        };
        if name.is_empty() {
            return refuse("the lock name is empty".to_owned());
        }
        if name.len() > Self::MAX_BYTES {
            return refuse(format!("the lock name has {} bytes", name.len()));
        }
        if let Some(at) = name.find(char::is_control) {
            return refuse(format!("the lock name has a control character at byte {at}"));
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::LockName;
    use crate::ErrorKind;

    #[test]
    fn names_within_the_limits_are_kept_to_the_byte() {
        for name in ["a", "a/b", "{x}", "{}", " ", "Straße", "n\u{303}", &"x".repeat(512)] {
            assert_eq!(LockName::new(name).unwrap().as_str(), name);
        }
        assert_ne!(LockName::new("\u{f1}").unwrap(), LockName::new("n\u{303}").unwrap());
    }

    #[test]
    fn names_outside_the_limits_are_refused_with_what_is_allowed() {
        for name in ["", "a\0b", "a\nb", "\u{7f}", "\u{85}", &"x".repeat(513), &"é".repeat(257)] {
            let error = LockName::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadInput);
            assert!(error.to_string().contains("1 to 512 bytes"), "{error}");
        }
    }
}
