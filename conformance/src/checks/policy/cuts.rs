//! Guards over a link that is cut, or loses answers, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::Locks;
use leasehold_api::{Backend, ErrorKind};

use super::super::steps::{held, is_free, now, pass};
use super::steps::{error, falls_free, guard};
use crate::bench::Bench;
use crate::effort::rounds;
use crate::ensure;
use crate::subject::{Data, Link};
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Faults:
    f22_c132_guard_outlives_cut_connections [policy, private], "8.1, D4.2", "a guard whose connection is reset each half TTL of the bench stays held";
    f25_guard_outlives_a_restart_with_data [policy, private], "3.1, D4.2", "over a restart that keeps the data a guard stays held, and is renewed after it";
    c31_clients_go_on_after_each_heal [policy, private], "D4.7, 6.7", "two clients that hand a name to and fro go on within 4 TTLs of each heal";
    c43_lost_answer_to_acquire_is_freed [policy, private], "10.2, D4.5", "an acquire whose answer is lost says indeterminate, and what it left is freed by owner at once";
    f17_c139_lost_release_lets_the_same_client_acquire_again [policy, private], "10.2, D4.5", "whether the answer to a release is lost or the request, the same client acquires again";
}

async fn far(bench: &Bench) -> Result<Locks, Failure> {
    Ok(Locks::with_backend(bench.store().connect_by_link().await?))
}

async fn f22_c132_guard_outlives_cut_connections(bench: &Bench) -> Verdict {
    let far = far(bench).await?;
    let near = bench.client().await?;
    let name = bench.name();
    let guard = guard(bench, &far, &name, 4).await?;
    let token = guard.token()?;
    for cut in 0..rounds(16, 40) {
        bench.store().link(Link::Refused).await?;
        bench.store().link(Link::Healthy).await?;
        pass(&*near, bench.ttl().get() / 2).await;
        ensure!(guard.is_held(), "lost after {cut} cuts");
        held(&*near, &bench.claim(&name)).await?;
    }
    ensure!(guard.token()? == token, "the token changed");
    drop(guard);
    falls_free(bench, &*near, &name, now(&*near).saturating_add(bench.ttl().get())).await
}

async fn f25_guard_outlives_a_restart_with_data(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let near = bench.client().await?;
    let name = bench.name();
    let guard = guard(bench, &locks, &name, 12).await?;
    bench.store().restart(Data::Kept).await?;
    let end = now(&*near).saturating_add(bench.ttls(12).get());
    let before = guard.remaining();
    while guard.remaining() <= before {
        ensure!(guard.is_held(), "the guard was lost by a restart that kept the data");
        ensure!(now(&*near) < end, "no renewal came through after the restart");
        pass(&*near, bench.step()).await;
    }
    held(&*bench.client().await?, &bench.claim(&name)).await?;
    guard.release().await?;
    is_free(bench, &*bench.client().await?, &name).await
}

async fn c31_clients_go_on_after_each_heal(bench: &Bench) -> Verdict {
    let near: Arc<dyn Backend> = bench.client().await?;
    let name = bench.name();
    let handed = Arc::new(AtomicUsize::new(0));
    let mut players = Vec::new();
    for _ in 0..2 {
        let lock = bench.lock(&far(bench).await?, &name, 4)?;
        let (near, handed, step) = (near.clone(), handed.clone(), bench.step());
        players.push(tokio::spawn(async move {
            loop {
                // A cut may end either call; the next round is the retry.
                if let Ok(guard) = lock.acquire_unbounded().await
                    && guard.release().await.is_ok()
                {
                    handed.fetch_add(1, Ordering::SeqCst);
                }
                pass(&*near, step / 5).await;
            }
        }));
    }
    for cut in 0..rounds(4, 20) {
        pass(&*near, bench.ttl().get() / 2).await;
        bench.store().link(Link::Refused).await?;
        pass(&*near, bench.ttl().get() / 5).await;
        bench.store().link(Link::Healthy).await?;
        let (before, healed) = (handed.load(Ordering::SeqCst), now(&*near));
        while handed.load(Ordering::SeqCst) < before + 3 {
            let waited = now(&*near).since(healed);
            ensure!(waited <= bench.ttls(4).get(), "no progress for {waited:?} after cut {cut}");
            pass(&*near, bench.step()).await;
        }
    }
    for player in players {
        player.abort();
    }
    Ok(())
}

async fn c43_lost_answer_to_acquire_is_freed(bench: &Bench) -> Verdict {
    let far = far(bench).await?;
    let near = bench.client().await?;
    guard(bench, &far, &bench.name(), 20).await?.release().await?;
    bench.store().link(Link::AnswersLost).await?;
    let name = bench.name();
    let lock = bench.lock(&far, &name, 40)?;
    error(lock.acquire_within(bench.ttl().get()).await, ErrorKind::Indeterminate)?;
    bench.store().link(Link::Healthy).await?;
    // Far less than its TTL, and than a third of it, when the clean-up would be repeated.
    let soon = now(&*near).saturating_add(bench.ttls(2).get());
    falls_free(bench, &*near, &name, soon).await
}

async fn f17_c139_lost_release_lets_the_same_client_acquire_again(bench: &Bench) -> Verdict {
    let far = far(bench).await?;
    let near = bench.client().await?;
    for link in [Link::AnswersLost, Link::Blackholed] {
        let name = bench.name();
        let guard = guard(bench, &far, &name, 6).await?;
        bench.store().link(link).await?;
        error(guard.release().await, ErrorKind::Indeterminate)?;
        bench.store().link(Link::Healthy).await?;
        let lock = bench.lock(&far, &name, 6)?;
        let again = lock.acquire_within(bench.ttls(40).get()).await?;
        held(&*near, &bench.claim(&name)).await?;
        again.release().await?;
        is_free(bench, &*near, &name).await?;
    }
    Ok(())
}
