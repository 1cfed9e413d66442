//! The key format, version 1.
//!
//! ```text
//! PREFIX:{v1:TT}:lock:NAME     the record of a name
//! PREFIX:{v1:TT}:wait:NAME     the places of its waiters
//! PREFIX:{v1:TT}:from:NAME     their entries
//! PREFIX:{v1:TT}:token         the token counter of all names of a tag
//! PREFIX:wake:PROCESS          the channel of a process
//! ```
//!
//! `TT` is the name's tag, one of 256: the FNV-1a hash (64 bits) of its bytes, its eight bytes
//! XORed together, as two hexadecimal digits. Redis Cluster hashes what is in the first braces, so
//! all keys of a tag share a slot; a prefix has no braces, and braces in a name come later. The
//! prefix ends at the first brace and the name is the rest, so no two names share a key.

use std::fmt;
use std::io::Write;

use leasehold_api::LockName;
use redis::{RedisWrite, ToRedisArgs};

/// How many tags there are; a constant of the format.
pub(crate) const TAGS: usize = 256;

/// The keys under one prefix.
pub(crate) struct Keys {
    prefix: String,
    counters: Vec<String>,
    pub(crate) channels: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            counters: (0..TAGS).map(|tag| format!("{prefix}:{{v1:{tag:02x}}}:token")).collect(),
            channels: format!("{prefix}:wake:"),
        }
    }

    pub(crate) fn record<'a>(&'a self, name: &'a LockName) -> Key<'a> {
        self.key(name, "}:lock:")
    }

    pub(crate) fn places<'a>(&'a self, name: &'a LockName) -> Key<'a> {
        self.key(name, "}:wait:")
    }

    pub(crate) fn entries<'a>(&'a self, name: &'a LockName) -> Key<'a> {
        self.key(name, "}:from:")
    }

    pub(crate) fn counter(&self, name: &LockName) -> &str {
        &self.counters[usize::from(tag(name.as_str()))]
    }

    pub(crate) fn counters(&self) -> &[String] {
        &self.counters
    }

    /// A key that holds nothing, to try what is permitted on.
    pub(crate) fn probe(&self) -> String {
        format!("{}:{{v1:00}}:probe", self.prefix)
    }

    /// The pattern of all records whose name begins so, for SCAN.
    pub(crate) fn pattern(&self, name_prefix: &str) -> String {
        // Two wildcards stand for the tag; all else is literal.
        format!("{}:{{v1:??}}:lock:{}*", literal(&self.prefix), literal(name_prefix))
    }

    /// The name of a record's key, if it is one of ours.
    pub(crate) fn name(&self, key: &str) -> Option<LockName> {
        let rest = key.strip_prefix(&*self.prefix)?.strip_prefix(":{v1:")?;
        let (digits, name) = rest.split_once("}:lock:")?;
        let name = LockName::new(name).ok()?;
        (digits == format!("{:02x}", tag(name.as_str()))).then_some(name)
    }

    fn key<'a>(&'a self, name: &'a LockName, kind: &'static str) -> Key<'a> {
        let name = name.as_str();
        Key { prefix: &self.prefix, tag: tag(name), kind, name }
    }
}

/// A key of a name, written where it is needed.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    prefix: &'a str,
    tag: u8,
    kind: &'static str,
    name: &'a str,
}

impl ToRedisArgs for Key<'_> {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let tag = [self.tag >> 4, self.tag & 15].map(|digit| DIGITS[usize::from(digit)]);
        let Self { prefix, kind, name, .. } = self;
        let mut key = out.writer_for_next_arg();
        for part in [prefix.as_bytes(), b":{v1:", &tag, kind.as_bytes(), name.as_bytes()] {
            key.write_all(part).expect("a command takes all that is written");
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, tag, kind, name } = self;
        write!(f, "{prefix}:{{v1:{tag:02x}{kind}{name}")
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// The tag of a name. Part of the format: it never changes.
pub(crate) fn tag(name: &str) -> u8 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash.to_le_bytes().iter().fold(0, |folded, byte| folded ^ byte)
}

