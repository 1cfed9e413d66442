//! What a raise of the tokens does to those who wait: they are sent back.

use std::collections::HashMap;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, KeyValue, Txn, TxnOp};
use leasehold_api::{Names, Token};

use crate::claim::untouched_record;
use crate::driver::Core;
use crate::error::Failure;
use crate::record;

/// How often it is looked who waits.
const ROUNDS: usize = 16;

impl Core {
    /// Deletes the claims that wait over a floor that is too low now, which so claim anew. Those
    /// who hold keep what they have, and so do those who have become the first and not heard of it
    /// yet: to the store they hold. Done when a look finds none.
    pub(crate) async fn send_back_waiters(
        &self,
        names: Names<'_>,
        above: Token,
    ) -> Result<(), Failure> {
        for _ in 0..ROUNDS {
            let waiting = self.waiting_too_low(names, above).await?;
            if waiting.is_empty() {
                return Ok(());
            }
            // The youngest first, so that who is before it is still there.
            for (kv, before) in waiting.iter().rev() {
                self.send_back(kv.key(), kv.mod_revision(), before).await?;
            }
        }
        Err(Failure::Contended)
    }

    /// Who waits with a token that is not above this one, the oldest first, and the key before
    /// each.
    ///
    /// The pages are not of one instant: a key that has gone since is not sent back, and one that
    /// came since is over the raised floor.
    async fn waiting_too_low(
        &self,
        names: Names<'_>,
        above: Token,
    ) -> Result<Vec<(KeyValue, Vec<u8>)>, Failure> {
        let beginning = match names {
            Names::One(name) => self.keys.line(name),
            Names::All => self.keys.beginning(""),
        };
        let mut all = Vec::new();
        self.each_key(&beginning, |kv| all.push(kv)).await?;
        all.sort_by_key(KeyValue::create_revision);
        let mut last = HashMap::new();
        let mut waiting = Vec::new();
        for kv in all {
            let Some((name, _)) = self.keys.read(kv.key()) else { continue };
            let Some(before) = last.insert(name, kv.key().to_vec()) else { continue };
            let token = untouched_record(&kv)
                .and_then(|record| record::token(record.floor, kv.create_revision()));
            if token.is_some_and(|token| token <= above) {
                waiting.push((kv, before));
            }
        }
        Ok(waiting)
    }

    /// Invariant: only a claim that waits is deleted: one that another key stands before.
    async fn send_back(&self, key: &[u8], modified: i64, before: &[u8]) -> Result<(), Failure> {
        let txn = Txn::new()
            .when([
                Compare::mod_revision(key, CompareOp::Equal, modified),
                Compare::create_revision(before, CompareOp::Greater, 0),
            ])
            .and_then([TxnOp::delete(key, None)]);
        self.txn(Duration::from_secs(1), &txn).await?;
        Ok(())
    }
}
