//! At most one lease a name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use leasehold_api::{Acquired, Backend, Claim, LockName};

use super::steps::{
    free_between, give_up, held, is_held_by, kept, lease, now, release, renew, renew_in_vain, take,
};
use crate::bench::Bench;
use crate::effort::rounds;
use crate::ensure;
use crate::history::Recorder;
use crate::table::checks;
use crate::verdict::Verdict;

checks! { Exclusion:
    second_claim_is_held, "1.2", "a name that one client holds is held for another";
    not_even_its_own_client_gets_in, "1.2", "a fresh owner of the holder's own client is held off";
    one_of_many_at_once_is_granted, "1.2", "of 8 clients that claim at the same moment one is granted";
    c130_renewed_lease_excludes_for_many_ttls, "1.2", "nobody gets a name in 5 TTLs of renewals";
    f75_the_holders_ttl_counts, "1.2", "a contender with a shorter TTL waits for the holder's";
    contending_clients_leave_a_good_history, "1.2, 3.1", "the history of 8 contending clients shows exclusion and rising tokens";
    counter_under_the_lock_is_exact, "1.2", "8 clients add 1 under the lock without losing one";
}

async fn second_claim_is_held(bench: &Bench) -> Verdict {
    let [one, other] = bench.clients().await?;
    let lease = take(&*one, &bench.long_claim(&bench.name(), 4)).await?;
    for queued in [false, true] {
        held(&*other, &bench.claim(&lease.name).with_queue(queued)).await?;
    }
    is_held_by(bench, &*one, &lease).await
}

async fn not_even_its_own_client_gets_in(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 4)).await?;
    for queued in [false, true] {
        held(&*client, &bench.claim(&lease.name).with_queue(queued)).await?;
    }
    is_held_by(bench, &*client, &lease).await
}

async fn one_of_many_at_once_is_granted(bench: &Bench) -> Verdict {
    let clients = bench.clients::<8>().await?;
    for round in 0..rounds(10, 200) {
        let name = bench.name();
        let claims = clients.each_ref().map(|_| bench.long_claim(&name, 10));
        let answers = join_all(clients.iter().zip(&claims).map(|(client, claim)| {
            let (client, claim) = (client.clone(), claim.clone());
            spawned(async move { client.acquire(&claim).await })
        }));
        let mut granted = 0;
        for answer in answers.await {
            granted += usize::from(matches!(answer?, Acquired::Granted(_)));
        }
        ensure!(granted == 1, "{granted} of 8 were granted in round {round}");
    }
    Ok(())
}

async fn c130_renewed_lease_excludes_for_many_ttls(bench: &Bench) -> Verdict {
    let [holder, other] = bench.clients().await?;
    let lease = take(&*holder, &bench.claim(&bench.name())).await?;
    let contender = bench.claim(&lease.name);
    let clock = holder.clock();
    let end = clock.now().saturating_add(lease.ttl.get() * 5);
    while clock.now() < end {
        let next = clock.now().saturating_add(lease.ttl.get() / 3);
        renew(&*holder, &lease).await?;
        while clock.now() < next {
            held(&*other, &contender).await?;
            clock.sleep_until(next.min(clock.now().saturating_add(bench.step()))).await;
        }
    }
    release(&*holder, &lease.ticket()).await
}

async fn f75_the_holders_ttl_counts(bench: &Bench) -> Verdict {
    let [holder, other] = bench.clients().await?;
    let name = bench.name();
    let claim = bench.long_claim(&name, 3);
    let earliest = now(&*holder).saturating_add(claim.ttl.get());
    take(&*holder, &claim).await?;
    let latest = now(&*holder).saturating_add(kept(&*holder, claim.ttl));
    free_between(bench, &*other, &name, earliest, latest).await?;
    Ok(())
}

async fn contending_clients_leave_a_good_history(bench: &Bench) -> Verdict {
    let rounds = rounds(6, 40);
    let name = bench.name();
    let clients = bench.clients::<8>().await?;
    let recorder = Recorder::new(clients[0].clock());
    let contenders = clients.into_iter().enumerate().map(|(number, client)| {
        let contender = Contender {
            client,
            recorder: recorder.clone(),
            number,
            name: name.clone(),
            step: bench.ttl().get() / 20,
        };
        let claims: Vec<_> = (0..rounds).map(|_| bench.claim(&name)).collect();
        spawned(async move {
            for (round, claim) in claims.into_iter().enumerate() {
                contender.round(round, claim).await?;
            }
            Ok::<_, crate::Failure>(())
        })
    });
    let ended = try_join_all(contenders).await;
    recorder.history().verdict("contending_clients")?;
    ended.map(drop)
}

/// One of the clients of a history: claims, sometimes lets the lease expire, sometimes renews.
struct Contender {
    client: Arc<dyn Backend>,
    recorder: Recorder,
    number: usize,
    name: LockName,
    step: Duration,
}

impl Contender {
    async fn round(&self, round: usize, claim: Claim) -> Verdict {
        let client = &*self.client;
        let claim = claim.with_queue(true);
        let lease = loop {
            let call = self.recorder.claim(self.number, &claim);
            match client.acquire(&claim).await? {
                Acquired::Granted(grant) => {
                    call.granted(&grant);
                    break lease(&claim, grant);
                }
                Acquired::Held { .. } => call.held(),
            }
            tokio::select! {
                () = client.wake(&claim) => {}
                () = super::steps::pass(client, self.step) => {}
            }
        };
        match (self.number + round) % 4 {
            // Crashes: nothing is sent, and the deadline ends it.
            0 => self.recorder.deadline_passes(&lease).await,
            1 => {
                let call = self.recorder.renewal(self.number, &lease);
                call.renewed(renew(client, &lease).await?);
                super::steps::pass(client, self.step).await;
                self.recorder.release(self.number, &lease);
                release(client, &lease.ticket()).await?;
                renew_in_vain(client, &lease).await?;
            }
            _ => {
                tokio::task::yield_now().await;
                self.recorder.release(self.number, &lease);
                release(client, &lease.ticket()).await?;
            }
        }
        debug_assert_eq!(lease.name, self.name);
        Ok(())
    }
}

async fn counter_under_the_lock_is_exact(bench: &Bench) -> Verdict {
    const CLIENTS: usize = 8;
    let adds = rounds(5, 100);
    let name = bench.name();
    let counter = Arc::new(AtomicUsize::new(0));
    let step = bench.step();
    let workers = bench.clients::<CLIENTS>().await?.into_iter().map(|client| {
        let counter = counter.clone();
        let claims: Vec<_> =
            (0..adds).map(|_| bench.long_claim(&name, 10).with_queue(true)).collect();
        spawned(async move {
            for claim in claims {
                let lease = loop {
                    if let Acquired::Granted(grant) = client.acquire(&claim).await? {
                        break lease(&claim, grant);
                    }
                    tokio::select! {
                        () = client.wake(&claim) => {}
                        () = super::steps::pass(&*client, step) => {}
                    }
                };
                // Read and written apart, so that a second holder between the two loses one.
                let read = counter.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                counter.store(read + 1, Ordering::SeqCst);
                release(&*client, &lease.ticket()).await?;
                give_up(&*client, &claim).await?;
            }
            Ok::<_, crate::Failure>(())
        })
    });
    try_join_all(workers).await?;
    let counted = counter.load(Ordering::SeqCst);
    ensure!(counted == CLIENTS * adds, "{counted} of {} adds are left", CLIENTS * adds);
    Ok(())
}

/// Runs a future as a task of its own, so that on two threads it overlaps with the others.
async fn spawned<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(future).await.expect("the task neither panics nor is aborted")
}