/// Text that a SCAN pattern takes literally.
fn literal(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{Keys, tag};
    use leasehold_api::LockName;
    use redis::ToRedisArgs;
    use std::collections::HashSet;

    fn name(text: &str) -> LockName {
        LockName::new(text).unwrap()
    }

    #[test]
    fn the_format_is_fixed() {
        let keys = Keys::new("shop");
        let name = name("order:1001");
        for (key, text) in [
            (keys.record(&name), "shop:{v1:34}:lock:order:1001"),
            (keys.places(&name), "shop:{v1:34}:wait:order:1001"),
            (keys.entries(&name), "shop:{v1:34}:from:order:1001"),
        ] {
            assert_eq!(key.to_string(), text);
            assert_eq!(key.to_redis_args(), [text.as_bytes()]);
        }
        assert_eq!(keys.counter(&name), "shop:{v1:34}:token");
        assert_eq!(keys.channels, "shop:wake:");
    }

    #[test]
    fn names_and_prefixes_never_meet_in_a_key() {
        let parts = ["a", ":", "{", "}", "lock:", "{v1:00}:lock:", "token", "*", "é"];
        let mut seen = HashSet::new();
        for prefix in ["p", "p:", "p:lock", "*"] {
            let keys = Keys::new(prefix);
            for first in parts {
                for second in parts {
                    for third in parts {
                        let name = name(&format!("{first}{second}{third}"));
                        let record = keys.record(&name).to_string();
                        assert_eq!(keys.name(&record), Some(name.clone()));
                        assert_eq!(record.find('{'), Some(prefix.len() + 1));
                        let others = [keys.places(&name), keys.entries(&name)];
                        seen.extend(others.map(|key| key.to_string()));
                        seen.insert(record);
                    }
                }
            }
            assert!(!seen.contains(keys.counter(&name("a"))));
        }
        assert_eq!(seen.len(), 4 * 3 * unique(&parts));
    }

    /// How many different names three of the parts make.
    fn unique(parts: &[&str]) -> usize {
        let names = parts.iter().flat_map(|a| {
            parts.iter().flat_map(move |b| parts.iter().map(move |c| format!("{a}{b}{c}")))
        });
        names.collect::<HashSet<_>>().len()
    }

    #[test]
    fn keys_of_others_have_no_name() {
        let keys = Keys::new("shop");
        let a = name("a");
        assert_eq!(Keys::new("sho").name(&keys.record(&a).to_string()), None);
        assert_eq!(keys.name(&keys.places(&a).to_string()), None);
        assert_eq!(keys.name("shop:{v1:zz}:lock:a"), None);
        assert_eq!(keys.name("shop:{v1:00}:lock:"), None);
    }

    #[test]
    fn a_pattern_takes_names_literally() {
        assert_eq!(Keys::new("a*").pattern("x[1]?"), "a\\*:{v1:??}:lock:x\\[1\\]\\?*");
    }

    #[test]
    fn c87_c165_a_million_names_have_a_million_keys() {
        let keys = Keys::new("shop");
        let mut set_bits = [0_u32; 8];
        for n in 0..1_000_000_u32 {
            let name = name(&format!("dataset-{n}"));
            // A head of one length, then the name: another name is another key.
            let record = keys.record(&name).to_string();
            assert_eq!(record.get("shop:{v1:TT}:lock:".len()..), Some(name.as_str()));
            let tag = tag(name.as_str());
            for (bit, set) in set_bits.iter_mut().enumerate() {
                *set += u32::from(tag >> bit & 1);
            }
        }
        // Every bit of the tag is as often set as not.
        assert!(set_bits.iter().all(|set| (480_000..520_000).contains(set)), "{set_bits:?}");
    }

    #[test]
    fn c88_names_that_share_a_tag_share_a_counter_and_no_record() {
        let keys = Keys::new("shop");
        let first = name("dataset-1");
        let names = (2..).map(|n| name(&format!("dataset-{n}")));
        let other = names.into_iter().find(|name| tag(name.as_str()) == tag(first.as_str()));
        let other = other.unwrap();
        assert_eq!(keys.counter(&other), keys.counter(&first));
        assert_ne!(keys.record(&other).to_string(), keys.record(&first).to_string());
        assert_ne!(keys.places(&other).to_string(), keys.places(&first).to_string());
    }

    #[test]
    fn tags_are_spread_evenly() {
        let mut counts = [0_u32; super::TAGS];
        for n in 0..25_600 {
            counts[usize::from(tag(&format!("order:{n}")))] += 1;
        }
        assert!(counts.iter().all(|&count| (50..200).contains(&count)), "{counts:?}");
    }
}
