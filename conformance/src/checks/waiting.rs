//! Queues and wake-ups.

use leasehold_api::{Acquired, Order, Ttl};

use super::steps::{
    give_up, held, is_free, is_woken, kept, lease, needs_waking, pass, queue, release, renew,
    stays_asleep, take,
};
use crate::bench::Bench;
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Waiting:
    release_wakes_the_waiter, "6.1, 6.4", "a waiter wakes at the release, and gets the name";
    wake_up_before_the_wait_is_kept, "6.5", "a waiter that comes to wait after the release wakes at once";
    release_wakes_one_not_all, "6.4", "of 3 waiting clients one wakes, and the next at the next release";
    waiters_of_one_client_wake_one_by_one, "6.4, 6.1", "two waiters of one client have a slot each";
    first_in_line_wakes_first, "6.2", "waiters wake in the order in which they came";
    asking_again_keeps_the_place, "6.2", "a waiter that asks again stays before those that came later";
    woken_and_barged_keeps_the_place, "6.2", "a waiter that was woken and finds the name taken by one who barged in is the first to be woken again";
    asking_again_re_arms_the_place, "6.2", "a waiter that asks again in time waits for many TTLs";
    place_that_was_not_re_armed_is_skipped, "6.2", "a waiter that did not ask again is not woken in another's stead";
    giving_up_leaves_the_line, "6.6", "one that gave up is not woken in another's stead";
    giving_up_after_the_wake_up_passes_it_on, "6.4, 5.3", "one that gives up after it was woken wakes the next";
    strangers_release_wakes_the_first, "5.3", "a release of a free name wakes the first, whoever sends it";
    stale_release_wakes_nobody_early, "5.2", "a release in vain of a held name wakes nobody";
    grant_leaves_the_line, "6.6", "a waiter that was granted the name is woken no more";
    claim_that_does_not_queue_is_not_in_line, "6.1", "a claim without queue takes no place";
    eviction_wakes_the_first, "evict", "an evicted name's first waiter wakes";
    closing_tells_the_first_waiter, "5.6", "closing wakes the first waiter, who then learns when the name opens";
    opening_wakes_nobody_early, "5.6, 5.3", "a closed name's waiter is not lost: it wakes, or may claim, once it opens";
    line_of_many_is_served_by_messages_alone, "6.4, 6.5", "8 waiters of 4 clients are served one by one without a time-out";
}

