//! What the server counts: commands, clients, memory, time.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Arg, Cmd, RedisResult};

use super::{NAME, Own, RedisTruth};

/// How often each command was called, as the server counted.
///
/// A command that a script calls counts besides the script. Names are the server's: lower case, a
/// subcommand after a bar (`client|list`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands(BTreeMap<String, u64>);

impl Commands {
    /// What was called since an earlier look at the same server.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let more = self.0.iter().filter_map(|(name, calls)| {
            let calls = calls.saturating_sub(earlier.calls(name));
            (calls > 0).then(|| (name.clone(), calls))
        });
        Self(more.collect())
    }

    /// The calls of one command.
    pub fn calls(&self, command: &str) -> u64 {
        self.0.get(command).copied().unwrap_or(0)
    }

    /// The calls of all.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Each command that was called, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, calls)| (name.as_str(), *calls))
    }
}

/// One connection to the server, as `CLIENT LIST` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo(BTreeMap<String, String>);

impl ClientInfo {
    /// Its id, for [`RedisTruth::client_kill`].
    pub fn id(&self) -> u64 {
        self.field("id").parse().unwrap_or(0)
    }

    /// The name it gave itself, or nothing.
    pub fn name(&self) -> &str {
        self.field("name")
    }

    /// The address it comes from: a proxy's, if there is one between.
    pub fn addr(&self) -> &str {
        self.field("addr")
    }

    /// Any field by the server's name for it (`sub`, `resp`, `cmd`, ..); empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl RedisTruth {
    /// How often each command was called since the server started, without this reader's calls.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn commands(&self) -> RedisResult<Commands> {
        let text: String = self.words(&["INFO", "everything"]).await?;
        let mut all = BTreeMap::new();
        let mut own = self.own();
        for line in text.lines() {
            if let Some(server) = line.strip_prefix("run_id:")
                && server != own.server
            {
                // Another start of the server: it counts from zero. This call comes after its count.
                let calls = BTreeMap::from([("info".to_owned(), 1)]);
                let first = std::mem::replace(&mut *own, Own { server: server.into(), calls });
                if first.server.is_empty() {
                    own.calls = first.calls;
                }
            }
            if let Some((name, rest)) =
                line.strip_prefix("cmdstat_").and_then(|s| s.split_once(':'))
                && let Some((calls, _)) =
                    rest.strip_prefix("calls=").and_then(|s| s.split_once(','))
            {
                all.insert(name.to_owned(), calls.parse().unwrap_or(0));
            }
        }
        for (name, calls) in &own.calls {
            // The server counts a call when it is over, so this one is not in its answer.
            let calls = calls - u64::from(name == "info");
            if let Some(all) = all.get_mut(name) {
                *all = u64::saturating_sub(*all, calls);
            }
        }
        all.retain(|_, calls| *calls > 0);
        Ok(Commands(all))
    }

    /// The server's connections, without those of truth readers.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn clients(&self) -> RedisResult<Vec<ClientInfo>> {
        let text: String = self.words(&["CLIENT", "LIST"]).await?;
        let clients = text.lines().map(|line| {
            let fields = line.split(' ').filter_map(|field| field.split_once('='));
            ClientInfo(fields.map(|(name, value)| (name.into(), value.into())).collect())
        });
        Ok(clients.filter(|client| client.name() != NAME).collect())
    }

    /// How many connections carry this name.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn connected(&self, name: &str) -> RedisResult<usize> {
        let clients = self.clients().await?;
        Ok(clients.iter().filter(|client| client.name() == name).count())
    }

    /// The memory that the server uses, in bytes.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn used_memory(&self) -> RedisResult<u64> {
        let text: String = self.words(&["INFO", "memory"]).await?;
        let line = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
        Ok(line.and_then(|number| number.parse().ok()).unwrap_or(0))
    }

    /// The server's clock, since 1970, to the microsecond.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn now(&self) -> RedisResult<Duration> {
        let (seconds, micros): (u64, u64) = self.words(&["TIME"]).await?;
        Ok(Duration::from_secs(seconds) + Duration::from_micros(micros))
    }
}

/// The server's name for a command in its statistics.
pub(super) fn name(command: &Cmd) -> String {
    let mut words = command.args_iter().filter_map(|arg| match arg {
        Arg::Simple(word) => Some(String::from_utf8_lossy(word).to_ascii_lowercase()),
        _ => None,
    });
    let first = words.next().unwrap_or_default();
    match (first.as_str(), words.next()) {
        ("acl" | "client" | "config" | "memory" | "object" | "script", Some(second)) => {
            format!("{first}|{second}")
        }
        _ => first,
    }
}
