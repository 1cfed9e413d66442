//! What the tests of every networked store (`conformance/networked`) ask of this one.

use std::time::Duration;

use leasehold::Locks;
use leasehold_conformance::proxy::{Framing, Match};
use leasehold_conformance::servers::{Error, Server, Way};
use leasehold_conformance::truth::EtcdTruth;
use leasehold_conformance::{Failure, Verdict};
use tokio::sync::OnceCell;

use crate::common::subject::quick;

/// A TTL as short as the server takes.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// Seeds of mixed faults that once failed.
pub(crate) const SEEDS: &str = include_str!("seeds.txt");

/// What is left of a lease is told to this.
pub(crate) const GRAIN: Duration = Duration::from_secs(1);

pub(crate) const FRAMING: Framing = Framing::Grpc;

/// The command of a look for the lock.
pub(crate) const LOOK: &str = "TXN";

/// The command that asks for wake-ups.
pub(crate) const SUBSCRIBE: &str = "WATCH";

/// That wake-ups will come from now on.
pub(crate) fn subscribed() -> Match {
    Match::command(SUBSCRIBE)
}

pub(crate) fn wake_ups() -> Match {
    Match::pushes()
}

/// Locks of the client that this URL asks for.
pub(crate) async fn connect(url: &str) -> Result<Locks, Failure> {
    Ok(Locks::with_backend(leasehold_etcd::connect(&url.parse()?).await?))
}

/// One server for all tests of this binary.
pub(crate) async fn shared() -> Result<&'static Server, Failure> {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    Ok(SERVER.get_or_try_init(async || quick().start().await).await?)
}

/// A server that a test stops and starts.
pub(crate) async fn own() -> Result<Server, Failure> {
    Ok(quick().controlled().start().await?)
}

/// A server that is a child process. Where another way is the only one that is allowed, there need
/// not be the binary.
pub(crate) async fn process() -> Result<Server, Failure> {
    let another = std::env::var("LEASEHOLD_SERVERS").is_ok_and(|way| way != "process");
    quick().start_by(Way::Process).await.map_err(|error| match error {
        Error::Missing(missing) if another => {
            Failure::not_applicable(format!("it takes a server that is a child process: {missing}"))
        }
        error => error.into(),
    })
}

/// A server that keeps what it has acknowledged, as each of them does.
pub(crate) async fn durable() -> Result<Server, Failure> {
    own().await
}

/// What an operator of this store does that the locks must stand.
pub(crate) struct Operator(EtcdTruth);

impl Operator {
    pub(crate) async fn of(server: &Server) -> Result<Self, Failure> {
        Ok(Self(EtcdTruth::connect(server.url()).await?))
    }

    pub(crate) async fn one(&self) -> Verdict {
        self.other().await?;
        self.0.compact().await?;
        Ok(())
    }

    pub(crate) async fn other(&self) -> Verdict {
        for n in 0..20 {
            self.0.put("elsewhere", n.to_string(), 0).await?;
        }
        Ok(())
    }
}
