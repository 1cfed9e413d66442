//! Guards and waits whose records somebody takes away, or replaces, behind their backs.

use leasehold::{Guard, Locks};
use leasehold_api::{Backend, LockName, Loss};

use super::super::steps::{held, now, pass};
use super::steps::{guard, is_lost_between, settle, stays_lost};
use crate::bench::Bench;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Faults:
    f73_c19_c28_deleted_record_is_told_at_the_next_renewal [policy], "4.3, 6.7", "the holder is lost within a renewal's time and stays lost, and of three waiters one is granted within a third of its TTL";
    f74_c148_overwritten_record_is_told_at_the_next_renewal [policy], "4.2, D4.2", "the loss comes then, not at a later deadline, and what was put there stays";
    c4_name_held_again_after_its_record_was_deleted_is_renewed [policy], "D4.2", "the same client holds it anew for 3 TTLs, and the first guard is lost";
    f26_c142_lost_data_is_a_loss_and_serves_the_waiter [policy, private], "4.3, 3.1", "when the store forgets everything, the holder is lost at its next renewal, and the waiter is granted a higher token";
}

/// The TTL of the guards here, in those of the bench: renewed each third, so once a TTL of it.
const TTLS: u32 = 3;

/// Shows that the next renewal, which is due within a third of the TTL, loses the guard.
async fn loses_at_the_next_renewal(
    bench: &Bench,
    client: &dyn Backend,
    guard: &Guard,
) -> Result<Loss, Failure> {
    let start = now(client);
    let renewed = start.saturating_add(bench.ttl().get() * 3 / 2);
    is_lost_between(bench, client, guard, start, renewed).await
}

async fn f73_c19_c28_deleted_record_is_told_at_the_next_renewal(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let guard = guard(bench, &locks, &name, TTLS).await?;
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let lock = bench.lock(&bench.locks().await?, &name, TTLS)?;
        waiters.push(tokio::spawn(async move { lock.acquire_unbounded().await?.release().await }));
    }
    settle(bench, &*client).await;
    bench.store().delete_record(&name).await?;
    let deleted = now(&*client);
    let serves = async {
        let (first, _, rest) = futures_util::future::select_all(waiters).await;
        first??;
        let took = now(&*client).since(deleted);
        // No message tells of it: a waiter looks again each third of its TTL.
        ensure!(took <= bench.ttl().get() + bench.late() * 2, "the first waiter took {took:?}");
        for waiter in rest {
            waiter.await??;
        }
        Ok::<_, Failure>(())
    };
    let loses = loses_at_the_next_renewal(bench, &*client, &guard);
    let (loss, served) = tokio::join!(loses, serves);
    let loss = loss?;
    served?;
    ensure!(matches!(loss, Loss::Gone | Loss::TakenOver), "deleted, it says {loss:?}");
    pass(&*client, bench.ttls(TTLS).get()).await;
    stays_lost(&guard)
}

async fn f74_c148_overwritten_record_is_told_at_the_next_renewal(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let guard = guard(bench, &locks, &name, TTLS).await?;
    bench.store().overwrite_record(&name).await?;
    let there = token_of(bench, &name).await;
    let loss = loses_at_the_next_renewal(bench, &*client, &guard).await?;
    ensure!(matches!(loss, Loss::Gone | Loss::TakenOver), "overwritten, it says {loss:?}");
    drop(guard);
    // Beyond the last of the clean-ups.
    pass(&*client, bench.ttls(TTLS).get() + bench.late()).await;
    let left = token_of(bench, &name).await;
    ensure!(there == left, "there was {there:?}, and is {left:?}");
    held(&*client, &bench.claim(&name)).await?;
    Ok(())
}

/// Whether there is a record, and its token.
async fn token_of(bench: &Bench, name: &LockName) -> Option<Option<leasehold_api::Token>> {
    let record = bench.store().record(name).await.ok()?;
    record.map(|record| record.token)
}

async fn c4_name_held_again_after_its_record_was_deleted_is_renewed(bench: &Bench) -> Verdict {
    let locks: Locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let first = guard(bench, &locks, &name, TTLS).await?;
    let lock = bench.lock(&locks, &name, TTLS)?;
    bench.store().delete_record(&name).await?;
    // Behind its own guard it waits until that is lost.
    let again = lock.acquire_within(bench.ttls(20).get()).await?;
    stays_lost(&first)?;
    let end = now(&*client).saturating_add(bench.ttls(TTLS * 3).get());
    while now(&*client) < end {
        held(&*client, &bench.claim(&name)).await?;
        ensure!(again.is_held(), "the name that is held again was lost");
        pass(&*client, bench.step()).await;
    }
    stays_lost(&first)?;
    again.release().await?;
    Ok(())
}

async fn f26_c142_lost_data_is_a_loss_and_serves_the_waiter(bench: &Bench) -> Verdict {
    let [locks, others] = [bench.locks().await?, bench.locks().await?];
    let client = bench.client().await?;
    let name = bench.name();
    let guard = guard(bench, &locks, &name, TTLS).await?;
    let token = guard.token()?;
    let lock = bench.lock(&others, &name, TTLS)?;
    let wait = bench.ttls(40).get();
    let waiter = tokio::spawn(async move { lock.acquire_within(wait).await });
    settle(bench, &*client).await;
    bench.store().lose_data().await?;
    let loss = loses_at_the_next_renewal(bench, &*client, &guard).await?;
    ensure!(matches!(loss, Loss::Gone | Loss::TakenOver), "forgotten, it says {loss:?}");
    let next = waiter.await??;
    ensure!(next.token()? > token, "after {token} comes {}", next.token()?);
    pass(&*client, bench.ttls(TTLS).get()).await;
    stays_lost(&guard)?;
    ensure!(next.is_held(), "the waiter's guard was lost");
    next.release().await?;
    Ok(())
}
