//! What the tests of every networked store (`conformance/networked`) ask of this one.

use std::time::Duration;

use leasehold::Locks;
use leasehold_conformance::proxy::{Framing, Match};
use leasehold_conformance::servers::{Redis, Server};
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Failure, Verdict};

use crate::place::as_process;

/// A TTL as short as a busy machine allows.
pub(crate) const SHORT: Duration = Duration::from_millis(600);

/// Seeds of mixed faults that once failed.
pub(crate) const SEEDS: &str = include_str!("seeds.txt");

/// What is left of a lease is told to this.
pub(crate) const GRAIN: Duration = Duration::ZERO;

pub(crate) const FRAMING: Framing = Framing::Resp;

/// The command of a look for the lock.
pub(crate) const LOOK: &str = "EVALSHA";

/// The command that asks for wake-ups.
pub(crate) const SUBSCRIBE: &str = "SUBSCRIBE";

/// That wake-ups will come from now on.
pub(crate) fn subscribed() -> Match {
    Match::pushes()
}

pub(crate) fn wake_ups() -> Match {
    // And not that it is subscribed.
    Match::pushes().and(|message| message.contains(b"\r\nmessage\r\n"))
}

/// Locks of the client that this URL asks for.
pub(crate) async fn connect(url: &str) -> Result<Locks, Failure> {
    Ok(Locks::with_backend(leasehold_redis::connect(&url.parse()?).await?))
}

/// One server for all tests of this binary.
pub(crate) async fn shared() -> Result<&'static Server, Failure> {
    Ok(Redis::shared().await?)
}

/// A server that a test stops and starts.
pub(crate) async fn own() -> Result<Server, Failure> {
    Ok(Redis::new().controlled().start().await?)
}

/// A server that is a child process.
pub(crate) async fn process() -> Result<Server, Failure> {
    as_process(&Redis::new()).await
}

/// The same, and it keeps what it has acknowledged.
pub(crate) async fn durable() -> Result<Server, Failure> {
    Ok(Redis::new().append_only().controlled().start().await?)
}

/// What an operator of this store does that the locks must stand.
pub(crate) struct Operator(RedisTruth);

impl Operator {
    pub(crate) async fn of(server: &Server) -> Result<Self, Failure> {
        Ok(Self(RedisTruth::connect(server.url()).await?))
    }

    pub(crate) async fn one(&self) -> Verdict {
        Ok(self.0.script_flush().await?)
    }

    pub(crate) async fn other(&self) -> Verdict {
        self.0.client_kill_all().await?;
        Ok(())
    }
}
