//! Passwords are in no output.

use std::error::Error as StdError;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use leasehold::Locks;
use leasehold_api::{Error, ErrorKind};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Failure, Verdict, ensure};
use leasehold_redis::{Options, Redis as Driver};
use tokio::time::timeout;
use url::Url;

use crate::common::{claim, connect, fails, take};
use crate::fakes;
use crate::told::told;

const SECRET: &str = "hunter2%2F";

/// All that can be read off an error.
fn said(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(error) = source {
        write!(text, " {error} {error:?}").unwrap();
        source = error.source();
    }
    text
}

fn is_silent(text: &str) -> bool {
    !text.contains("hunter2") && !text.contains("hunter2/")
}

pub(crate) async fn no_password_is_in_debug_errors_or_logs() -> Verdict {
    let told = told();
    let server = Redis::new().password("hunter2/").start().await?;
    let at = |host: &str| format!("redis://default:{SECRET}@{host}");
    let right = at(&server.addr().to_string());
    let mut text = String::new();

    let options = Options::from_url(&Url::parse(&right)?)?;
    write!(text, "{options:?} {options:#?} ")?;
    let driver = Driver::connect(options).await?;
    let client: &dyn leasehold_api::Backend = &driver;
    client.acquire(&claim("a")).await?;
    client.acquire(&claim("a").with_queue(true)).await?;
    write!(text, "{driver:?} {driver:#?} {:?} ", client.profile())?;

    let truth = RedisTruth::connect(server.url()).await?;
    truth.config_set("maxmemory", "1").await?;
    text += &said(&client.acquire(&claim("b")).await.unwrap_err());
    truth.config_set("maxmemory", "0").await?;
    truth.client_kill_all().await?;

    let closed = fakes::closed().await;
    let garbage = fakes::answering(b"hm\r\n").await;
    let wrong = Redis::new().password("another").start().await?;
    let quick = "connect_timeout=100ms";
    for (url, query) in [
        (at(&closed.to_string()), quick),
        (at(&garbage.to_string()), quick),
        (at(&wrong.addr().to_string()), quick),
        (at("no-such-host.invalid"), quick),
        (at("h:1/notanumber"), ""),
        (at("h"), "unknown=1"),
        (at("h"), "timeout=x"),
        (format!("redis://{SECRET}@h"), ""),
        (format!("redis://:{SECRET}%ff@h"), ""),
        (format!("http://:{SECRET}@h"), ""),
    ] {
        text += &said(&connect(&url, query).await.unwrap_err());
    }
    // A subscription that fails is told of.
    take(client, &claim("c")).await?;
    text += &through_the_facade(driver, &truth).await?;
    let told = told.text();
    for says in ["connected", "waiting", "acquire dropped", "can't connect", "release"] {
        ensure!(told.contains(&format!("{says:?}")), "{says:?} was not told: {told}");
    }
    ensure!(is_silent(&told), "told: {told}");
    ensure!(is_silent(&text), "said: {text}");
    Ok(())
}

/// Spans and events of the client, up to a server that suddenly wants another password.
async fn through_the_facade(driver: Driver, truth: &RedisTruth) -> Result<String, Failure> {
    let locks = Locks::with_backend(Arc::new(driver));
    let lock = locks.lock("d")?;
    let guard = lock.acquire().await?;
    let mut text = said(&lock.acquire_within(Duration::ZERO).await.unwrap_err());
    let waits = lock.acquire_within(Duration::from_secs(5));
    ensure!(timeout(Duration::from_millis(50), waits).await.is_err(), "two hold");
    guard.release().await?;
    let guard = lock.acquire().await?;
    truth.config_set("requirepass", "changed").await?;
    truth.client_kill_all().await?;
    let refused = locks.lock("e")?.acquire().await.unwrap_err();
    text += &said(&fails(Err::<(), _>(refused), ErrorKind::Auth, Some("WRONGPASS")));
    text += &format!("{locks:?} {lock:?} {guard:?}");
    Ok(text)
}

pub(crate) async fn a_server_that_repeats_the_password_is_not_quoted() {
    // As a server or a proxy that knows no AUTH does.
    told();
    let says = b"-ERR unknown command `AUTH`, with args beginning with: `hunter2/`, \r\n";
    let address = fakes::answering(says).await;
    let url = format!("redis://:{SECRET}@{address}");
    let error = fails(connect(&url, "").await, ErrorKind::Refused, Some("ERR"));
    assert!(is_silent(&said(&error)), "{}", said(&error));
    assert!(is_silent(&told().text()));
}
