//! The limit of etcd.

use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, EventType, KvClient, LeaseClient, PutOptions, Txn, TxnOp,
    WatchOptions, WatchStream,
};
use futures_util::future::try_join_all;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::sync::mpsc;

use super::TTL;
use crate::line::Slice;

/// How many puts are under way while locks are taken.
const AT_ONCE: usize = 250;
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens a connection.
async fn connect(url: &str) -> Result<Client, Failure> {
    let (_, rest) = url.split_once("://").ok_or_else(|| Failure::failed("no URL"))?;
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    Ok(Client::connect([format!("http://{host}")], None).await?)
}

/// A lock of one lease: the key is put where there is none, and deleted as it was put. The revision
/// is the token.
#[derive(Clone)]
pub(crate) struct Etcd {
    kv: KvClient,
    leases: LeaseClient,
    lease: i64,
}

pub(crate) struct EtcdLock {
    line: String,
    metadata: String,
    owners: u128,
}

impl EtcdLock {
    pub(super) fn new(number: usize, name: &str) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let metadata = format!("0 {} 1700000000000 {host}", std::process::id());
        Self { line: format!("raw-limit:l:{name}:"), metadata, owners: (number as u128) << 64 }
    }

    fn key(&mut self) -> String {
        self.owners += 1;
        format!("{}{:032x}", self.line, self.owners)
    }
}

impl Etcd {
    pub(super) async fn new(url: &str) -> Result<Self, Failure> {
        let client = connect(url).await?;
        let ttl = i64::try_from(TTL.as_secs() * 20)?; // no slice takes so long
        let mut leases = client.lease_client();
        let lease = leases.grant(ttl, None).await?.id();
        Ok(Self { kv: client.kv_client(), leases, lease })
    }

    pub(super) async fn pair(&self, lock: &mut EtcdLock) -> Verdict {
        let mut kv = self.kv.clone();
        let key = lock.key();
        let put = PutOptions::new().with_lease(self.lease);
        let free = Compare::create_revision(lock.line.as_str(), CompareOp::Equal, 0).with_prefix();
        let put = TxnOp::put(key.as_str(), lock.metadata.as_str(), Some(put));
        let answer = kv.txn(Txn::new().when([free]).and_then([put])).await?;
        ensure!(answer.succeeded(), "a lock of one task is free");
        let token = answer.header().map_or(0, |header| header.revision());
        let mine = Compare::mod_revision(key.as_str(), CompareOp::Equal, token);
        let delete = TxnOp::delete(key.as_str(), None);
        let answer = kv.txn(Txn::new().when([mine]).and_then([delete])).await?;
        ensure!(answer.succeeded(), "its lock is its own");
        Ok(())
    }

    /// All on one lease.
    pub(super) async fn take(&self, count: usize) -> Result<i64, Failure> {
        let numbers: Vec<usize> = (0..count).collect();
        for numbers in numbers.chunks(AT_ONCE) {
            let puts = numbers.iter().map(|number| {
                let mut kv = self.kv.clone();
                let put = PutOptions::new().with_lease(self.lease);
                async move { kv.put(format!("raw-limit:held-{number}"), "0", Some(put)).await }
            });
            try_join_all(puts).await?;
        }
        Ok(self.lease)
    }

    pub(super) async fn renew(&self, lease: i64) -> Verdict {
        self.leases.clone().keep_alive(lease).await?;
        Ok(())
    }
}

/// A key for each waiter: whose key is written has the baton. A process hears of its waiters' keys
/// by one watch, which stays open.
pub(crate) struct Baton {
    kv: KvClient,
    next: String,
    mine: mpsc::UnboundedReceiver<u64>,
}

impl Baton {
    pub(super) async fn of(url: &str, slice: &Slice) -> Result<Vec<Self>, Failure> {
        let client = connect(url).await?;
        let key = |waiter: usize| format!("raw-limit:{}:{waiter:04}", slice.name);
        let (first, end) = (slice.first, slice.first + slice.waiters);
        // What is written before the watch is open is told, too.
        let since = i64::try_from(slice.since)?;
        let watched = WatchOptions::new().with_range(key(end)).with_start_revision(since + 1);
        let stream = client.watch_client().watch(key(first), Some(watched)).await?;
        let mut told = Vec::new();
        let mut batons = Vec::new();
        for waiter in first..end {
            let (tells, mine) = mpsc::unbounded_channel();
            let next = key((waiter + 1) % slice.among);
            batons.push(Self { kv: client.kv_client(), next, mine });
            told.push(tells);
        }
        if first == 0 {
            let _ = told[0].send(slice.since);
        }
        // It ends with the waiters, and the watch with it.
        tokio::spawn(tell(stream, told, first));
        Ok(batons)
    }

    pub(super) async fn comes(&mut self) -> Result<u64, Failure> {
        let told = tokio::time::timeout(PATIENCE, self.mine.recv()).await?;
        told.ok_or_else(|| Failure::failed("the watch ended"))
    }

    pub(super) async fn goes_on(&mut self) -> Verdict {
        self.kv.put(self.next.as_str(), "0", None).await?;
        Ok(())
    }
}

async fn tell(mut stream: WatchStream, told: Vec<mpsc::UnboundedSender<u64>>, first: usize) {
    loop {
        let answer = tokio::select! {
            answer = stream.message() => answer,
            () = all_left(&told) => return,
        };
        let Ok(Some(answer)) = answer else { return };
        let puts = answer.events().iter().filter(|event| event.event_type() == EventType::Put);
        for kv in puts.filter_map(|event| event.kv()) {
            let number = kv.key_str().ok().and_then(|key| key.rsplit(':').next()?.parse().ok());
            if let Some(tells) = number.and_then(|number: usize| told.get(number - first)) {
                // Who has left by then is not waited for.
                let _ = tells.send(kv.mod_revision().unsigned_abs());
            }
        }
    }
}

async fn all_left(told: &[mpsc::UnboundedSender<u64>]) {
    for tells in told {
        tells.closed().await;
    }
}
