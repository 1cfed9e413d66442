//! Passwords are in no output.

use std::error::Error as StdError;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use leasehold::Locks;
use leasehold_api::{Backend, Claim, Error, ErrorKind, LockName, Owner, Ttl};
use leasehold_conformance::servers::Etcd;
use leasehold_conformance::truth::EtcdTruth;
use leasehold_conformance::{Failure, Verdict, ensure};
use leasehold_etcd::{Etcd as Driver, Options};
use tokio::time::timeout;
use url::Url;

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

/// What a URL that can't be connected to is refused with.
async fn refused(url: &str) -> Result<String, Failure> {
    match leasehold_etcd::connect(&Url::parse(url)?).await {
        Err(error) => Ok(said(&error)),
        Ok(client) => Err(Failure::failed(format!("{client:?}"))),
    }
}

pub(crate) async fn no_password_is_in_debug_errors_or_logs() -> Verdict {
    let told = told();
    let server = Etcd::new().root_password("hunter2/").start().await?;
    let truth = EtcdTruth::connect(server.url()).await?;
    let at = |host: &str| format!("etcd://root:{SECRET}@{host}");
    let options = Options::from_url(&Url::parse(&at(&server.addr().to_string()))?)?;
    let mut text = format!("{options:?} {options:#?} ");
    let driver = Driver::connect(options).await?;
    for queue in [false, true] {
        let (name, ttl) = (LockName::new("waited-for")?, Ttl::new(Duration::from_secs(20))?);
        driver.acquire(&Claim::new(name, Owner::random(), ttl).with_queue(queue)).await?;
    }
    write!(text, "{driver:?} {driver:#?} {:?} ", driver.profile())?;

    let closed = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let wrong = Etcd::new().root_password("another").start().await?;
    let quick = "?connect_timeout=300ms";
    for url in [
        at(&format!("{closed}{quick}")),
        at(&format!("{}{quick}", silent.local_addr()?)),
        at(&format!("{}{quick}", wrong.addr())),
        at("no-such-host.invalid") + quick,
        at("h?unknown=1"),
        at("h?timeout=x"),
        at("h/path"),
        at("h,"),
        format!("etcd://{SECRET}@h"),
        format!("etcd://root:{SECRET}%ff@h"),
        format!("http://root:{SECRET}@h"),
    ] {
        text += &refused(&url).await?;
    }
    text += &through_the_facade(driver, &truth).await?;
    let told = told.text();
    for says in ["connected", "watching", "acquire dropped"] {
        ensure!(told.contains(&format!("{says:?}")), "{says:?} was not told");
    }
    let leak = told.lines().find(|line| line.contains("hunter2"));
    ensure!(leak.is_none(), "told: {leak:?}");
    ensure!(!text.contains("hunter2"), "said: {text}");
    Ok(())
}

/// Spans and events of the client, up to a cluster that suddenly wants another password.
async fn through_the_facade(driver: Driver, truth: &EtcdTruth) -> Result<String, Failure> {
    let locks = Locks::with_backend(Arc::new(driver));
    let lock = locks.lock("a")?;
    let guard = lock.acquire().await?;
    let mut text = said(&lock.acquire_within(Duration::ZERO).await.unwrap_err());
    let waits = lock.acquire_within(Duration::from_secs(5));
    ensure!(timeout(Duration::from_millis(50), waits).await.is_err(), "two hold");
    guard.release().await?;
    let guard = lock.acquire().await?;
    truth.change_password("root", "changed").await?;
    let error = locks.lock("b")?.acquire().await.unwrap_err();
    ensure!(error.kind() == ErrorKind::Auth, "{error}");
    text += &said(&error);
    text += &format!("{locks:?} {lock:?} {guard:?}");
    Ok(text)
}
