//! Release and grant in one step.

use futures_util::future::join;
use leasehold_api::{Acquired, HandedOver, Order};

use super::steps::{
    by_owner, free_between, give_up, grant, hand_over, held, is_free, is_held_by, is_woken, kept,
    lease, needs_waking, now, pass, queue, release, release_in_vain, renew, renew_in_vain,
    stays_asleep, take,
};
use crate::bench::Bench;
use crate::effort::rounds;
use crate::ensure;
use crate::history::Recorder;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { HandOver:
    claim_gets_what_the_lease_had, "7.1", "the old lease is over, the new one holds, with its own TTL and a higher token";
    lease_that_is_not_mine_hands_nothing_over, "7.2", "a hand-over of another's, a released or an expired lease changes nothing";
    two_never_hold_at_once, "7.1", "the history of hand-overs under contention shows exclusion";
    unanswered_hand_over_is_found_by_acquire, "7.4, 1.3", "the claim finds its grant by its own owner, the old lease is gone";
    repeated_hand_over_does_no_harm, "7.2, 7.4", "a repeat finds the grant or says not mine, and the grant stays";
    yielding_serves_the_others_first, "7.3", "it releases, wakes one of the others, and queues behind them";
    yielding_to_nobody_grants, "7.3", "without others the claim gets the name";
    not_yielding_wakes_nobody, "6.4", "a hand-over that grants leaves the others asleep and in line";
    handed_over_claim_leaves_the_line, "6.6", "a queued claim that is handed the name is woken no more";
}

async fn claim_gets_what_the_lease_had(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let old = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let claim = bench.claim(&old.name);
    let earliest = now(&*client).saturating_add(claim.ttl.get());
    let new = hand_over(&*client, &old, &claim).await?;
    let latest = now(&*client).saturating_add(kept(&*client, claim.ttl));
    ensure!(new.token > old.token, "token {} follows {}", new.token, old.token);
    renew_in_vain(&*client, &old).await?;
    release_in_vain(&*client, &old.ticket()).await?;
    is_held_by(bench, &*other, &new).await?;
    free_between(bench, &*other, &old.name, earliest, latest).await?;
    Ok(())
}

async fn lease_that_is_not_mine_hands_nothing_over(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let old = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    release(&*client, &old.ticket()).await?;
    for yields in [false, true] {
        let claim = bench.long_claim(&old.name, 10);
        is_refused(&*client, &old, &claim, yields).await?;
        is_free(bench, &*other, &old.name).await?;
    }
    let lease = take(&*other, &bench.long_claim(&old.name, 10)).await?;
    for yields in [false, true] {
        let claim = bench.long_claim(&old.name, 10);
        is_refused(&*client, &old, &claim, yields).await?;
        is_held_by(bench, &*other, &lease).await?;
        renew(&*other, &lease).await?;
    }
    release(&*other, &lease.ticket()).await?;
    let short = take(&*client, &bench.claim(&old.name)).await?;
    pass(&*client, kept(&*client, short.ttl) + bench.late()).await;
    is_refused(&*client, &short, &bench.long_claim(&old.name, 10), false).await?;
    is_free(bench, &*other, &old.name).await
}

async fn is_refused(
    client: &dyn leasehold_api::Backend,
    lease: &leasehold_api::Lease,
    claim: &leasehold_api::Claim,
    yields: bool,
) -> Verdict {
    let answer = client.hand_over(lease, claim, yields).await?;
    let refused = matches!(answer, HandedOver::NotMine(_));
    ensure!(refused, "a lease that is not mine was handed over: {answer:?}");
    Ok(())
}

async fn two_never_hold_at_once(bench: &Bench) -> Verdict {
    let rounds = rounds(30, 300);
    let [client, other] = bench.clients().await?;
    let name = bench.name();
    let recorder = Recorder::new(client.clock());
    let hands_over = async {
        let mut old = None;
        let mut claim = bench.long_claim(&name, 10).with_queue(true);
        for _ in 0..rounds {
            let call = recorder.claim(0, &claim);
            let granted = match old.take() {
                None => match client.acquire(&claim).await? {
                    Acquired::Granted(grant) => Some(grant),
                    Acquired::Held { .. } => None,
                },
                Some(old) => {
                    recorder.release(0, &old);
                    match client.hand_over(&old, &claim, false).await? {
                        HandedOver::Granted(grant) => Some(grant),
                        HandedOver::Yielded => None,
                        HandedOver::NotMine(loss) => {
                            return Err(Failure::failed(format!("the lease was lost: {loss}")));
                        }
                    }
                }
            };
            match granted {
                Some(grant) => {
                    call.granted(&grant);
                    old = Some(lease(&claim, grant));
                    claim = bench.long_claim(&name, 10).with_queue(true);
                }
                None => call.held(),
            }
            pass(&*client, bench.step() / 4).await;
        }
        if let Some(old) = old {
            recorder.release(0, &old);
            release(&*client, &old.ticket()).await?;
        }
        give_up(&*client, &claim).await
    };
    let contends = async {
        for _ in 0..rounds * 2 {
            let claim = bench.long_claim(&name, 10);
            let call = recorder.claim(1, &claim);
            match other.acquire(&claim).await? {
                Acquired::Granted(grant) => {
                    call.granted(&grant);
                    let lease = lease(&claim, grant);
                    recorder.release(1, &lease);
                    release(&*other, &lease.ticket()).await?;
                }
                Acquired::Held { .. } => call.held(),
            }
            pass(&*other, bench.step() / 8).await;
        }
        Ok::<_, Failure>(())
    };
    let ended = join(hands_over, contends).await;
    recorder.history().verdict("hand_over")?;
    ended.0?;
    ended.1
}

