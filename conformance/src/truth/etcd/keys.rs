//! The form of the driver's keys, as its documentation has it: this file follows it.
//!
//! | key | what it is |
//! | --- | --- |
//! | `<prefix>/n/<name>/<owner>` | a claim: name as hex of its UTF-8, owner as 32 hex digits |
//! | `<prefix>/f` | the floor of tokens |
//! | `<prefix>/s/<lease>` | a session's epoch: its lease as 16 hex digits |

use std::fmt::Write as _;

use leasehold_api::{LockName, Owner};

/// The keys under one prefix (`?prefix=` of the driver's URL).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdKeys {
    prefix: String,
}

impl EtcdKeys {
    /// Those of a prefix.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    /// What all of them begin with.
    pub fn all(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// What all claims of a name begin with, and no other name's.
    pub fn claims(&self, name: &LockName) -> String {
        let mut key = format!("{}/n/", self.prefix);
        for byte in name.as_str().bytes() {
            let _ = write!(key, "{byte:02x}");
        }
        key + "/"
    }

    /// An owner's claim of a name.
    pub fn claim(&self, name: &LockName, owner: Owner) -> String {
        format!("{}{owner}", self.claims(name))
    }

    /// The floor of tokens.
    pub fn floor(&self) -> String {
        format!("{}/f", self.prefix)
    }

    /// What all epochs of sessions begin with.
    pub fn sessions(&self) -> String {
        format!("{}/s/", self.prefix)
    }

    /// The epoch of the session with this lease.
    pub fn session(&self, lease: u64) -> String {
        format!("{}{lease:016x}", self.sessions())
    }
}

impl Default for EtcdKeys {
    /// Those of the driver's default prefix.
    fn default() -> Self {
        Self::new("leasehold")
    }
}

#[cfg(test)]
mod tests {
    use super::EtcdKeys;
    use leasehold_api::{LockName, Owner};

    #[test]
    fn no_names_claims_are_among_anothers() {
        let keys = EtcdKeys::default();
        let of = |name| keys.claims(&LockName::new(name).unwrap());
        assert_eq!(of("a/b"), "leasehold/n/612f62/");
        assert!(!of("a/b").starts_with(&of("a")));
        let owner = Owner::random();
        let claim = keys.claim(&LockName::new("é").unwrap(), owner);
        assert_eq!(claim, format!("leasehold/n/c3a9/{owner}"));
        assert_eq!(claim.rsplit('/').next().unwrap().len(), 32);
        assert_eq!(keys.session(0xabc), "leasehold/s/0000000000000abc");
    }
}
