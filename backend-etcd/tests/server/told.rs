//! What the driver tells to `tracing`.

use std::sync::LazyLock;
use std::time::Duration;

use leasehold_api::{Backend, Claim, LockName, Names, Owner, Token, Ttl};
use leasehold_conformance::proxy::{Framing, Proxy};
use leasehold_conformance::told::{Documented, Event, Told};
use leasehold_conformance::truth::EtcdTruth;
use leasehold_conformance::{Verdict, ensure};
use leasehold_etcd::{Etcd as Driver, Options};
use tokio::time::{sleep, timeout};
use tracing::Level;

use crate::common::subject::quick;

const SOON: Duration = Duration::from_secs(15);
const DOCUMENT: &str = include_str!("../../../docs/tracing.md");
const TARGET: &str = "leasehold_etcd";

/// Hears everything that this process tells from the first call on.
pub(crate) fn told() -> Told {
    static TOLD: LazyLock<Told> = LazyLock::new(|| {
        let told = Told::new();
        tracing::subscriber::set_global_default(told.clone()).expect("nobody else sets one");
        told
    });
    TOLD.clone()
}

fn is(level: Level, says: &'static str) -> impl Fn(&Event) -> bool {
    move |event| event.target == TARGET && event.level == level && event.says == says
}

pub(crate) async fn every_documented_event_is_told_and_no_other() -> Verdict {
    const FAILED: &str = "a member failed";
    let told = told();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = Options::new([closed.to_string()]);
    let _ = Driver::connect(nowhere.with_connect_timeout(Duration::from_millis(300))).await;
    told.until(is(Level::DEBUG, FAILED)).await;
    told.until(is(Level::TRACE, FAILED)).await;

    let server = quick().quota(300 << 10).start().await?;
    let truth = EtcdTruth::connect(server.url()).await?;
    let proxy = Proxy::start(server.addr(), Framing::Chunks).await?;
    let options = Options::new([proxy.addr().to_string()]).with_prefix("told");
    let client = Driver::connect(options.clone()).await?;
    let claim = || {
        let name = LockName::new("a").unwrap();
        Claim::new(name, Owner::random(), Ttl::new(Duration::from_secs(2)).unwrap())
    };
    client.raise_tokens(Names::All, Token::new(1 << 52).unwrap()).await?;
    client.acquire(&claim()).await?;
    client.acquire(&claim().with_queue(true)).await?;
    timeout(SOON, told.until(is(Level::DEBUG, "watching"))).await?;
    proxy.refuse().await;
    proxy.cut();
    asks_until(&client, told.until(is(Level::WARN, FAILED))).await?;
    timeout(SOON, told.until(is(Level::DEBUG, "the watch ended"))).await?;
    timeout(SOON, told.until(is(Level::WARN, "a shared lease ended"))).await?;
    proxy.accept().await?;
    asks_until(&client, told.until(is(Level::INFO, "connected again"))).await?;
    truth.fill("told-filler").await?;
    Driver::connect(options.with_prefix("full")).await?;
    timeout(SOON, told.until(is(Level::WARN, "the cluster may refuse or lose locks"))).await?;

    let documented = Documented::read(DOCUMENT, TARGET, "event");
    let events = told.events(TARGET);
    ensure!(documented.denies(&events).is_empty(), "{:#?}", documented.denies(&events));
    ensure!(documented.misses(&events).is_empty(), "{:#?}", documented.misses(&events));
    ensure!(told.spans(TARGET).is_empty(), "the driver has a span");
    Ok(())
}

/// Asks the store again and again: only who asks opens a connection.
async fn asks_until(client: &Driver, seen: impl Future<Output = ()>) -> Verdict {
    let asks = async {
        loop {
            // What it answers is not the matter.
            let _ = client.fencing_token(&LockName::new("a").unwrap()).await;
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        seen = timeout(SOON, seen) => Ok(seen?),
        () = asks => Ok(()),
    }
}
