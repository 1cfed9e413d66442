//! What a test makes of a server that is not there.

use std::env;

/// Lists the servers that must be there: `redis,etcd`, or `all`.
const VARIABLE: &str = "LEASEHOLD_REQUIRE";

/// Every word that it may list, besides `all` and what is asked for.
const KNOWN: [&str; 3] = ["redis", "etcd", "postgres"];

/// Whether a test that lacks `what` is to fail: with words for people if so.
///
/// It fails where `LEASEHOLD_REQUIRE` lists `what`, or `all`, and also where that holds a word
/// that names nothing: a typing error must not turn a requirement off.
pub(crate) fn refuses(what: &str) -> Option<String> {
    judge(&env::var(VARIABLE).unwrap_or_default(), what)
}

fn judge(required: &str, what: &str) -> Option<String> {
    let words = || required.split(',').map(str::trim).filter(|word| !word.is_empty());
    let known = |word: &str| word == "all" || word == what || KNOWN.contains(&word);
    if let Some(word) = words().find(|word| !known(word)) {
        let known = KNOWN.join(", ");
        return Some(format!("{VARIABLE} lists {word:?}; known are {known} and all"));
    }
    words().any(|word| word == "all" || word == what).then(|| format!("{VARIABLE}={required}"))
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn a_missing_server_is_ignored_unless_it_is_required() {
        for required in ["", " ", "etcd, postgres", ",etcd"] {
            assert_eq!(judge(required, "redis"), None, "{required}");
        }
        for required in ["redis", "etcd, redis", "all"] {
            let why = judge(required, "redis").unwrap();
            assert!(why.contains(required), "{why}");
        }
    }

    #[test]
    fn a_requirement_that_names_no_server_fails_and_lists_the_known() {
        let why = judge("etcd,reddis", "redis").unwrap();
        assert!(why.contains("reddis") && why.contains("redis, etcd, postgres"), "{why}");
        assert!(judge("zookeeper", "redis").is_some());
        // An author outside this workspace may require his own.
        assert!(judge("zookeeper", "zookeeper").is_some());
        assert_eq!(judge("redis", "zookeeper"), None);
    }
}
