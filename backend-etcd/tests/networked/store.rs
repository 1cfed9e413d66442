//! A store that refuses a token lower than one it has seen.

use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use leasehold_api::Token;
use leasehold_conformance::Failure;

/// The highest token of its writes, kept in an etcd, under a key of the lock's users.
pub(crate) struct Store {
    client: Client,
    key: String,
}

impl Store {
    /// The store of the tests over the server at this URL; its query tells whose.
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let url: url::Url = url.parse()?;
        let at = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
        let key = format!("store:{}", url.query().unwrap_or_default());
        Ok(Self { client: Client::connect([at], None).await?, key })
    }

    /// False if it refuses the token.
    ///
    /// Invariant: what was written last was written under the highest token that was ever shown.
    /// Values are compared as text, so all are of one length; a key that is not there is not
    /// greater.
    pub(crate) async fn write(&self, token: Token) -> Result<bool, Failure> {
        let token = format!("{:020}", token.get());
        let higher = Compare::value(&*self.key, CompareOp::Greater, &*token);
        let write = TxnOp::put(&*self.key, &*token, None);
        let answer =
            self.client.kv_client().txn(Txn::new().when([higher]).or_else([write])).await?;
        Ok(!answer.succeeded())
    }
}
