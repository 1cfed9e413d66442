//! A store that refuses a token lower than one it has seen.

use leasehold_api::Token;
use leasehold_conformance::Failure;
use leasehold_conformance::truth::RedisTruth;

const WRITE: &str = include_str!("store.lua");

/// The highest token of its writes, kept in a Redis, under a key of the lock's users.
pub(crate) struct Store {
    redis: RedisTruth,
    key: String,
}

impl Store {
    /// The store of the tests over the server at this URL; its query tells whose.
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let mut url: url::Url = url.parse()?;
        let key = format!("store:{}", url.query().unwrap_or_default());
        url.set_query(None);
        Ok(Self { redis: RedisTruth::connect(url.as_str()).await?, key })
    }

    /// False if it refuses the token.
    pub(crate) async fn write(&self, token: Token) -> Result<bool, Failure> {
        let token = token.to_string();
        let answer = self.redis.command(&["EVAL", WRITE, "1", &self.key, &token]).await?;
        let written = format!("{answer:?}");
        match written.as_str() {
            "int(1)" => Ok(true),
            "int(0)" => Ok(false),
            other => Err(Failure::failed(format!("the store answers {other}"))),
        }
    }
}
