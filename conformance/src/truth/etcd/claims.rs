//! What stands under a lock's name.

use std::time::Duration;

use leasehold_api::{LockName, Owner, Token};

use super::{EtcdError, EtcdKeys, EtcdPair, EtcdTruth};

/// A claim as it is stored: the first of a name is the holder, the others wait in this order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EtcdClaim {
    /// The key.
    pub key: String,
    /// Whose it is; `None` if the key does not end in an owner.
    pub owner: Option<Owner>,
    /// What its lease still has by the server's clock, in whole seconds, rounded down; `None` if it
    /// has no lease and stays for ever.
    pub remaining: Option<Duration>,
    /// The key's pair.
    pub pair: EtcdPair,
    /// Its words: `held` or `closed`, the floor, process id, time, host and perhaps a label.
    pub words: Vec<String>,
}

impl EtcdClaim {
    /// The floor that is stored with it plus the revision at which it was made; `None` without a
    /// floor.
    pub fn token(&self) -> Option<Token> {
        let floor: u64 = self.words.get(1)?.parse().ok()?;
        Token::new(floor.checked_add(self.pair.create_revision)?).ok()
    }

    /// Whether it is a record that keeps the name closed after a release.
    pub fn is_closed(&self) -> bool {
        self.words.first().is_some_and(|word| word == "closed")
    }
}

impl EtcdTruth {
    /// The claims of a name, at one revision: the holder's, and those that wait.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn claims(
        &self,
        keys: &EtcdKeys,
        name: &LockName,
    ) -> Result<Vec<EtcdClaim>, EtcdError> {
        let mut claims = Vec::new();
        for pair in self.pairs(&keys.claims(name)).await? {
            let remaining = match pair.lease {
                0 => None,
                lease => Some(self.remaining(lease).await?.unwrap_or_default()),
            };
            let key = pair.key_text();
            let owner = key.rsplit('/').next().and_then(|owner| owner.parse().ok());
            let words = pair.text().splitn(6, ' ').map(str::to_owned).collect();
            claims.push(EtcdClaim { key, owner, remaining, pair, words });
        }
        Ok(claims)
    }

    /// The claim that holds a name, or keeps it closed.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn holder(
        &self,
        keys: &EtcdKeys,
        name: &LockName,
    ) -> Result<Option<EtcdClaim>, EtcdError> {
        Ok(self.claims(keys, name).await?.into_iter().next())
    }
}
