//! The truth about a Redis server, and an operator's hands in it.

mod keys;
mod operator;
mod stats;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex as Lock, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisResult};
use tokio::sync::Mutex;

pub use self::keys::{Entry, Value};
pub use self::operator::Busy;
pub use self::stats::{ClientInfo, Commands};

/// The name of its own connections, which [`RedisTruth::clients`] leaves out.
const NAME: &str = "leasehold-truth";

/// How long the server may take to accept a connection, and to answer (a test may pause it).
const PATIENCE: Duration = Duration::from_secs(30);

/// A reader of a Redis server with a connection of its own, by plain commands.
///
/// It connects anew where the server was restarted or its connection was killed, and sends the
/// command once more then; all its commands may be sent twice. Its own commands are taken out of
/// [`commands`](Self::commands).
///
/// Every method fails with the server's error, or with an I/O error where the server is down.
/// Dropping a method's future may leave its command under way.
pub struct RedisTruth {
    client: redis::Client,
    connection: Mutex<Option<MultiplexedConnection>>,
    own: Lock<Own>,
}

/// The commands that it sent itself since the server started.
#[derive(Debug, Default)]
struct Own {
    server: String,
    calls: BTreeMap<String, u64>,
}

impl RedisTruth {
    /// Connects to the server at a URL without TLS ([`Server::url`](crate::servers::Server::url)).
    ///
    /// # Errors
    ///
    /// If the URL is malformed or the server refuses.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind.
    pub async fn connect(url: &str) -> RedisResult<Self> {
        let truth = Self {
            client: redis::Client::open(url)?,
            connection: Mutex::default(),
            own: Lock::default(),
        };
        truth.words::<()>(&["PING"]).await?;
        Ok(truth)
    }

    /// Any other command, given as its words.
    ///
    /// # Errors
    ///
    /// The server's.
    ///
    /// # Cancel safety
    ///
    /// The command may be under way. It may be sent twice, so it should be one that bears it.
    pub async fn command(&self, words: &[&str]) -> RedisResult<redis::Value> {
        self.words(words).await
    }

    async fn words<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(*word);
        }
        self.query(&command).await
    }

    async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let mut held = self.connection.lock().await;
        let (mut connection, fresh) = match held.take() {
            Some(connection) => (connection, false),
            None => (self.new_connection().await?, true),
        };
        let mut answer: RedisResult<redis::Value> = command.query_async(&mut connection).await;
        if !fresh && answer.as_ref().is_err_and(lost) {
            connection = self.new_connection().await?;
            answer = command.query_async(&mut connection).await;
        }
        if !answer.as_ref().is_err_and(lost) {
            *held = Some(connection);
        }
        drop(held);
        let answer = answer?;
        *self.own().calls.entry(stats::name(command)).or_default() += 1;
        Ok(redis::from_redis_value(answer)?)
    }

    async fn new_connection(&self) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let mut connection =
            self.client.get_multiplexed_async_connection_with_config(&config).await?;
        redis::cmd("CLIENT").arg("SETNAME").arg(NAME).exec_async(&mut connection).await?;
        *self.own().calls.entry("client|setname".into()).or_default() += 1;
        Ok(connection)
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RedisTruth {
    // Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTruth").finish_non_exhaustive()
    }
}

/// Whether the connection is of no more use.
fn lost(error: &redis::RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error()
}
