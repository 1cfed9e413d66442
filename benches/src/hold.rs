//! Many locks that are held, and kept.

use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold::{Guard, LockName, Locks};
use leasehold_api::{Acquired, Claim, Lease, Owner, Renewal, Ttl};
use leasehold_conformance::{Failure, Verdict, ensure};

use crate::line::By;
use crate::raw::{Raw, RawLeases};

const AT_ONCE: usize = 250;

/// Guards, and what each takes of this client's resident memory.
pub(crate) async fn guards(
    locks: &Locks,
    count: usize,
    ttl: Duration,
) -> Result<(Vec<Guard>, usize), Failure> {
    let mut guards = Vec::with_capacity(count);
    let names: Vec<String> = (0..count).map(|number| format!("order:{number:010}")).collect();
    // What the first locks need besides, and a connection's buffers, is not a lock's.
    for names in names.chunks(AT_ONCE).take(4) {
        drop(take(locks, names, ttl).await?);
    }
    let before = resident()?;
    for names in names.chunks(AT_ONCE) {
        guards.extend(take(locks, names, ttl).await?);
    }
    let bytes = resident()?.saturating_sub(before) / count;
    Ok((guards, bytes))
}

async fn take(locks: &Locks, names: &[String], ttl: Duration) -> Result<Vec<Guard>, Failure> {
    let taking = names.iter().map(|name| {
        let lock = locks.lock(name).map(|lock| lock.ttl(ttl));
        async move { lock?.acquire().await }
    });
    Ok(try_join_all(taking).await?)
}

/// Releases them.
pub(crate) async fn let_go(mut guards: Vec<Guard>) -> Verdict {
    while !guards.is_empty() {
        let some = guards.split_off(guards.len().saturating_sub(AT_ONCE));
        try_join_all(some.into_iter().map(Guard::release)).await?;
    }
    Ok(())
}

/// Leases that are renewed when they are told to.
pub(crate) struct Leases {
    locks: Locks,
    leases: Vec<Lease>,
    raw: Raw,
    raw_leases: RawLeases,
}

impl Leases {
    pub(crate) async fn take(url: &str, locks: &Locks, count: usize) -> Result<Self, Failure> {
        let raw = Raw::new(url).await?;
        let raw_leases = raw.take(count).await?;
        let leases = leases(locks, count).await?;
        Ok(Self { locks: locks.clone(), leases, raw, raw_leases })
    }

    /// Renews all of them once.
    pub(crate) async fn renew(&self, by: By) -> Verdict {
        if by == By::Token {
            return self.raw.renew(&self.raw_leases).await;
        }
        for renewal in self.locks.backend().renew_all(&self.leases).await {
            ensure!(matches!(renewal?, Renewal::Renewed(_)), "each is mine");
        }
        Ok(())
    }
}

async fn leases(locks: &Locks, count: usize) -> Result<Vec<Lease>, Failure> {
    let mut leases = Vec::with_capacity(count);
    let ttl = Ttl::new(Duration::from_secs(120))?;
    let numbers: Vec<usize> = (0..count).collect();
    for numbers in numbers.chunks(AT_ONCE) {
        let taking = numbers.iter().map(async |number| {
            let name = LockName::new(&format!("held-{number}"))?;
            let claim = Claim::new(name, Owner::random(), ttl);
            match locks.backend().acquire(&claim).await? {
                Acquired::Granted(grant) => {
                    Ok(Lease::new(claim.name, claim.owner, grant.token, ttl))
                }
                held => Err(Failure::failed(format!("{held:?}"))),
            }
        });
        leases.extend(try_join_all(taking).await?);
    }
    Ok(leases)
}

/// Resident memory of this process, in bytes.
fn resident() -> Result<usize, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.map(|kilobytes: usize| kilobytes * 1024).ok_or_else(|| Failure::failed("no VmRSS"))
}
