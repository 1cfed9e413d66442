//! The raw limit: the least that does the same work, by the client library alone.

mod etcd;
mod redis;

use leasehold_conformance::{Failure, Verdict};

use self::etcd::{Baton, Etcd, EtcdLock};
use self::redis::{List, Redis, RedisLock};
use crate::line::Slice;
use crate::under::Kind;

/// A TTL as the drivers send it.
const TTL: std::time::Duration = std::time::Duration::from_secs(30);

/// A fenced lock in the fewest words, over one connection.
#[derive(Clone)]
pub(crate) enum Raw {
    Redis(Redis),
    Etcd(Box<Etcd>),
}

/// What one task needs to lock one name.
pub(crate) enum RawLock {
    Redis(RedisLock),
    Etcd(EtcdLock),
}

/// Locks that are held, to renew.
pub(crate) enum RawLeases {
    /// Key and owner of each.
    Redis(Vec<(String, String)>),
    /// The lease that all of them are on.
    Etcd(i64),
}

/// What goes from waiter to waiter.
pub(crate) enum Token {
    Redis(List),
    Etcd(Box<Baton>),
}

impl Raw {
    pub(crate) async fn new(url: &str) -> Result<Self, Failure> {
        Ok(match Kind::of(url) {
            Kind::Redis => Self::Redis(Redis::new(url).await?),
            Kind::Etcd => Self::Etcd(Box::new(Etcd::new(url).await?)),
        })
    }

    /// A lock of this name, with keys and values as long as the driver's.
    pub(crate) fn lock(&self, number: usize, name: &str) -> RawLock {
        match self {
            Self::Redis(_) => RawLock::Redis(RedisLock::new(number, name)),
            Self::Etcd(_) => RawLock::Etcd(EtcdLock::new(number, name)),
        }
    }

    /// Acquires and releases.
    pub(crate) async fn pair(&self, lock: &mut RawLock) -> Verdict {
        match (self, lock) {
            (Self::Redis(raw), RawLock::Redis(lock)) => raw.pair(lock).await,
            (Self::Etcd(raw), RawLock::Etcd(lock)) => raw.pair(lock).await,
            _ => Err(Failure::failed("a lock of another server")),
        }
    }

    /// Takes locks to renew.
    pub(crate) async fn take(&self, count: usize) -> Result<RawLeases, Failure> {
        Ok(match self {
            Self::Redis(raw) => RawLeases::Redis(raw.take(count).await?),
            Self::Etcd(raw) => RawLeases::Etcd(raw.take(count).await?),
        })
    }

    /// Renews all of them once.
    pub(crate) async fn renew(&self, leases: &RawLeases) -> Verdict {
        match (self, leases) {
            (Self::Redis(raw), RawLeases::Redis(leases)) => raw.renew(leases).await,
            (Self::Etcd(raw), RawLeases::Etcd(lease)) => raw.renew(*lease).await,
            _ => Err(Failure::failed("leases of another server")),
        }
    }
}

impl Token {
    /// What the waiters of a slice in this process wait with.
    pub(crate) async fn of(url: &str, slice: &Slice) -> Result<Vec<Self>, Failure> {
        Ok(match Kind::of(url) {
            Kind::Redis => List::of(url, slice).await?.into_iter().map(Self::Redis).collect(),
            Kind::Etcd => {
                let batons = Baton::of(url, slice).await?.into_iter();
                batons.map(|baton| Self::Etcd(Box::new(baton))).collect()
            }
        })
    }

    /// Waits for the token for the first time.
    pub(crate) async fn pop(&mut self) -> Result<u64, Failure> {
        match self {
            Self::Redis(list) => list.pop().await,
            Self::Etcd(baton) => baton.comes().await,
        }
    }

    /// Hands the token on and waits for it again.
    pub(crate) async fn push_and_pop(&mut self, token: u64) -> Result<u64, Failure> {
        match self {
            Self::Redis(list) => list.push_and_pop(token).await,
            Self::Etcd(baton) => {
                baton.goes_on().await?;
                baton.comes().await
            }
        }
    }

    /// Hands the token on.
    pub(crate) async fn push(&mut self, token: u64) -> Verdict {
        match self {
            Self::Redis(list) => list.push(token).await,
            Self::Etcd(baton) => baton.goes_on().await,
        }
    }
}
