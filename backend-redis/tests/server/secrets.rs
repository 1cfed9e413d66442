//! Passwords are in no output.

use std::error::Error as StdError;
use std::fmt::{Debug, Write};
use std::sync::{LazyLock, Mutex};

use leasehold_api::{Error, ErrorKind};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Verdict, ensure};
use leasehold_redis::{Options, Redis as Driver};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use url::Url;

use crate::common::{claim, connect, fails, take};
use crate::fakes;

const SECRET: &str = "hunter2%2F";

/// All that is logged by any crate at any level.
static LOGGED: LazyLock<Mutex<String>> = LazyLock::new(Mutex::default);

struct Log;

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(LOGGED.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Log);
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Log);
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Log);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// All that can be read off an error.
fn told(error: &Error) -> String {
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
    let _ = tracing::subscriber::set_global_default(Log);
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
    text += &told(&client.acquire(&claim("b")).await.unwrap_err());
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
        text += &told(&connect(&url, query).await.unwrap_err());
    }
    // A subscription that fails logs.
    take(client, &claim("c")).await?;
    let logged = LOGGED.lock().unwrap().clone();
    ensure!(logged.contains("connected"), "nothing was logged: {logged}");
    ensure!(is_silent(&logged), "logged: {logged}");
    ensure!(is_silent(&text), "said: {text}");
    Ok(())
}

pub(crate) async fn a_server_that_repeats_the_password_is_not_quoted() {
    // As a server or a proxy that knows no AUTH does.
    let says = b"-ERR unknown command `AUTH`, with args beginning with: `hunter2/`, \r\n";
    let address = fakes::answering(says).await;
    let url = format!("redis://:{SECRET}@{address}");
    let error = fails(connect(&url, "").await, ErrorKind::Refused, Some("ERR"));
    assert!(is_silent(&told(&error)), "{}", told(&error));
    assert!(is_silent(&LOGGED.lock().unwrap()));
}