async fn release_wakes_the_waiter(bench: &Bench) -> Verdict {
    let [holder, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claim = bench.long_claim(&lease.name, 20).with_queue(true);
    queue(&*waiter, &claim).await?;
    stays_asleep(bench, &*waiter, &claim).await?;
    let ticket = lease.ticket();
    let (woken, released) =
        tokio::join!(is_woken(bench, &*waiter, &claim), release(&*holder, &ticket));
    released?;
    woken?;
    let lease = take(&*waiter, &claim).await?;
    release(&*waiter, &lease.ticket()).await
}

async fn wake_up_before_the_wait_is_kept(bench: &Bench) -> Verdict {
    let [holder, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claim = bench.long_claim(&lease.name, 20);
    queue(&*waiter, &claim).await?;
    release(&*holder, &lease.ticket()).await?;
    pass(&*waiter, bench.late()).await;
    is_woken(bench, &*waiter, &claim).await
}

async fn release_wakes_one_not_all(bench: &Bench) -> Verdict {
    let [holder, one, two, three] = bench.clients().await?;
    needs_waking(&*holder)?;
    let mut lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let mut releaser = holder;
    let mut waiting = Vec::new();
    for waiter in [one, two, three] {
        let claim = bench.long_claim(&lease.name, 20);
        queue(&*waiter, &claim).await?;
        waiting.push((waiter, claim));
    }
    while !waiting.is_empty() {
        release(&*releaser, &lease.ticket()).await?;
        let looks = waiting.iter().map(|(waiter, claim)| is_woken(bench, &**waiter, claim));
        let woken = futures_util::future::join_all(looks).await;
        let woken: Vec<_> = (0..waiting.len()).filter(|number| woken[*number].is_ok()).collect();
        ensure!(woken.len() == 1, "of {} waiters {} woke", waiting.len(), woken.len());
        let (waiter, claim) = waiting.remove(woken[0]);
        lease = take(&*waiter, &claim).await?;
        releaser = waiter;
    }
    Ok(())
}

async fn waiters_of_one_client_wake_one_by_one(bench: &Bench) -> Verdict {
    let [holder, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let mut claims = vec![bench.long_claim(&lease.name, 20), bench.long_claim(&lease.name, 20)];
    for claim in &claims {
        queue(&*waiter, claim).await?;
    }
    release(&*holder, &lease.ticket()).await?;
    let looks = claims.iter().map(|claim| is_woken(bench, &*waiter, claim));
    let woken = futures_util::future::join_all(looks).await;
    let woken: Vec<_> = (0..2).filter(|number| woken[*number].is_ok()).collect();
    ensure!(woken.len() == 1, "of 2 waiters {} woke", woken.len());
    let lease = take(&*waiter, &claims.remove(woken[0])).await?;
    release(&*waiter, &lease.ticket()).await?;
    is_woken(bench, &*waiter, &claims[0]).await
}

async fn first_in_line_wakes_first(bench: &Bench) -> Verdict {
    let [holder, first, second] = bench.clients().await?;
    needs_order(&*holder)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claims = [bench.long_claim(&lease.name, 20), bench.long_claim(&lease.name, 20)];
    queue(&*first, &claims[0]).await?;
    queue(&*second, &claims[1]).await?;
    release(&*holder, &lease.ticket()).await?;
    is_woken(bench, &*first, &claims[0]).await?;
    stays_asleep(bench, &*second, &claims[1]).await
}

async fn asking_again_keeps_the_place(bench: &Bench) -> Verdict {
    let [holder, first, second] = bench.clients().await?;
    needs_order(&*holder)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claims = [bench.long_claim(&lease.name, 20), bench.long_claim(&lease.name, 20)];
    queue(&*first, &claims[0]).await?;
    queue(&*second, &claims[1]).await?;
    queue(&*first, &claims[0]).await?;
    release(&*holder, &lease.ticket()).await?;
    is_woken(bench, &*first, &claims[0]).await?;
    stays_asleep(bench, &*second, &claims[1]).await
}

async fn woken_and_barged_keeps_the_place(bench: &Bench) -> Verdict {
    let [holder, first, second, stranger] = bench.clients().await?;
    needs_order(&*holder)?;
    let old = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claims = [bench.long_claim(&old.name, 20), bench.long_claim(&old.name, 20)];
    queue(&*first, &claims[0]).await?;
    queue(&*second, &claims[1]).await?;
    release(&*holder, &old.ticket()).await?;
    is_woken(bench, &*first, &claims[0]).await?;
    let barges = bench.long_claim(&old.name, 20);
    let Acquired::Granted(grant) = stranger.acquire(&barges).await? else {
        return Err(Failure::not_applicable("nobody can barge in before one that was woken"));
    };
    queue(&*first, &claims[0]).await?;
    release(&*stranger, &lease(&barges, grant).ticket()).await?;
    is_woken(bench, &*first, &claims[0]).await?;
    stays_asleep(bench, &*second, &claims[1]).await
}

async fn asking_again_re_arms_the_place(bench: &Bench) -> Verdict {
    let [holder, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claim = bench.claim(&lease.name);
    for _ in 0..5 {
        queue(&*waiter, &claim).await?;
        pass(&*waiter, bench.ttl().get() / 2).await;
    }
    release(&*holder, &lease.ticket()).await?;
    is_woken(bench, &*waiter, &claim).await
}

async fn place_that_was_not_re_armed_is_skipped(bench: &Bench) -> Verdict {
    let [holder, gone, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let dead = bench.claim(&lease.name);
    queue(&*gone, &dead).await?;
    let claim = bench.long_claim(&lease.name, 20);
    queue(&*waiter, &claim).await?;
    pass(&*waiter, kept(&*waiter, dead.ttl) + bench.late()).await;
    release(&*holder, &lease.ticket()).await?;
    is_woken(bench, &*waiter, &claim).await
}

async fn giving_up_leaves_the_line(bench: &Bench) -> Verdict {
    let [holder, quitter, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claims = [bench.long_claim(&lease.name, 20), bench.long_claim(&lease.name, 20)];
    queue(&*quitter, &claims[0]).await?;
    queue(&*waiter, &claims[1]).await?;
    give_up(&*quitter, &claims[0]).await?;
    release(&*holder, &lease.ticket()).await?;
    is_woken(bench, &*waiter, &claims[1]).await
}

async fn giving_up_after_the_wake_up_passes_it_on(bench: &Bench) -> Verdict {
    let [holder, quitter, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claims = [bench.long_claim(&lease.name, 20), bench.long_claim(&lease.name, 20)];
    queue(&*quitter, &claims[0]).await?;
    queue(&*waiter, &claims[1]).await?;
    release(&*holder, &lease.ticket()).await?;
    let (first, second) =
        if is_woken(bench, &*quitter, &claims[0]).await.is_ok() { (0, 1) } else { (1, 0) };
    let clients = [&quitter, &waiter];
    give_up(&**clients[first], &claims[first]).await?;
    is_woken(bench, &**clients[second], &claims[second]).await?;
    // In a queue that is first come, first served the name is kept for it.
    give_up(&**clients[second], &claims[second]).await?;
    is_free(bench, &*holder, &lease.name).await
}

async fn strangers_release_wakes_the_first(bench: &Bench) -> Verdict {
    let [holder, waiter, stranger] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.claim(&bench.name())).await?;
    let claim = bench.long_claim(&lease.name, 20);
    queue(&*waiter, &claim).await?;
    pass(&*holder, kept(&*holder, lease.ttl) + bench.late()).await;
    give_up(&*stranger, &bench.claim(&lease.name)).await?;
    is_woken(bench, &*waiter, &claim).await
}

async fn stale_release_wakes_nobody_early(bench: &Bench) -> Verdict {
    let [holder, waiter, stranger] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claim = bench.long_claim(&lease.name, 20);
    queue(&*waiter, &claim).await?;
    give_up(&*stranger, &bench.claim(&lease.name)).await?;
    stays_asleep(bench, &*waiter, &claim).await?;
    release(&*holder, &lease.ticket()).await?;
    is_woken(bench, &*waiter, &claim).await
}

async fn grant_leaves_the_line(bench: &Bench) -> Verdict {
    let [holder, first, second] = bench.clients().await?;
    needs_waking(&*first)?;
    let lease = take(&*holder, &bench.claim(&bench.name())).await?;
    let claims = [bench.long_claim(&lease.name, 20), bench.long_claim(&lease.name, 20)];
    queue(&*first, &claims[0]).await?;
    queue(&*second, &claims[1]).await?;
    renew(&*holder, &lease).await?;
    pass(&*holder, kept(&*holder, lease.ttl) + bench.late()).await;
    let lease = take(&*first, &claims[0].clone().with_queue(true)).await?;
    release(&*first, &lease.ticket()).await?;
    is_woken(bench, &*second, &claims[1]).await
}

async fn claim_that_does_not_queue_is_not_in_line(bench: &Bench) -> Verdict {
    let [holder, passer_by, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    held(&*passer_by, &bench.long_claim(&lease.name, 20)).await?;
    let claim = bench.long_claim(&lease.name, 20);
    queue(&*waiter, &claim).await?;
    release(&*holder, &lease.ticket()).await?;
    is_woken(bench, &*waiter, &claim).await
}

async fn eviction_wakes_the_first(bench: &Bench) -> Verdict {
    let [holder, waiter, operator] = bench.clients().await?;
    Bench::needs_operator(operator.profile())?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claim = bench.long_claim(&lease.name, 20);
    queue(&*waiter, &claim).await?;
    ensure!(operator.evict(&lease.name, lease.token).await?, "the lease was not evicted");
    is_woken(bench, &*waiter, &claim).await
}

async fn closing_tells_the_first_waiter(bench: &Bench) -> Verdict {
    let [holder, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 60)).await?;
    let claim = bench.long_claim(&lease.name, 60).with_queue(true);
    queue(&*waiter, &claim).await?;
    let closed_for = bench.ttls(2).get();
    holder.release(&lease.ticket(), Some(closed_for)).await?;
    is_woken(bench, &*waiter, &claim).await?;
    match waiter.acquire(&claim).await? {
        Acquired::Held { holder: None, free_in: Some(free_in) } => {
            ensure!(free_in <= closed_for, "it is said to open in {free_in:?}");
            Ok(())
        }
        other => Err(Failure::failed(format!("a closed name answers {other:?}"))),
    }
}

async fn opening_wakes_nobody_early(bench: &Bench) -> Verdict {
    let [holder, waiter, stranger] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
    let claim = bench.long_claim(&lease.name, 20);
    queue(&*waiter, &claim).await?;
    holder.release(&lease.ticket(), Some(bench.ttl().get())).await?;
    pass(&*holder, kept(&*holder, bench.ttl()) + bench.late()).await;
    give_up(&*stranger, &bench.claim(&lease.name)).await?;
    is_woken(bench, &*waiter, &claim).await?;
    let lease = take(&*waiter, &claim).await?;
    release(&*waiter, &lease.ticket()).await
}

async fn line_of_many_is_served_by_messages_alone(bench: &Bench) -> Verdict {
    let clients = bench.clients::<4>().await?;
    needs_waking(&*clients[0])?;
    let ttl: Ttl = bench.ttls(60);
    let lease = take(&*clients[0], &bench.long_claim(&bench.name(), 60)).await?;
    let mut served = Vec::new();
    for number in 0..8 {
        let client = clients[number % 4].clone();
        let claim = bench.long_claim(&lease.name, 60).with_queue(true);
        ensure!(claim.ttl == ttl, "no place in the line may expire meanwhile");
        queue(&*client, &claim).await?;
        served.push(async move {
            client.wake(&claim).await;
            let lease = take(&*client, &claim).await?;
            tokio::task::yield_now().await;
            release(&*client, &lease.ticket()).await
        });
    }
    let all = futures_util::future::try_join_all(served);
    let ticket = lease.ticket();
    let (released, all) = tokio::join!(release(&*clients[0], &ticket), async {
        tokio::select! {
            all = all => all.map(drop),
            () = pass(&*clients[0], bench.ttls(20).get()) => {
                Err(Failure::failed("a wake-up was lost: not all of 8 waiters were served"))
            }
        }
    });
    released?;
    all
}

fn needs_order(client: &dyn leasehold_api::Backend) -> Verdict {
    needs_waking(client)?;
    match client.profile().order {
        Order::Woken | Order::Fifo => Ok(()),
        Order::None => Err(Failure::not_applicable("it serves waiters in no order")),
    }
}
