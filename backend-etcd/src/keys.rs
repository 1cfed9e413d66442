//! The key format, version 1.
//!
//! ```text
//! PREFIX:floor                 the floor of all tokens
//! PREFIX:session/LEASE         the epoch of a shared lease, on that lease; 16 hexadecimal digits
//! PREFIX:lock/NAME/OWNER       a claim: the oldest under PREFIX:lock/NAME/ holds the name
//! ```
//!
//! `NAME` is percent-encoded, so it has no slash and none of its keys can stand under another
//! name's; a prefix has no colon, so none can stand under another prefix's.

use leasehold_api::{LockName, Owner};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What is escaped in a name. What people use to structure names stays readable, but the slash.
const IN_NAME: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':').remove(b'@');

/// The keys under one prefix.
#[derive(Debug)]
pub(crate) struct Keys {
    locks: String,
    sessions: String,
    floor: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            locks: format!("{prefix}:lock/"),
            sessions: format!("{prefix}:session/"),
            floor: format!("{prefix}:floor"),
        }
    }

    pub(crate) fn floor(&self) -> &str {
        &self.floor
    }

    /// A key that nobody writes.
    pub(crate) fn nothing(&self) -> &str {
        &self.sessions
    }

    pub(crate) fn session(&self, lease: i64) -> String {
        format!("{}{lease:016x}", self.sessions)
    }

    /// What the keys of all claims of a name begin with, and no other key does.
    pub(crate) fn line(&self, name: &LockName) -> String {
        let mut line = self.beginning(name.as_str());
        line.push('/');
        line
    }

    /// The key of one claim.
    pub(crate) fn place(&self, name: &LockName, owner: Owner) -> String {
        use std::fmt::Write;
        let mut key = self.line(name);
        write!(key, "{owner}").expect("a string takes all that is written");
        key
    }

    /// What the keys of all claims begin with whose name begins so.
    pub(crate) fn beginning(&self, name: &str) -> String {
        use std::fmt::Write;
        let mut key = self.locks.clone();
        write!(key, "{}", utf8_percent_encode(name, IN_NAME)).expect("a string takes all");
        key
    }

    /// Whose claim a key is, if it is one of ours.
    pub(crate) fn read(&self, key: &[u8]) -> Option<(LockName, Owner)> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&*self.locks)?;
        let (name, owner) = rest.split_once('/')?;
        let name = percent_decode_str(name).decode_utf8().ok()?;
        Some((LockName::new(&name).ok()?, owner.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::Keys;
    use leasehold_api::{LockName, Owner};

    #[test]
    fn no_names_line_is_a_prefix_of_anothers() {
        let keys = Keys::new("shop");
        let names = ["a", "a/b", "a/", "/", "ab", "a%2Fb", "a%", "%", "A", "ñ", "n\u{303}", " "];
        let lines = names.map(|name| keys.line(&LockName::new(name).unwrap()));
        for (at, one) in lines.iter().enumerate() {
            for (other_at, other) in lines.iter().enumerate() {
                assert!(at == other_at || !other.starts_with(one.as_str()), "{one} in {other}");
            }
        }
    }

    #[test]
    fn a_key_is_read_back_to_name_and_owner() {
        let keys = Keys::new("apps/shop");
        for name in ["order:1001", "a/b", "Straße", "%2F", "x y"] {
            let name = LockName::new(name).unwrap();
            let owner = Owner::from_bits(7);
            let key = keys.place(&name, owner);
            assert_eq!(keys.read(key.as_bytes()), Some((name, owner)), "{key}");
        }
        assert_eq!(
            keys.place(&LockName::new("order:1/2").unwrap(), Owner::from_bits(1)),
            "apps/shop:lock/order:1%2F2/00000000000000000000000000000001"
        );
        for foreign in ["apps/shop:floor", "apps/shop:lock/a/b/c", "apps/shop:lock/a", "x"] {
            assert_eq!(keys.read(foreign.as_bytes()), None, "{foreign}");
        }
    }
}
