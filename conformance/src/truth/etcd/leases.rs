//! Leases.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{EtcdError, EtcdTruth};
use crate::gateway::{id, text};

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EtcdLease {
    /// Its id.
    pub id: u64,
    /// What each renewal gives it.
    pub granted: Duration,
    /// What it still has by the server's clock, in whole seconds, rounded down.
    pub remaining: Duration,
    /// The keys that end with it.
    pub keys: Vec<String>,
}

impl EtcdTruth {
    /// All leases. Not one instant: they are read one by one.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn leases(&self) -> Result<Vec<EtcdLease>, EtcdError> {
        let answer = self.call("/v3/lease/leases", &json!({})).await?;
        let mut all = Vec::new();
        for lease in answer["leases"].as_array().into_iter().flatten() {
            all.extend(self.lease(id(&lease["ID"])).await?);
        }
        Ok(all)
    }

    /// One lease; `None` if it is gone.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn lease(&self, lease: u64) -> Result<Option<EtcdLease>, EtcdError> {
        let ask = json!({"ID": lease.to_string(), "keys": true});
        let answer = self.call("/v3/lease/timetolive", &ask).await?;
        // One that is gone has -1 s.
        if text(&answer["TTL"]).starts_with('-') {
            return Ok(None);
        }
        let key = |key: &Value| {
            let key = STANDARD.decode(text(key)).unwrap_or_default();
            String::from_utf8_lossy(&key).into_owned()
        };
        Ok(Some(EtcdLease {
            id: lease,
            granted: Duration::from_secs(id(&answer["grantedTTL"])),
            remaining: Duration::from_secs(id(&answer["TTL"])),
            keys: answer["keys"].as_array().into_iter().flatten().map(key).collect(),
        }))
    }

    /// What a lease still has by the server's clock, in whole seconds, rounded down; `None` if it is
    /// gone.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn remaining(&self, lease: u64) -> Result<Option<Duration>, EtcdError> {
        Ok(self.lease(lease).await?.map(|lease| lease.remaining))
    }

    /// Makes a lease of whole seconds, and gives its id.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// There may be one that nobody knows, until it ends.
    pub async fn grant(&self, ttl: Duration) -> Result<u64, EtcdError> {
        let answer =
            self.call("/v3/lease/grant", &json!({"TTL": ttl.as_secs().to_string()})).await?;
        Ok(id(&answer["ID"]))
    }

    /// Ends a lease with all its keys; false if it was gone.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not.
    pub async fn revoke(&self, lease: u64) -> Result<bool, EtcdError> {
        match self.call("/v3/lease/revoke", &json!({"ID": lease.to_string()})).await {
            Err(EtcdError::Refused { message, .. }) if message.contains("lease not found") => {
                Ok(false)
            }
            answer => answer.map(|_| true),
        }
    }
}
