//! What a configuration decides, and what a registry knows.
#![expect(clippy::unwrap_used, reason = "a helper of tests")]

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Config, Driver, ErrorKind, Guarantee, Registry, Scope, connect};
use leasehold_memory::Memory;

fn with(url: &str, change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::new(url);
    change(&mut config);
    config
}

async fn refused(config: Config, kind: ErrorKind, says: &[&str]) {
    let shown = format!("{config:?}");
    let error = connect(config).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{shown}: {error}");
    for words in says {
        assert!(error.to_string().contains(words), "{shown}: {error} lacks {words}");
    }
}

/// The longest time that a lock of this client was granted for, in whole seconds.
async fn granted(locks: &leasehold::Locks) -> u64 {
    let guard = locks.lock("granted").unwrap().try_acquire().await.unwrap().unwrap();
    guard.remaining().as_secs_f64().ceil() as u64
}

#[tokio::test(start_paused = true)]
async fn a_configuration_wins_over_its_url() {
    let url = "memory:wins?ttl=50s&wait=50s&prefix=a&scope=host&guarantee=correctness";
    let config = with(url, |config| {
        config.ttl = Some(Duration::from_secs(20));
        config.wait = Some(Duration::from_secs(1));
        config.scope = Some(Scope::Process);
        config.label = Some("from the configuration".to_owned());
    });
    let locks = connect(config).await.unwrap();
    let lock = locks.lock("job").unwrap();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.remaining().as_secs_f64().ceil(), 20.0);
    let begun = tokio::time::Instant::now();
    let error = locks.lock("job").unwrap().acquire().await.unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 1, "it waited {:?}", begun.elapsed());
    let holder = error.holder().unwrap();
    assert_eq!(
        holder.metadata.as_ref().unwrap().label.as_ref().unwrap().as_str(),
        "from the configuration"
    );

    let by_url = connect("memory:wins?ttl=50s").await.unwrap();
    assert_eq!(granted(&by_url).await, 50);
}

#[tokio::test(start_paused = true)]
async fn holds_of_a_configuration_are_those_of_its_locks() {
    let locks = connect(with("memory:holds", |config| {
        config.min_hold = Some(Duration::from_secs(5));
        config.max_hold = Some(Duration::from_secs(8));
    }));
    let locks = locks.await.unwrap();
    let short = locks.lock("short").unwrap();
    short.acquire().await.unwrap().release().await.unwrap();
    assert!(short.try_acquire().await.unwrap().is_none(), "it is closed for 5 s");
    let begun = tokio::time::Instant::now();
    let guard = locks.lock("long").unwrap().acquire().await.unwrap();
    guard.lost().await;
    assert_eq!(begun.elapsed().as_secs_f64().round(), 8.0, "lost after {:?}", begun.elapsed());
}

