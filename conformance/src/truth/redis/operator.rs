//! What an operator does to a server, or another program to the keys.

use std::time::Duration;

use redis::RedisResult;
use tokio::task::JoinHandle;

use super::RedisTruth;

impl RedisTruth {
    /// Writes a string, as something that knows nothing of locks would; for ever without a TTL.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be written or not.
    pub async fn set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> RedisResult<()> {
        let mut command = redis::cmd("SET");
        command.arg(key.as_ref()).arg(value.as_ref());
        if let Some(ttl) = ttl {
            command.arg("PX").arg(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        }
        self.query(&command).await
    }

    /// Deletes a key; false if there was none.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be deleted or not.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> RedisResult<bool> {
        self.query(redis::cmd("DEL").arg(key.as_ref())).await
    }

    /// Makes a key live for ever; false if there was none that would not.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not.
    pub async fn persist(&self, key: impl AsRef<[u8]>) -> RedisResult<bool> {
        self.query(redis::cmd("PERSIST").arg(key.as_ref())).await
    }

    /// Makes a key end at this time from now; false if there is none.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not.
    pub async fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> RedisResult<bool> {
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.query(redis::cmd("PEXPIRE").arg(key.as_ref()).arg(ttl)).await
    }

    /// Removes all keys of all databases.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not.
    pub async fn flush_all(&self) -> RedisResult<()> {
        self.words(&["FLUSHALL"]).await
    }

    /// Makes the server forget all scripts.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not.
    pub async fn script_flush(&self) -> RedisResult<()> {
        self.words(&["SCRIPT", "FLUSH"]).await
    }

    /// Changes a setting of the running server.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not.
    pub async fn config_set(&self, name: &str, value: &str) -> RedisResult<()> {
        self.words(&["CONFIG", "SET", name, value]).await
    }

    /// A setting's value; `None` if the server knows no such setting.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn config_get(&self, name: &str) -> RedisResult<Option<String>> {
        let found: Vec<String> = self.words(&["CONFIG", "GET", name]).await?;
        Ok(found.into_iter().nth(1))
    }

    /// Creates or changes a user by these rules, like `["reset", "on", ">secret", "~*", "+@all",
    /// "-@scripting"]`.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not.
    pub async fn acl_set_user(&self, name: &str, rules: &[&str]) -> RedisResult<()> {
        self.words(&[&["ACL", "SETUSER", name], rules].concat()).await
    }

    /// Closes one connection; false if it is gone already.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not.
    pub async fn client_kill(&self, id: u64) -> RedisResult<bool> {
        let killed: u64 = self.words(&["CLIENT", "KILL", "ID", &id.to_string()]).await?;
        Ok(killed > 0)
    }

    /// Closes every connection that [`clients`](Self::clients) lists, and says how many.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Some may be closed.
    pub async fn client_kill_all(&self) -> RedisResult<usize> {
        let mut killed = 0;
        for client in self.clients().await? {
            killed += usize::from(self.client_kill(client.id()).await?);
        }
        Ok(killed)
    }

    /// Makes the server do nothing at all for this time, and waits for it.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says; also if the server does not allow `DEBUG`.
    ///
    /// # Cancel safety
    ///
    /// The server sleeps on.
    pub async fn sleep(&self, time: Duration) -> RedisResult<()> {
        self.words(&["DEBUG", "SLEEP", &format!("{:.3}", time.as_secs_f64())]).await
    }

    /// Runs a script without end; the server answers everything else with BUSY from the moment this
    /// returns until [`Busy::end`].
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says; also if the server is not busy after 10 s.
    ///
    /// # Cancel safety
    ///
    /// The script may run on: the server is of no use any more.
    pub async fn busy(&self) -> RedisResult<Busy> {
        self.config_set("lua-time-limit", "1").await?;
        let mut connection = self.new_connection().await?;
        let script = tokio::spawn(async move {
            let mut endless = redis::cmd("EVAL");
            endless.arg("while true do end").arg(0);
            // It ends by SCRIPT KILL, as an error.
            let _: RedisResult<()> = endless.query_async(&mut connection).await;
        });
        let started = std::time::Instant::now();
        loop {
            match self.words::<()>(&["PING"]).await {
                Err(error) if error.code() == Some("BUSY") => return Ok(Busy(script)),
                _ if started.elapsed() > Duration::from_secs(10) => {
                    return Err((redis::ErrorKind::Client, "the server is not busy").into());
                }
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }
}

/// A server that is busy with a script.
#[derive(Debug)]
#[must_use = "the server stays busy until `end`"]
pub struct Busy(JoinHandle<()>);

impl Busy {
    /// Ends the script and waits until it has ended.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// The script may run on.
    pub async fn end(self, truth: &RedisTruth) -> RedisResult<()> {
        truth.words::<()>(&["SCRIPT", "KILL"]).await?;
        // The task does not panic, and nobody aborts it.
        let _ = self.0.await;
        truth.config_set("lua-time-limit", "5000").await
    }
}
