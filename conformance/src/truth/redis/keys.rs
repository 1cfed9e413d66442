//! What is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use redis::RedisResult;

use super::RedisTruth;

/// How often [`RedisTruth::keys_until`] looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One key's content.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// How long it still lives by the server's clock; `None` if for ever.
    pub ttl: Option<Duration>,
    /// What it holds.
    pub value: Value,
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// A list, from its head.
    List(Vec<Vec<u8>>),
    /// A set.
    Set(BTreeSet<Vec<u8>>),
    /// A hash.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A sorted set, lowest score first.
    Sorted(Vec<(Vec<u8>, f64)>),
    /// Another type, by Redis' name for it.
    Other(String),
}

impl Value {
    /// The text of a string that is UTF-8.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

impl RedisTruth {
    /// All keys with this prefix, and what they hold. Not one instant: keys are read one by one.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn keys(&self, prefix: &str) -> RedisResult<BTreeMap<Vec<u8>, Entry>> {
        let pattern = format!("{}*", escape(prefix));
        let mut found = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let words = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", "1000"];
            let (next, keys): (String, Vec<Vec<u8>>) = self.words(&words).await?;
            found.extend(keys);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        let mut all = BTreeMap::new();
        for key in found {
            if let Some(entry) = self.entry(&key).await? {
                all.insert(key, entry);
            }
        }
        Ok(all)
    }

    /// The same once this is true of them, or else as they are when the time is over.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn keys_until(
        &self,
        prefix: &str,
        within: Duration,
        mut settled: impl FnMut(&BTreeMap<Vec<u8>, Entry>) -> bool,
    ) -> RedisResult<BTreeMap<Vec<u8>, Entry>> {
        let started = Instant::now();
        loop {
            let keys = self.keys(prefix).await?;
            if settled(&keys) || started.elapsed() > within {
                return Ok(keys);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What one key holds; `None` if there is no such key.
    ///
    /// # Errors
    ///
    /// As [`RedisTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn entry(&self, key: impl AsRef<[u8]>) -> RedisResult<Option<Entry>> {
        let key = key.as_ref();
        let kind: String = self.query(redis::cmd("TYPE").arg(key)).await?;
        let value = match kind.as_str() {
            "none" => return Ok(None),
            "string" => match self.query(redis::cmd("GET").arg(key)).await? {
                Some(bytes) => Value::String(bytes),
                // It ended between the two looks.
                None => return Ok(None),
            },
            "list" => Value::List(self.query(redis::cmd("LRANGE").arg(key).arg(0).arg(-1)).await?),
            "set" => Value::Set(self.query(redis::cmd("SMEMBERS").arg(key)).await?),
            "hash" => Value::Hash(self.query(redis::cmd("HGETALL").arg(key)).await?),
            "zset" => {
                let mut range = redis::cmd("ZRANGE");
                range.arg(key).arg(0).arg(-1).arg("WITHSCORES");
                Value::Sorted(self.query(&range).await?)
            }
            other => Value::Other(other.to_owned()),
        };
        let left: i64 = self.query(redis::cmd("PTTL").arg(key)).await?;
        Ok(match left {
            -2 => None,
            -1 => Some(Entry { ttl: None, value }),
            left => Some(Entry { ttl: Some(Duration::from_millis(left.unsigned_abs())), value }),
        })
    }
}

/// A pattern that matches these bytes and nothing else.
fn escape(text: &str) -> String {
    let special = |c| matches!(c, '*' | '?' | '[' | ']' | '^' | '\\' | '-');
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}