#[tokio::test]
async fn prefixes_of_one_store_share_no_lock() {
    let by = |prefix: Option<&str>| {
        connect(with("memory:prefixes", |config| config.prefix = prefix.map(str::to_owned)))
    };
    let (a, b, none) = (by(Some("a")).await, by(Some("b")).await, by(None).await);
    let (a, b, none) = (a.unwrap(), b.unwrap(), none.unwrap());
    let again = connect("memory:prefixes?prefix=a").await.unwrap();
    let lock = |locks: &leasehold::Locks| locks.lock("job").unwrap();
    let held = lock(&a).try_acquire().await.unwrap();
    assert!(held.is_some());
    assert!(lock(&again).try_acquire().await.unwrap().is_none());
    assert!(lock(&b).try_acquire().await.unwrap().is_some());
    assert!(lock(&none).try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn what_a_configuration_has_wrong_is_refused_with_what_is_allowed() {
    use ErrorKind::{BadInput, Guarantee as TooLittle};
    refused(Config::default(), BadInput, &["no `url`", "memory:"]).await;
    refused(with("memory:", |c| c.ttl = Some(Duration::ZERO)), BadInput, &["10ms to 30 days"])
        .await;
    refused(with("memory:", |c| c.label = Some("x".repeat(129))), BadInput, &["128 bytes"]).await;
    let min_over_max = |c: &mut Config| {
        c.min_hold = Some(Duration::from_secs(2));
        c.max_hold = Some(Duration::from_secs(1));
    };
    refused(with("memory:", min_over_max), BadInput, &["over the max_hold"]).await;
    let correct = |c: &mut Config| c.guarantee = Some(Guarantee::Correctness);
    refused(with("memory:", correct), TooLittle, &["scope `process`", "`network`"]).await;
    let in_process = |c: &mut Config| {
        c.guarantee = Some(Guarantee::Correctness);
        c.scope = Some(Scope::Process);
    };
    assert!(connect(with("memory:", in_process)).await.is_ok());
}

#[test]
fn nothing_of_a_url_but_its_scheme_is_shown() {
    for url in ["redis://u:s3cret@h/0", "rediss://s3cret", "u:s3cret@h", "s3cret", "S3cret:x"] {
        let shown = format!("{:?}", Config::new(url));
        assert!(!shown.to_lowercase().contains("s3cret"), "{shown}");
    }
    assert!(format!("{:?}", Config::new("redis://h")).contains("redis:"));
}

#[tokio::test]
async fn a_drivers_scheme_is_added_to_those_that_are_known() {
    let mine = || {
        Driver::new("mine", &["level"], async |url| {
            assert_eq!(url.query(), Some("level=3"), "it has the driver's keys only");
            Ok(Arc::new(Memory::shared(url.path())) as _)
        })
    };
    let registry = Registry::new().with(mine());
    let locks = registry.connect("mine:place?ttl=20s&level=3").await.unwrap();
    assert_eq!(granted(&locks).await, 20);
    let error = registry.connect("mine:place?depth=3").await.unwrap_err();
    assert!(error.to_string().contains("mine takes level"), "{error}");
    let error = registry.connect("other:place").await.unwrap_err();
    assert!(error.to_string().contains("mine:"), "{error}");
    assert!(registry.connect("memory:place").await.is_ok(), "the others are still there");

    let error = registry.with(mine()).connect("mine:place?level=3").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput);
    assert!(error.to_string().contains("two drivers"), "{error}");
    // Whether their features are on or not.
    for taken in ["memory", "redis", "etcds"] {
        let driver = Driver::new(taken, &[], async |_| Ok(Arc::new(Memory::new()) as _));
        let error = Registry::new().with(driver).connect(format!("{taken}://h")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadInput);
        assert!(error.to_string().contains("one of leasehold's own"), "{error}");
    }
}

#[cfg(feature = "serde")]
mod text {
    use super::*;

    #[test]
    fn each_key_is_read() {
        let text = r#"
            url = "redis://h"
            guarantee = "efficiency"
            scope = "network"
            prefix = "shop"
            ttl = "10s"
            wait = "500ms"
            min_hold = "1m"
            max_hold = "2h"
            label = "web-3"
        "#;
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!(config.url.as_deref(), Some("redis://h"));
        assert_eq!(config.guarantee, Some(Guarantee::Efficiency));
        assert_eq!(config.scope, Some(Scope::Network));
        assert_eq!(config.prefix.as_deref(), Some("shop"));
        assert_eq!(config.ttl, Some(Duration::from_secs(10)));
        assert_eq!(config.wait, Some(Duration::from_millis(500)));
        assert_eq!(config.min_hold, Some(Duration::from_secs(60)));
        assert_eq!(config.max_hold, Some(Duration::from_secs(7200)));
        assert_eq!(config.label.as_deref(), Some("web-3"));
        let empty: Config = toml::from_str("").unwrap();
        assert!(empty.url.is_none() && empty.ttl.is_none() && empty.guarantee.is_none());
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        for (text, says) in [
            ("ttll = '3s'", &["ttll", "url", "guarantee", "min_hold", "label"][..]),
            ("ttl = 30", &["30", "a duration such as 500ms, 30s or 2m"]),
            ("ttl = 'soon'", &["`soon`", "a duration such as"]),
            ("guarantee = 'sure'", &["`sure`", "efficiency, correctness"]),
            ("scope = 'galaxy'", &["`galaxy`", "process, host, network"]),
            ("url = 3", &["3", "string"]),
        ] {
            let error = toml::from_str::<Config>(text).unwrap_err().to_string();
            for words in says {
                assert!(error.contains(words), "{text}: {error} lacks {words}");
            }
        }
    }
}
