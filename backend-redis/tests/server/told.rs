//! What the driver tells to `tracing`.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use leasehold_api::{Backend, ErrorKind};
use leasehold_conformance::proxy::{Framing, Proxy};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::told::{Documented, Event, Told, Value};
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Verdict, ensure};
use tokio::time::{sleep, timeout};
use tracing::Level;

use crate::common::{claim, connect, fails, take};
use crate::fakes;

const SOON: Duration = Duration::from_secs(10);
const DOCUMENT: &str = include_str!("../../../docs/tracing.md");
const TARGET: &str = "leasehold_redis";

/// Hears everything that this process tells from the first call on.
pub(crate) fn told() -> Told {
    static TOLD: LazyLock<Told> = LazyLock::new(|| {
        let told = Told::new();
        tracing::subscriber::set_global_default(told.clone()).expect("nobody else sets one");
        told
    });
    TOLD.clone()
}

/// Whether an event is this one, of the client of this server.
fn is(server: SocketAddr, level: Level, says: &'static str) -> impl Fn(&Event) -> bool {
    let server = Value::Text(server.to_string());
    move |event| {
        event.level == level && event.says == says && event.fields.get("server") == Some(&server)
    }
}

pub(crate) async fn every_documented_event_is_told_and_no_other() -> Verdict {
    const NO_CONNECTION: &str = "can't connect";
    let told = told();
    let nowhere = fakes::closed().await;
    let never = connect(&format!("redis://{nowhere}"), "connect_timeout=300ms").await;
    fails(never, ErrorKind::Unreachable, None);
    told.until(is(nowhere, Level::DEBUG, NO_CONNECTION)).await;
    told.until(is(nowhere, Level::TRACE, NO_CONNECTION)).await;

    let server = Redis::new().start().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let at = proxy.addr();
    let client = connect(&proxy.url(server.url()), "").await?;
    take(&*client, &claim("a")).await?;
    client.acquire(&claim("a").with_queue(true)).await?;
    timeout(SOON, told.until(is(at, Level::DEBUG, "subscribed"))).await?;
    proxy.refuse().await;
    proxy.cut();
    asks_until(&*client, told.until(is(at, Level::WARN, NO_CONNECTION))).await?;
    asks_until(&*client, told.until(is(at, Level::TRACE, NO_CONNECTION))).await?;
    for level in [Level::DEBUG, Level::TRACE] {
        timeout(SOON, told.until(is(at, level, NO_SUBSCRIPTION))).await?;
    }
    proxy.accept().await?;
    asks_until(&*client, told.until(is(at, Level::INFO, "connected again"))).await?;
    refused_subscription(&server, &told).await?;

    let documented = Documented::read(DOCUMENT, TARGET, "event");
    let events = told.events(TARGET);
    ensure!(documented.denies(&events).is_empty(), "{:#?}", documented.denies(&events));
    ensure!(documented.misses(&events).is_empty(), "{:#?}", documented.misses(&events));
    ensure!(told.spans(TARGET).is_empty(), "the driver has a span");
    Ok(())
}

const NO_SUBSCRIPTION: &str = "can't subscribe, so waiters are woken by time only";

async fn refused_subscription(
    server: &leasehold_conformance::servers::Server,
    told: &Told,
) -> Verdict {
    let truth = RedisTruth::connect(server.url()).await?;
    truth.acl_set_user("deaf", &["on", ">pw", "~*", "resetchannels", "+@all"]).await?;
    let client = connect(&format!("redis://deaf:pw@{}", server.addr()), "").await?;
    take(&*client, &claim("b")).await?;
    client.acquire(&claim("b").with_queue(true)).await?;
    for level in [Level::WARN, Level::TRACE] {
        timeout(SOON, told.until(is(server.addr(), level, NO_SUBSCRIPTION))).await?;
    }
    Ok(())
}

/// Asks the store again and again: only who asks opens a connection.
async fn asks_until(client: &dyn Backend, seen: impl Future<Output = ()>) -> Verdict {
    let asks = async {
        loop {
            // What it answers is not the matter.
            let _ = client.acquire(&claim("other")).await;
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        seen = timeout(SOON, seen) => Ok(seen?),
        () = asks => Ok(()),
    }
}
