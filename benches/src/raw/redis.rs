//! The limit of Redis.

use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold_conformance::{Failure, Verdict, ensure};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Cmd, IntoConnectionInfo, Value};

use super::TTL;
use crate::line::Slice;

/// How many leases the driver renews with one script, and how many scripts are under way.
const BATCH: usize = 256;
const AT_ONCE: usize = 4;

/// Opens a connection that may block in a command.
async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
    let tcp = TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

/// A fenced lock in the fewest words.
#[derive(Clone)]
pub(crate) struct Redis {
    connection: MultiplexedConnection,
    acquire: String,
    release: String,
    renew: String,
}

/// What one task needs to lock one name.
pub(crate) struct RedisLock {
    keys: [String; 3],
    metadata: String,
    owners: u128,
}

impl RedisLock {
    /// A lock of this name, with keys and metadata as long as the driver's.
    pub(super) fn new(number: usize, name: &str) -> Self {
        let key = |kind: &str| format!("raw-limit:{{v1:00}}:{kind}");
        let keys = [key(&format!("lock:{name}")), key("token"), key(&format!("wait:{name}"))];
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let metadata = format!(" {} 1700000000000 {host}", std::process::id());
        Self { keys, metadata, owners: (number as u128) << 64 }
    }

    fn owner(&mut self) -> String {
        self.owners += 1;
        format!("held {:032x} ", self.owners)
    }
}

impl Redis {
    pub(super) async fn new(url: &str) -> Result<Self, Failure> {
        let mut connection = connect(url).await?;
        let mut load = async |text: &str| {
            redis::cmd("SCRIPT").arg("LOAD").arg(text).query_async::<String>(&mut connection).await
        };
        let acquire = load(include_str!("scripts/acquire.lua")).await?;
        let release = load(include_str!("scripts/release.lua")).await?;
        let renew = load(include_str!("scripts/renew.lua")).await?;
        Ok(Self { connection, acquire, release, renew })
    }

    /// Acquires and releases.
    pub(super) async fn pair(&self, lock: &mut RedisLock) -> Verdict {
        let mut connection = self.connection.clone();
        let owner = lock.owner();
        let mut acquire = call(&self.acquire, &lock.keys);
        acquire.arg(&owner).arg(TTL.as_millis() as u64).arg(&lock.metadata);
        let token: Option<u64> = acquire.query_async(&mut connection).await?;
        ensure!(token.is_some(), "a lock of one task is free");
        let mut release = call(&self.release, &lock.keys);
        let released: u64 = release.arg(&owner).query_async(&mut connection).await?;
        ensure!(released == 1, "its lock is its own");
        Ok(())
    }

    /// Takes locks to renew.
    pub(super) async fn take(&self, count: usize) -> Result<Vec<(String, String)>, Failure> {
        let mut leases = Vec::with_capacity(count);
        let mut taking = redis::pipe();
        for number in 0..count {
            let key = format!("raw-limit:{{v1:00}}:lock:held-{number}");
            let owner = format!("held {number:032x} 1700000000000000 ");
            taking.cmd("SET").arg(&key).arg(&owner).arg("PX").arg(TTL.as_millis() as u64).ignore();
            leases.push((key, owner));
        }
        taking.query_async::<()>(&mut self.connection.clone()).await?;
        Ok(leases)
    }

    /// Renews all of them once.
    pub(super) async fn renew(&self, leases: &[(String, String)]) -> Verdict {
        use futures_util::stream::{self, StreamExt, TryStreamExt};
        let batches: Vec<_> = leases.chunks(BATCH).map(|batch| self.renew_batch(batch)).collect();
        stream::iter(batches).buffered(AT_ONCE).try_collect::<()>().await
    }

    async fn renew_batch(&self, leases: &[(String, String)]) -> Verdict {
        let mut renew = redis::cmd("EVALSHA");
        renew.arg(&self.renew).arg(leases.len());
        for (key, _) in leases {
            renew.arg(key);
        }
        for (_, owner) in leases {
            renew.arg(owner).arg(TTL.as_millis() as u64);
        }
        let renewed: Vec<u64> = renew.query_async(&mut self.connection.clone()).await?;
        ensure!(renewed.len() == leases.len() && renewed.iter().all(|&one| one == 1), "all mine");
        Ok(())
    }
}

fn call(script: &str, keys: &[String]) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script).arg(keys.len()).arg(keys);
    command
}

/// A token that goes from hand to hand: popped from a list by who waits longest, and pushed back.
/// Each waiter blocks in BLPOP on a connection of its own, and sends its push and its next pop
/// together, so a hand-over is one message to the server and one from it.
pub(crate) struct List {
    connection: MultiplexedConnection,
    list: String,
}

impl List {
    /// Each waiter on a connection of its own.
    pub(super) async fn of(url: &str, slice: &Slice) -> Result<Vec<Self>, Failure> {
        let connections = try_join_all((0..slice.waiters).map(|_| connect(url))).await?;
        let list = |connection| Self { connection, list: slice.name.clone() };
        Ok(connections.into_iter().map(list).collect())
    }

    /// Waits for the token for the first time.
    pub(super) async fn pop(&mut self) -> Result<u64, Failure> {
        let mut pop = redis::cmd("BLPOP");
        let popped = pop.arg(&self.list).arg(PATIENCE).query_async(&mut self.connection).await?;
        number(popped)
    }

    /// Hands the token on and waits for it again.
    pub(super) async fn push_and_pop(&mut self, token: u64) -> Result<u64, Failure> {
        let mut both = redis::pipe();
        both.cmd("RPUSH").arg(&self.list).arg(token + 1).ignore();
        both.cmd("BLPOP").arg(&self.list).arg(PATIENCE);
        let (popped,): (Value,) = both.query_async(&mut self.connection).await?;
        number(popped)
    }

    /// Hands the token on.
    pub(super) async fn push(&mut self, token: u64) -> Verdict {
        let mut push = redis::cmd("RPUSH");
        Ok(push.arg(&self.list).arg(token + 1).query_async(&mut self.connection).await?)
    }
}

/// Seconds.
const PATIENCE: u64 = Duration::from_secs(30).as_secs();

fn number(popped: Value) -> Result<u64, Failure> {
    let (_, token): (String, u64) = redis::from_redis_value(popped)?;
    Ok(token)
}