async fn unanswered_hand_over_is_found_by_acquire(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let old = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let claim = bench.long_claim(&old.name, 10);
    let new = hand_over(&*client, &old, &claim).await?;
    // As policy goes on when the answer was lost.
    release_in_vain(&*client, &old.ticket()).await?;
    let found = grant(&*client, &claim.clone().with_queue(true)).await?;
    ensure!(found.token == new.token, "token {} is found as {}", new.token, found.token);
    is_held_by(bench, &*other, &new).await
}

async fn repeated_hand_over_does_no_harm(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let old = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let claim = bench.long_claim(&old.name, 10);
    let new = hand_over(&*client, &old, &claim).await?;
    for yields in [false, true] {
        match client.hand_over(&old, &claim, yields).await? {
            HandedOver::Granted(grant) => {
                let (was, is) = (new.token, grant.token);
                ensure!(is == was, "token {was} became {is}");
            }
            HandedOver::NotMine(_) => {}
            HandedOver::Yielded => return Err(Failure::failed("the repeat gave the name away")),
        }
        is_held_by(bench, &*other, &new).await?;
    }
    release(&*client, &new.ticket()).await?;
    is_free(bench, &*other, &old.name).await
}

async fn yielding_serves_the_others_first(bench: &Bench) -> Verdict {
    let [client, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let old = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
    let others = bench.long_claim(&old.name, 20);
    let mine = bench.long_claim(&old.name, 20);
    // Mine came first, but a yield goes behind the others.
    queue(&*client, &mine).await?;
    queue(&*waiter, &others).await?;
    let answer = client.hand_over(&old, &mine, true).await?;
    ensure!(answer == HandedOver::Yielded, "with another in line it answers {answer:?}");
    is_woken(bench, &*waiter, &others).await?;
    stays_asleep(bench, &*client, &mine).await?;
    let lease = take(&*waiter, &others).await?;
    renew_in_vain(&*client, &old).await?;
    release(&*waiter, &lease.ticket()).await?;
    is_woken(bench, &*client, &mine).await?;
    let lease = take(&*client, &mine).await?;
    release(&*client, &lease.ticket()).await
}

async fn yielding_to_nobody_grants(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let old = take(&*client, &bench.long_claim(&bench.name(), 10)).await?;
    let claim = bench.long_claim(&old.name, 10);
    match client.hand_over(&old, &claim, true).await? {
        HandedOver::Granted(grant) => is_held_by(bench, &*client, &lease(&claim, grant)).await,
        other => Err(Failure::failed(format!("with nobody in line it answers {other:?}"))),
    }
}

async fn not_yielding_wakes_nobody(bench: &Bench) -> Verdict {
    let [client, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    if client.profile().order == Order::Fifo {
        return Err(Failure::not_applicable("whoever waits comes first"));
    }
    let old = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
    let others = bench.long_claim(&old.name, 20);
    queue(&*waiter, &others).await?;
    let new = hand_over(&*client, &old, &bench.long_claim(&old.name, 20)).await?;
    stays_asleep(bench, &*waiter, &others).await?;
    held(&*waiter, &others.clone().with_queue(true)).await?;
    release(&*client, &new.ticket()).await?;
    is_woken(bench, &*waiter, &others).await
}

async fn handed_over_claim_leaves_the_line(bench: &Bench) -> Verdict {
    let [client, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    let old = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
    let mine = bench.long_claim(&old.name, 20);
    queue(&*client, &mine).await?;
    let others = bench.long_claim(&old.name, 20);
    queue(&*waiter, &others).await?;
    let new = hand_over(&*client, &old, &mine).await?;
    release(&*client, &new.ticket()).await?;
    is_woken(bench, &*waiter, &others).await?;
    waiter.release(&by_owner(&others), None).await?;
    is_free(bench, &*client, &old.name).await
}
