//! What an operator does: look, list, evict.

use std::collections::HashMap;
use std::time::Duration;

use etcd_client::{GetOptions, KeyValue};
use leasehold_api::{Holder, LockName, Token};

use crate::acquire::patience;
use crate::carrier;
use crate::claim::{first_of, gets, holder};
use crate::driver::Core;
use crate::error::Failure;
use etcd_client::Txn;

/// How many keys are read at once: the largest there can be are less than a client takes.
const PAGE: i64 = 1_000;

impl Core {
    pub(crate) async fn look_up(&self, name: &LockName) -> Result<Option<Holder>, Failure> {
        let Some(first) = self.first_key(name).await? else { return Ok(None) };
        let mut known = HashMap::new();
        self.with_time(&first, &mut known).await
    }

    pub(crate) async fn list_all(
        &self,
        name_prefix: &str,
    ) -> Result<Vec<(LockName, Holder)>, Failure> {
        let mut firsts: HashMap<LockName, KeyValue> = HashMap::new();
        let beginning = self.keys.beginning(name_prefix);
        self.each_key(&beginning, |kv| {
            let Some((name, _)) = self.keys.read(kv.key()) else { return };
            let is_older = firsts
                .get(&name)
                .is_none_or(|first| kv.create_revision() < first.create_revision());
            if is_older {
                firsts.insert(name, kv);
            }
        })
        .await?;
        let mut known = HashMap::new();
        let mut all = Vec::with_capacity(firsts.len());
        for (name, first) in firsts {
            if let Some(holder) = self.with_time(&first, &mut known).await? {
                all.push((name, holder));
            }
        }
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(all)
    }

    pub(crate) async fn end_lease(&self, name: &LockName, token: Token) -> Result<bool, Failure> {
        let Some(first) = self.first_key(name).await? else { return Ok(false) };
        if holder(&self.keys, &first).is_none_or(|holder| holder.token != token) {
            return Ok(false);
        }
        let place = String::from_utf8_lossy(first.key()).into_owned();
        self.delete(&place, first.mod_revision()).await
    }

    async fn first_key(&self, name: &LockName) -> Result<Option<KeyValue>, Failure> {
        let look = Txn::new().and_then([first_of(&self.keys.line(name))]);
        let answer = self.txn(patience(Duration::ZERO), &look).await?;
        Ok(gets(&answer).next().and_then(|mut kvs| kvs.pop()))
    }

    /// Reads all keys that begin so, in their order and in answers of a size that can be taken; not
    /// of one instant.
    pub(crate) async fn each_key(
        &self,
        beginning: &str,
        mut see: impl FnMut(KeyValue),
    ) -> Result<(), Failure> {
        let mut from = beginning.as_bytes().to_vec();
        loop {
            let page = self.page(&from, beginning.as_bytes()).await?;
            let more = i64::try_from(page.len()).is_ok_and(|length| length >= PAGE);
            if let Some(last) = page.last() {
                from = last.key().to_vec();
                from.push(0);
            }
            page.into_iter().for_each(&mut see);
            if !more {
                return Ok(());
            }
        }
    }

    async fn page(&self, from: &[u8], beginning: &[u8]) -> Result<Vec<KeyValue>, Failure> {
        let mut end = beginning.to_vec();
        // UTF-8 has no byte 0xff.
        end.push(0xff);
        let answer = self
            .link
            .call(patience(Duration::ZERO), |client| {
                let mut kv = client.kv_client();
                let (from, end) = (from.to_vec(), end.clone());
                let options = GetOptions::new().with_range(end).with_limit(PAGE);
                async move { kv.get(from, Some(options)).await }
            })
            .await?;
        Ok(answer.kvs().to_vec())
    }

    /// The holder that a key tells of, with what is left of its lease to the second, rounded up;
    /// each lease is asked for once.
    async fn with_time(
        &self,
        first: &KeyValue,
        known: &mut HashMap<i64, Option<Duration>>,
    ) -> Result<Option<Holder>, Failure> {
        let Some(mut holder) = holder(&self.keys, first) else { return Ok(None) };
        let lease = first.lease();
        if lease == 0 {
            return Ok(Some(holder));
        }
        let remaining = match known.get(&lease) {
            Some(remaining) => *remaining,
            None => {
                let left = carrier::time_left(&self.link, lease).await?;
                let remaining =
                    left.map(|(granted, left)| (left + Duration::from_secs(1)).min(granted));
                known.insert(lease, remaining);
                remaining
            }
        };
        // Its lease ended between the two looks.
        let Some(remaining) = remaining else { return Ok(None) };
        holder.remaining = Some(remaining);
        Ok(Some(holder))
    }
}
