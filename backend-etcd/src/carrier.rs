//! The etcd lease that carries a claim's key: a session's, or one of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_api::{BootClock, Clock, Instant, Owner};

use crate::error::Failure;
use crate::keepalive::keep_alive;
use crate::link::Link;
use crate::session::Session;

/// What carries a claim's key.
#[derive(Debug, Clone)]
pub(crate) enum Carrier {
    /// It is shared, and lives for as long as somebody renews any of its locks.
    Shared(Arc<Session>),
    /// It is of this claim alone.
    Own(Arc<OwnLease>),
}

/// A lease of one claim.
#[derive(Debug)]
pub(crate) struct OwnLease {
    pub(crate) id: i64,
    /// Since when, and for how long, the server keeps it.
    counts: Mutex<(Instant, Duration)>,
}

impl Carrier {
    pub(crate) fn lease(&self) -> i64 {
        match self {
            Self::Shared(session) => session.id,
            Self::Own(own) => own.id,
        }
    }

    /// Whether keys on it are still promised to anybody.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::Shared(session) => session.is_alive(),
            Self::Own(own) => {
                let (from, ttl) = own.counts();
                BootClock.now() < from.saturating_add(ttl)
            }
        }
    }

    /// What the server keeps of it at least, counted from `from`.
    pub(crate) fn remaining(&self, from: Instant) -> Duration {
        match self {
            Self::Shared(session) => session.remaining(from),
            Self::Own(own) => {
                let (counts_from, ttl) = own.counts();
                ttl.saturating_sub(from.since(counts_from))
            }
        }
    }

    /// Keeps it alive; answers from when its time counts, and how long it is. `always` asks the
    /// server even if a shared one is fresh.
    pub(crate) async fn keep_alive(
        &self,
        link: &Link,
        always: bool,
    ) -> Result<(Instant, Duration), Failure> {
        match self {
            Self::Shared(session) => session.keep_alive(link, always).await,
            Self::Own(own) => {
                let (_, ttl) = own.counts();
                let from = BootClock.now();
                keep_alive(link, own.id, ttl).await?;
                own.count((from, ttl));
                Ok((from, ttl))
            }
        }
    }

    /// Keeps one of its own alive, unless that was done a moment ago; who joins a shared one finds
    /// it fresh.
    pub(crate) async fn keep_fresh(&self, link: &Link) -> Result<(), Failure> {
        if let Self::Own(own) = self {
            let (from, ttl) = own.counts();
            if BootClock.now().since(from) >= ttl / 3 {
                self.keep_alive(link, true).await?;
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn own_for_tests() -> Self {
        Self::Own(Arc::new(OwnLease::new(1, BootClock.now(), Duration::from_secs(1))))
    }
}

impl OwnLease {
    pub(crate) fn new(id: i64, from: Instant, ttl: Duration) -> Self {
        Self { id, counts: Mutex::new((from, ttl)) }
    }

    /// The lease of a claim's own: its number comes from the owner, so that a repeat finds it and a
    /// clean-up can revoke it without knowing more.
    pub(crate) fn number(owner: Owner) -> i64 {
        let bits = (owner.bits() >> 64) as u64 ^ owner.bits() as u64;
        i64::try_from(bits >> 1).unwrap_or(i64::MAX).max(1)
    }

    fn counts(&self) -> (Instant, Duration) {
        *self.counts.lock().expect("nothing panics while it holds this lock")
    }

    fn count(&self, counts: (Instant, Duration)) {
        *self.counts.lock().expect("nothing panics while it holds this lock") = counts;
    }
}

/// How long a lease was granted for, and what is left of it, by the server, which tells whole
/// seconds: at least what is answered is left, and less than a second more. `None` if it is gone.
pub(crate) async fn time_left(
    link: &Link,
    lease: i64,
) -> Result<Option<(Duration, Duration)>, Failure> {
    let answer = link
        .call(Duration::from_secs(1), |client| {
            let mut leases = client.lease_client();
            async move { leases.time_to_live(lease, None).await }
        })
        .await;
    match answer {
        Ok(answer) if answer.ttl() < 0 => Ok(None),
        Ok(answer) => Ok(Some((
            Duration::from_secs(answer.granted_ttl().unsigned_abs()),
            Duration::from_secs(answer.ttl().unsigned_abs()),
        ))),
        Err(failure) if failure.is_no_lease() => Ok(None),
        Err(failure) => Err(failure),
    }
}
