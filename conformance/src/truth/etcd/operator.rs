//! What an operator does to etcd, or another program to the keys.

use serde_json::{Value, json};

use super::pairs::{encode, end, first};
use super::{EtcdError, EtcdTruth};
use crate::gateway::id;

impl EtcdTruth {
    /// Writes a key, with a lease or (zero) for ever, as something that knows nothing of locks would.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be written or not.
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lease: u64,
    ) -> Result<(), EtcdError> {
        let lease = lease.to_string();
        let put = json!({"key": encode(key), "value": encode(value), "lease": lease});
        self.call("/v3/kv/put", &put).await.map(drop)
    }

    /// Deletes a key; false if there was none.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be deleted or not.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, EtcdError> {
        let answer = self.call("/v3/kv/deleterange", &json!({"key": encode(key)})).await?;
        Ok(id(&answer["deleted"]) > 0)
    }

    /// Deletes all keys with this prefix (the empty one has all), and says how many there were.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// They may be deleted or not.
    pub async fn delete_all(&self, prefix: &str) -> Result<u64, EtcdError> {
        let range = json!({"key": encode(first(prefix)), "range_end": encode(end(prefix))});
        Ok(id(&self.call("/v3/kv/deleterange", &range).await?["deleted"]))
    }

    /// Forgets all that is older than the newest revision, which is the answer.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not.
    pub async fn compact(&self) -> Result<u64, EtcdError> {
        let revision = self.revision().await?;
        let compact = json!({"revision": revision.to_string(), "physical": true});
        match self.call("/v3/kv/compaction", &compact).await {
            // Nothing was written since.
            Err(EtcdError::Refused { message, .. }) if message.contains("compacted") => (),
            answer => drop(answer?),
        }
        Ok(revision)
    }

    /// Writes large values under this prefix until etcd has no more space, and says how many keys
    /// it took. For a server with a small [quota](crate::servers::Etcd::quota).
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Some may be written.
    pub async fn fill(&self, prefix: &str) -> Result<u64, EtcdError> {
        let value = vec![b'x'; 64 << 10];
        for count in 0.. {
            match self.put(format!("{prefix}{count}"), &value, 0).await {
                Err(EtcdError::Refused { message, .. }) if message.contains("space") => {
                    return Ok(count);
                }
                written => written?,
            }
        }
        unreachable!("there are many numbers")
    }

    /// Makes room after [`fill`](Self::fill): deletes those keys, forgets them, gives their space
    /// back on every member, and ends the alarm.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done in part; call again.
    pub async fn make_room(&self, prefix: &str) -> Result<(), EtcdError> {
        self.delete_all(prefix).await?;
        self.compact().await?;
        for member in &self.members {
            member.call("/v3/maintenance/defragment", &json!({}), super::PATIENCE).await?;
        }
        for alarm in self.alarms().await? {
            let mut off = alarm;
            off["action"] = "DEACTIVATE".into();
            self.call("/v3/maintenance/alarm", &off).await?;
        }
        Ok(())
    }

    /// The alarms that are on, as etcd tells them: `memberID` and `alarm` (`NOSPACE`, `CORRUPT`).
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn alarms(&self) -> Result<Vec<Value>, EtcdError> {
        let answer = self.call("/v3/maintenance/alarm", &json!({"action": "GET"})).await?;
        Ok(answer["alarms"].as_array().cloned().unwrap_or_default())
    }

    /// Creates a user who may read and write the keys with this prefix and nothing else.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done in part.
    pub async fn add_user(
        &self,
        name: &str,
        password: &str,
        prefix: &str,
    ) -> Result<(), EtcdError> {
        let range = json!({
            "permType": "READWRITE",
            "key": encode(first(prefix)),
            "range_end": encode(end(prefix)),
        });
        let steps = [
            ("/v3/auth/user/add", json!({"name": name, "password": password})),
            ("/v3/auth/role/add", json!({"name": name})),
            ("/v3/auth/role/grant", json!({"name": name, "perm": range})),
            ("/v3/auth/user/grant", json!({"user": name, "role": name})),
        ];
        for (path, body) in steps {
            self.call(path, &body).await?;
        }
        Ok(())
    }

    /// Gives a user another password; who is connected needs it from now on. This reader goes on
    /// with it if it is that user.
    ///
    /// # Errors
    ///
    /// As [`EtcdTruth`] says.
    ///
    /// # Cancel safety
    ///
    /// It may be done or not; if it is, this reader of that user is of no more use.
    pub async fn change_password(&self, user: &str, password: &str) -> Result<(), EtcdError> {
        let change = json!({"name": user, "password": password});
        self.call("/v3/auth/user/changepw", &change).await?;
        for member in &self.members {
            member.password_is(user, password);
        }
        Ok(())
    }
}
