//! What a test makes of a server, or of a network that loses packets, that is not there.

use std::env;

/// Lists what must be there: `redis,etcd,packet-loss`, or `all`.
const VARIABLE: &str = "LEASEHOLD_REQUIRE";

/// Every word that it may list, besides `all` and what is asked for.
const KNOWN: [&str; 4] = ["redis", "etcd", "postgres", "packet-loss"];

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
    fn a_network_that_loses_packets_is_required_like_a_server() {
        assert_eq!(judge("redis,etcd", "packet-loss"), None);
        assert_eq!(judge("redis,packet-loss", "etcd"), None);
        assert!(judge("redis,packet-loss", "packet-loss").is_some());
    }

    #[test]
    fn a_requirement_that_names_nothing_fails_and_lists_the_known() {
        let why = judge("etcd,reddis", "redis").unwrap();
        let known = "redis, etcd, postgres, packet-loss";
        assert!(why.contains("reddis") && why.contains(known), "{why}");
        assert!(judge("zookeeper", "redis").is_some());
        // An author outside this workspace may require his own.
        assert!(judge("zookeeper", "zookeeper").is_some());
        assert_eq!(judge("redis", "zookeeper"), None);
    }
}
