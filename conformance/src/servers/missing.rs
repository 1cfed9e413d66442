//! What a test makes of a server that is not there.

use std::fmt;

/// Every word that `LEASEHOLD_REQUIRE` may list, besides `all`.
const REQUIRABLE: [&str; 3] = ["redis", "etcd", "postgres"];

/// A kind of server that the harness can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One Redis server.
    Redis,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "redis",
        })
    }
}

/// No server of a kind can be had on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The kind that was asked for.
    pub kind: Kind,
    /// What was tried, and why each way failed.
    pub why: String,
}

impl Missing {
    /// Whether a test that needs this server is to be ignored or to fail.
    ///
    /// It fails where `LEASEHOLD_REQUIRE` lists the kind (`redis,etcd`, or `all`), and also where
    /// that variable holds a word that names no kind: a typing error must not turn a requirement
    /// off.
    pub fn verdict(&self) -> Verdict {
        let required = std::env::var("LEASEHOLD_REQUIRE").unwrap_or_default();
        judge(&required, self)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} server: {}", self.kind, self.why)
    }
}

impl std::error::Error for Missing {}

/// What to do with a test whose server is missing. Each variant holds the words to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Show the test as ignored.
    Ignore(String),
    /// Fail the test: the environment requires the server.
    Fail(String),
}

fn judge(required: &str, missing: &Missing) -> Verdict {
    let kind = missing.kind.to_string();
    let words = || required.split(',').map(str::trim).filter(|word| !word.is_empty());
    if let Some(word) = words().find(|word| *word != "all" && !REQUIRABLE.contains(word)) {
        let known = REQUIRABLE.join(", ");
        return Verdict::Fail(format!(
            "LEASEHOLD_REQUIRE lists {word:?}; known are {known} and all"
        ));
    }
    if words().any(|word| word == "all" || word == kind) {
        return Verdict::Fail(format!("{missing} (LEASEHOLD_REQUIRE={required})"));
    }
    Verdict::Ignore(missing.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(required: &str) -> Verdict {
        judge(required, &Missing { kind: Kind::Redis, why: "tried".into() })
    }

    #[test]
    fn a_missing_server_is_ignored_unless_it_is_required() {
        assert_eq!(verdict(""), Verdict::Ignore("no redis server: tried".into()));
        assert!(matches!(verdict("etcd, postgres"), Verdict::Ignore(_)));
        assert!(matches!(verdict("redis"), Verdict::Fail(_)));
        assert!(matches!(verdict("etcd, redis"), Verdict::Fail(_)));
        assert!(matches!(verdict("all"), Verdict::Fail(_)));
    }

    #[test]
    fn a_requirement_that_names_no_kind_fails_and_lists_the_known() {
        let Verdict::Fail(why) = verdict("reddis") else { panic!("ignored") };
        assert!(why.contains("reddis") && why.contains("redis, etcd, postgres"), "{why}");
    }
}
