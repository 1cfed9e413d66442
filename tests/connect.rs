//! What `connect` refuses before anything is sent, and says so.
#![expect(clippy::unwrap_used, reason = "a helper of tests")]

use leasehold::{ErrorKind, connect};

async fn refused(url: &str, kind: ErrorKind, says: &[&str]) {
    let error = connect(url).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{url}: {error}");
    for words in says {
        assert!(error.to_string().contains(words), "{url}: {error} lacks {words}");
    }
}

#[tokio::test]
async fn bad_urls_say_what_is_allowed() {
    use ErrorKind::BadInput;
    refused("", BadInput, &["not a URL", "memory:", "redis:"]).await;
    refused("shop", BadInput, &["not a URL"]).await;
    refused("zookeeper://h", BadInput, &["unknown scheme `zookeeper`", "memory:"]).await;
    let known = ["`ttll`", "guarantee, scope, ttl, wait", "memory takes prefix"];
    refused("memory:?ttll=3s", BadInput, &known).await;
    refused("memory:?ttl=3", BadInput, &["`ttl=3`", "30s"]).await;
    refused("memory:?ttl=0s", BadInput, &["10ms to 30 days"]).await;
    refused("memory:?ttl=31d", BadInput, &["10ms to 30 days"]).await;
    refused("memory:?ttl=1s&ttl=2s", BadInput, &["`ttl` stands twice"]).await;
    refused("memory:?wait=soon", BadInput, &["`wait=soon`"]).await;
    refused("memory:?guarantee=some", BadInput, &["efficiency, correctness"]).await;
    refused("memory:?scope=galaxy", BadInput, &["process, host, network"]).await;
}

#[tokio::test]
async fn a_memory_url_has_a_path_and_no_more() {
    for url in ["memory://user@h", "memory://:secret@h", "memory://h:1", "memory:path#part"] {
        refused(url, ErrorKind::BadInput, &["without user, port or fragment"]).await;
    }
}

/// A password with a bare `/`, `?` or `#` is cut there by every reader of URLs; what follows it
/// must not be quoted by whoever finds the rest wrong.
#[tokio::test]
async fn no_part_of_a_password_is_quoted() {
    for sign in ['/', '?', '#'] {
        for scheme in ["redis", "rediss", "memory", "unknown"] {
            for head in ["123", "12a"] {
                let url = format!("{scheme}://user:{head}{sign}s3cret@127.0.0.1:1/0?ttl=1s");
                let error = connect(&url).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::BadInput, "{url}");
                let mut shown = format!("{error} {error:?}");
                let mut source = std::error::Error::source(&error);
                while let Some(error) = source {
                    shown += &format!(" {error} {error:?}");
                    source = error.source();
                }
                assert!(!shown.contains("s3cret") && !shown.contains(head), "{shown}");
            }
        }
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn what_is_wrong_with_a_url_is_said_before_anything_is_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    for bad in ["ttl=0s", "ttl=9ms", "ttl=31d", "wait=x", "prefix={a}", "nosuch=1", "scope=moon"] {
        refused(&format!("redis://{at}/?{bad}"), ErrorKind::BadInput, &[]).await;
    }
    assert!(listener.accept().is_err(), "somebody connected");
}

#[tokio::test]
async fn what_the_backend_cannot_give_is_refused_with_the_reason() {
    let says = ["scope `process` only", "`network` is asked for", "as correctness is"];
    refused("memory:?guarantee=correctness", ErrorKind::Guarantee, &says).await;
    refused("memory:?scope=host", ErrorKind::Guarantee, &["`host` is asked for"]).await;
    connect("memory:?guarantee=correctness&scope=process").await.unwrap();
    connect("memory:?guarantee=efficiency").await.unwrap();
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_scheme_that_is_not_compiled_in_names_its_feature() {
    for url in ["redis://h", "rediss://h"] {
        refused(url, ErrorKind::Unsupported, &["feature `redis`", "not compiled in"]).await;
    }
}

#[tokio::test]
async fn memory_urls_of_one_path_share_one_store() {
    let (a, b) = (connect("memory:shared").await.unwrap(), connect("memory:shared").await.unwrap());
    let other = connect("memory:elsewhere").await.unwrap();
    let _guard = a.lock("n").unwrap().acquire().await.unwrap();
    assert!(b.lock("n").unwrap().try_acquire().await.unwrap().is_none());
    assert!(other.lock("n").unwrap().try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn the_urls_ttl_and_wait_are_the_defaults_of_its_locks() {
    let locks = connect("memory:defaults?ttl=60s&wait=10ms").await.unwrap();
    let guard = locks.lock("n").unwrap().acquire().await.unwrap();
    assert!(guard.remaining() > std::time::Duration::from_secs(58));
    let error = locks.lock("n").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAcquired);
}
