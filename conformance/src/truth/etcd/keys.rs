//! The form of the driver's keys, as its documentation has it: this file follows it.
//!
//! | key | what it is |
//! | --- | --- |
//! | `<prefix>:lock/<name>/<owner>` | a claim: name percent-encoded, owner as 32 hex digits |
//! | `<prefix>:floor` | the floor of tokens |
//! | `<prefix>:session/<lease>` | a session's epoch: its lease as 16 hex digits |

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
        format!("{}:", self.prefix)
    }

    /// What all claims of a name begin with, and no other name's.
    pub fn claims(&self, name: &LockName) -> String {
        let mut key = format!("{}:lock/", self.prefix);
        for byte in name.as_str().bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' | b'@' => {
                    key.push(char::from(byte));
                }
                _ => _ = write!(key, "%{byte:02X}"),
            }
        }
        key + "/"
    }

    /// An owner's claim of a name.
    pub fn claim(&self, name: &LockName, owner: Owner) -> String {
        format!("{}{owner}", self.claims(name))
    }

    /// The floor of tokens.
    pub fn floor(&self) -> String {
        format!("{}:floor", self.prefix)
    }

    /// What all epochs of sessions begin with.
    pub fn sessions(&self) -> String {
        format!("{}:session/", self.prefix)
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
        assert_eq!(of("a/b"), "leasehold:lock/a%2Fb/");
        assert!(!of("a/b").starts_with(&of("a")));
        let owner = Owner::random();
        let claim = keys.claim(&LockName::new("é").unwrap(), owner);
        assert_eq!(claim, format!("leasehold:lock/%C3%A9/{owner}"));
        assert_eq!(claim.rsplit('/').next().unwrap().len(), 32);
        assert_eq!(keys.session(0xabc), "leasehold:session/0000000000000abc");
    }
}
