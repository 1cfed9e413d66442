//! Every public way to acquire, and what the store has then.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use leasehold::{Guard, Lock, Locks};
use leasehold_api::{Backend, LockName, margin};

use super::super::steps::{held, is_free, kept, now, pass, take};
use super::steps::{falls_free, guard};
use crate::bench::Bench;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Base:
    c60_every_way_to_acquire_uses_the_names_one_key [policy], "1.5", "however a name is acquired, the store has the same one key of it";
    c124_every_way_to_acquire_asks_for_the_same_ttl [policy], "1.4", "however a name is acquired, the store keeps it for its TTL";
    c37_grant_after_many_tries_has_its_whole_ttl [policy, private], "2.1, 2.2, D4.2", "after 3 TTLs of waiting a guard has its whole TTL left, as the store has";
    c93_every_combination_of_options_excludes [policy], "1.2, D3.2", "whether kept alive or not, with a least or a most time or without, a held name is held off from all others";
}

/// A public way to acquire.
#[derive(Debug, Clone, Copy)]
enum Way {
    Try,
    Acquire,
    Within,
    Unbounded,
    /// Behind another guard of the same client, which hands over.
    HandedOver,
}

const WAYS: [Way; 5] = [Way::Try, Way::Acquire, Way::Within, Way::Unbounded, Way::HandedOver];

impl Way {
    async fn acquire(self, bench: &Bench, locks: &Locks, lock: &Lock) -> Result<Guard, Failure> {
        Ok(match self {
            Self::Try => {
                let guard = lock.try_acquire().await?;
                guard.ok_or_else(|| Failure::failed("a free name was not granted"))?
            }
            Self::Acquire => lock.acquire().await?,
            Self::Within => lock.acquire_within(bench.ttl().get()).await?,
            Self::Unbounded => lock.acquire_unbounded().await?,
            Self::HandedOver => {
                let first = guard(bench, locks, lock.name(), 40).await?;
                let next = lock.clone();
                let next = tokio::spawn(async move { next.acquire_unbounded().await });
                tokio::task::yield_now().await;
                first.release().await?;
                next.await??
            }
        })
    }
}

async fn c60_every_way_to_acquire_uses_the_names_one_key(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let name = bench.name();
    let lock = bench.lock(&locks, &name, 20)?;
    let mut keys = BTreeSet::new();
    for way in WAYS {
        let guard = way.acquire(bench, &locks, &lock).await?;
        let there = bench.store().leftovers(&name).await?;
        ensure!(there.len() == 1, "acquired by {way:?}, the store has {there:?}");
        keys.extend(there);
        guard.release().await?;
    }
    ensure!(keys.len() == 1, "the store had {keys:?}");
    Ok(())
}

async fn c124_every_way_to_acquire_asks_for_the_same_ttl(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let ttl = bench.ttls(17);
    for way in WAYS {
        let lock = bench.lock(&locks, &bench.name(), 17)?;
        let start = now(&*client);
        let guard = way.acquire(bench, &locks, &lock).await?;
        let left = remaining(bench, lock.name()).await?;
        let passed = now(&*client).since(start) + margin(ttl.get());
        ensure!(left <= kept(&*client, ttl), "acquired by {way:?}, {left:?} of {ttl} remain");
        ensure!(left + passed >= ttl.get(), "acquired by {way:?}, {left:?} of {ttl} remain");
        guard.release().await?;
    }
    Ok(())
}

/// How long the store keeps what it has of a name.
async fn remaining(bench: &Bench, name: &LockName) -> Result<std::time::Duration, Failure> {
    let record = bench.store().record(name).await?;
    let record = record.ok_or_else(|| Failure::failed("a held name has no record"))?;
    record.remaining.ok_or_else(|| Failure::failed("a lease is kept for ever"))
}

async fn c37_grant_after_many_tries_has_its_whole_ttl(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let ttl = bench.ttls(2).get();
    let lease = take(&*client, &bench.long_claim(&bench.name(), 6)).await?;
    let lock = bench.lock(&locks, &lease.name, 2)?.keep_alive(false);
    let guard = lock.acquire_within(bench.ttls(20).get()).await?;
    let mine = guard.remaining();
    let stored = remaining(bench, &lease.name).await?;
    let after = guard.remaining();
    ensure!(mine >= ttl * 4 / 5, "a fresh guard of {ttl:?} has {mine:?} left");
    ensure!(after <= stored, "the guard has {after:?} left, the store keeps it for {stored:?}");
    let off = stored.saturating_sub(mine);
    ensure!(off <= margin(ttl) + bench.late(), "guard and store are {off:?} apart");
    Ok(())
}

async fn c93_every_combination_of_options_excludes(bench: &Bench) -> Verdict {
    let [locks, others] = [bench.locks().await?, bench.locks().await?];
    let client = bench.client().await?;
    let all = (0..8_u8).map(|bits| [1, 2, 4].map(|bit| bits & bit != 0));
    let excludes = all.map(|options| {
        let (locks, others, client) = (&locks, &others, &client);
        async move {
            let verdict = with_options(bench, locks, others, &**client, options).await;
            let [kept, min, max] = options;
            verdict.map_err(|failure| {
                let why = failure.why();
                Failure::failed(format!("kept alive {kept}, min_hold {min}, max_hold {max}: {why}"))
            })
        }
    });
    try_join_all(excludes).await.map(drop)
}

async fn with_options(
    bench: &Bench,
    locks: &Locks,
    others: &Locks,
    client: &dyn Backend,
    [kept, min, max]: [bool; 3],
) -> Verdict {
    let name = bench.name();
    let mut lock = bench.lock(locks, &name, 6)?.keep_alive(kept).label("options");
    if min {
        lock = lock.min_hold(bench.ttls(2).get());
    }
    if max {
        lock = lock.max_hold(bench.ttls(5).get());
    }
    let guard = lock.acquire().await?;
    let theirs = bench.lock(others, &name, 6)?;
    for _ in 0..4 {
        ensure!(guard.is_held(), "the guard was lost");
        ensure!(lock.try_acquire().await?.is_none(), "the same client holds the name twice");
        ensure!(theirs.try_acquire().await?.is_none(), "another client holds the name too");
        held(client, &bench.claim(&name)).await?;
        pass(client, bench.ttl().get() / 8).await;
    }
    guard.release().await?;
    if min {
        ensure!(theirs.try_acquire().await?.is_none(), "the name opened before its time");
        return falls_free(bench, client, &name, now(client).saturating_add(bench.ttls(2).get()))
            .await;
    }
    is_free(bench, client, &name).await
}
