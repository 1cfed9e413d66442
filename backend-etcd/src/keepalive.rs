//! One keepalive of a lease, and the proof that the leader of the day has answered it.
//!
//! A leader that was stopped or cut off answers keepalives from its own memory until it hears of
//! its successor, who knows nothing of them and ends the lease: on etcd 3.4.23 two held a lock for
//! up to 3 s. A linearizable read has a quorum's answer, and a member's term only rises. So if a
//! member was in one term before the keepalive was sent, and still is in the answer to a read that
//! was sent after the keepalive's, then the leader of that term has answered it and was not deposed
//! yet. Whoever leads after it begins all leases anew.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use etcd_client::{Client, GetOptions, KvClient, LeaseClient};

use crate::error::Failure;
use crate::link::Link;

/// In how many elections it is sent again.
const ATTEMPTS: usize = 3;

/// The term that each member was in when it last answered, by its id.
#[derive(Debug, Default)]
pub(crate) struct Terms(Mutex<HashMap<u64, u64>>);

impl Terms {
    fn get(&self) -> HashMap<u64, u64> {
        self.0.lock().expect("nothing panics while it holds this lock").clone()
    }

    fn saw(&self, (member, term): (u64, u64)) {
        self.0.lock().expect("nothing panics while it holds this lock").insert(member, term);
    }
}

/// Keeps a lease alive. The client library takes an answer without time left for an error.
pub(crate) async fn keep_alive(link: &Link, lease: i64, ttl: Duration) -> Result<(), Failure> {
    // A user may read no more than the prefix.
    let key = format!("{}:", link.options().prefix);
    for _ in 0..ATTEMPTS {
        let before = link.terms().get();
        let ask =
            |client: &Client| ask(client.lease_client(), client.kv_client(), lease, key.clone());
        let after = link.call(ttl / 6, ask).await?;
        let after = after.ok_or(Failure::Answer("an answer has no header"))?;
        link.terms().saw(after);
        if before.get(&after.0) == Some(&after.1) {
            return Ok(());
        }
    }
    Err(Failure::Answer("the leader changed each time that a lease was kept alive"))
}

/// Which member answered, and the term that it was in after the keepalive.
async fn ask(
    mut leases: LeaseClient,
    mut kv: KvClient,
    lease: i64,
    key: String,
) -> Result<Option<(u64, u64)>, etcd_client::Error> {
    leases.keep_alive(lease).await?;
    let read = kv.get(key, Some(GetOptions::new().with_count_only())).await?;
    Ok(read.header().map(|header| (header.member_id(), header.raft_term())))
}
