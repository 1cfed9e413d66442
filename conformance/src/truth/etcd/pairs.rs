//! What is stored.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::EtcdTruth;
use crate::gateway::{EtcdError, id, text};

/// How often [`EtcdTruth::pairs_until`] looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One key, and what etcd has with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EtcdPair {
    /// The key.
    pub key: Vec<u8>,
    /// What it holds.
    pub value: Vec<u8>,
    /// The revision at which it was made.
    pub create_revision: u64,
    /// The revision at which it was written last.
    pub mod_revision: u64,
    /// How often it was written since it was made.
    pub version: u64,
    /// The lease that it ends with; zero if none.
    pub lease: u64,
}

impl EtcdPair {
    fn of(value: &Value) -> Self {
        Self {
            key: bytes(&value["key"]),
            value: bytes(&value["value"]),
            create_revision: id(&value["create_revision"]),
            mod_revision: id(&value["mod_revision"]),
            version: id(&value["version"]),
            lease: id(&value["lease"]),
        }
    }

    /// The key as text, with what is not UTF-8 replaced.
    pub fn key_text(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }

    /// The value as text, with what is not UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.value).into_owned()
    }
}

impl EtcdTruth {
    /// All keys with this prefix at one revision, the oldest (by when it was made) first.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn pairs(&self, prefix: &str) -> Result<Vec<EtcdPair>, EtcdError> {
        let range = json!({
            "key": encode(first(prefix)),
            "range_end": encode(end(prefix)),
            "sort_target": "CREATE",
            "sort_order": "ASCEND",
        });
        let answer = self.call("/v3/kv/range", &range).await?;
        Ok(answer["kvs"].as_array().into_iter().flatten().map(EtcdPair::of).collect())
    }

    /// The same once this is true of them, or else as they are when the time is over.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn pairs_until(
        &self,
        prefix: &str,
        within: Duration,
        mut settled: impl FnMut(&[EtcdPair]) -> bool,
    ) -> Result<Vec<EtcdPair>, EtcdError> {
        let started = Instant::now();
        loop {
            let pairs = self.pairs(prefix).await?;
            if settled(&pairs) || started.elapsed() > within {
                return Ok(pairs);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What one key holds; `None` if there is no such key.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn pair(&self, key: impl AsRef<[u8]>) -> Result<Option<EtcdPair>, EtcdError> {
        let answer = self.call("/v3/kv/range", &json!({"key": encode(key)})).await?;
        Ok(answer["kvs"].get(0).map(EtcdPair::of))
    }

    /// The newest revision.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn revision(&self) -> Result<u64, EtcdError> {
        let range = json!({"key": encode("\0"), "count_only": true});
        Ok(id(&self.call("/v3/kv/range", &range).await?["header"]["revision"]))
    }
}

/// Bytes as the gateway has them.
pub(super) fn encode(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(text(value)).unwrap_or_default()
}

/// The first key with this prefix.
pub(super) fn first(prefix: &str) -> Vec<u8> {
    // No key is empty; a zero byte is the least of all keys.
    if prefix.is_empty() { vec![0] } else { prefix.as_bytes().to_vec() }
}

/// The key after the last with this prefix.
pub(super) fn end(prefix: &str) -> Vec<u8> {
    // No byte of UTF-8 is 0xff; after the empty prefix is the end of all, which a zero byte says.
    let mut end = prefix.as_bytes().to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(0),
    }
    end
}
