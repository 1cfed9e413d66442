//! Futures dropped at each await.
//!
//! Over a store in this process a verb ends at its first poll; what happens between the polls is
//! then shown by the scripted driver, and over a server by its sockets.

use std::future::Future;
use std::time::Duration;

use leasehold_api::{Backend, Claim, Names, Token};

use super::steps::{
    by_owner, free_between, held, is_free, is_held_by, is_woken, kept, needs_waking, now, pass,
    queue, release, take,
};
use crate::bench::Bench;
use crate::cancel::{Polled, drop_after};
use crate::ensure;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Cancellation:
    f7_dropped_acquire_is_cleaned_up_by_owner, "8.1, 5.4", "whenever it is dropped, a release by owner frees the name, or TTL does";
    dropped_acquire_ends_at_its_ttl_without_clean_up, "8.1, 1.4", "whenever it is dropped, and nobody cleans up, the name is free one TTL after it landed";
    dropped_acquire_is_found_again, "8.1, 1.3", "whenever it is dropped, the same owner's next acquire is granted";
    f8_dropped_wait_leaves_the_line, "8.1, 6.6", "whenever it is dropped, a release by owner leaves nothing of the waiter";
    f10_dropped_renewal_leaves_the_lease_mine, "8.1", "whenever it is dropped, the store's record is no shorter, and the lease can be renewed and released";
    f9_c55_dropped_release_can_be_repeated, "8.1, 5.2", "whenever it is dropped, a second one frees the name";
    dropped_hand_over_is_mended_by_policy, "8.1, 7.4", "whenever it is dropped, release by ticket and acquire by owner go on";
    dropped_connect_leaves_nothing [private], "8.1", "whenever it is dropped, no connection stays open, and the next connect works";
    dropped_wake_loses_nothing, "8.1, 6.5", "a wake that was dropped, also while it was woken, is woken again";
    dropped_token_and_operator_verbs_break_nothing, "8.1", "after each drop the client answers rightly";
}

/// No verb needs more awaits than this.
const MOST_POLLS: usize = 60;

async fn f7_dropped_acquire_is_cleaned_up_by_owner(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    for polls in 0..MOST_POLLS {
        let claim = bench.claim(&bench.name());
        let polled = drop_after(polls, client.acquire(&claim)).await;
        let start = now(&*client);
        let released = client.release(&by_owner(&claim), None).await?;
        if released.settled {
            is_free(bench, &*other, &claim.name).await?;
            pass(&*client, bench.late()).await;
            is_free(bench, &*other, &claim.name).await?;
        } else {
            let latest = now(&*client).saturating_add(kept(&*client, claim.ttl) * 2);
            free_between(bench, &*other, &claim.name, start, latest).await?;
        }
        still_answers(bench, &*client).await?;
        if let Polled::Ended(answer) = polled {
            answer?;
            return Ok(());
        }
    }
    never_ended()
}

async fn dropped_acquire_ends_at_its_ttl_without_clean_up(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    let mut dropped = Vec::new();
    for polls in 0..MOST_POLLS {
        let claim = bench.claim(&bench.name());
        let polled = drop_after(polls, client.acquire(&claim)).await;
        dropped.push(claim.name);
        if let Polled::Ended(answer) = polled {
            answer?;
            let start = now(&*client);
            let latest = start.saturating_add(kept(&*client, claim.ttl) + bench.late());
            for name in &dropped {
                free_between(bench, &*other, name, start, latest).await?;
            }
            return Ok(());
        }
    }
    never_ended()
}

async fn dropped_acquire_is_found_again(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    for polls in 0..MOST_POLLS {
        let claim = bench.long_claim(&bench.name(), 20);
        let polled = drop_after(polls, client.acquire(&claim)).await;
        let lease = take(&*client, &claim).await?;
        is_held_by(bench, &*other, &lease).await?;
        release(&*client, &lease.ticket()).await?;
        if let Polled::Ended(answer) = polled {
            answer?;
            return Ok(());
        }
    }
    never_ended()
}

async fn f8_dropped_wait_leaves_the_line(bench: &Bench) -> Verdict {
    let [holder, quitter, waiter] = bench.clients().await?;
    for polls in 0..MOST_POLLS {
        let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
        let quits = bench.long_claim(&lease.name, 20).with_queue(true);
        let polled = drop_after(polls, quitter.acquire(&quits)).await;
        quitter.release(&by_owner(&quits), None).await?;
        let claim = bench.long_claim(&lease.name, 20);
        queue(&*waiter, &claim).await?;
        release(&*holder, &lease.ticket()).await?;
        if needs_waking(&*waiter).is_ok() {
            is_woken(bench, &*waiter, &claim).await?;
        }
        take(&*waiter, &claim).await?;
        if let Polled::Ended(answer) = polled {
            answer?;
            return Ok(());
        }
    }
    never_ended()
}

async fn f10_dropped_renewal_leaves_the_lease_mine(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    for polls in 0..MOST_POLLS {
        let start = now(&*client);
        let lease = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
        pass(&*client, bench.step() / 5).await;
        let polled = drop_after(polls, client.renew(&lease)).await;
        // Whether it landed or not: no shorter than it was, no longer than a renewal makes it.
        if let Ok(Some(record)) = bench.store().record(&lease.name).await {
            let passed = now(&*client).since(start) + Duration::from_millis(2);
            let left = record.remaining.unwrap_or(Duration::MAX);
            let most = kept(&*client, lease.ttl);
            ensure!(
                left <= most && left + passed >= lease.ttl.get(),
                "the store has {left:?} left"
            );
        }
        super::steps::renew(&*client, &lease).await?;
        release(&*client, &lease.ticket()).await?;
        if let Polled::Ended(answer) = polled {
            answer?;
            return Ok(());
        }
    }
    never_ended()
}

async fn f9_c55_dropped_release_can_be_repeated(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    for polls in 0..MOST_POLLS {
        let lease = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
        let polled = drop_after(polls, client.release(&lease.ticket(), None)).await;
        client.release(&lease.ticket(), None).await?;
        is_free(bench, &*other, &lease.name).await?;
        let closing = take(&*client, &bench.long_claim(&lease.name, 20)).await?;
        let open = Some(bench.ttls(20).get());
        drop_after(polls, client.release(&closing.ticket(), open)).await;
        let outcome = client.release(&closing.ticket(), open).await?.outcome;
        ensure!(outcome.is_ok(), "a repeated closing says {outcome:?}");
        held(&*other, &bench.claim(&lease.name)).await?;
        if let Polled::Ended(answer) = polled {
            answer?;
            return Ok(());
        }
    }
    never_ended()
}

async fn dropped_hand_over_is_mended_by_policy(bench: &Bench) -> Verdict {
    let [client, other] = bench.clients().await?;
    for polls in 0..MOST_POLLS {
        let old = take(&*client, &bench.long_claim(&bench.name(), 20)).await?;
        let claim = bench.long_claim(&old.name, 20).with_queue(true);
        let polled = drop_after(polls, client.hand_over(&old, &claim, false)).await;
        client.release(&old.ticket(), None).await?;
        let new = take(&*client, &claim).await?;
        ensure!(new.token > old.token, "token {} follows {}", new.token, old.token);
        is_held_by(bench, &*other, &new).await?;
        release(&*client, &new.ticket()).await?;
        is_free(bench, &*other, &old.name).await?;
        if let Polled::Ended(answer) = polled {
            answer?;
            return Ok(());
        }
    }
    never_ended()
}

async fn dropped_connect_leaves_nothing(bench: &Bench) -> Verdict {
    let store = bench.store();
    let beside = bench.client().await?;
    is_free(bench, &*beside, &bench.name()).await?;
    // Without the hook what is shown is only that the store goes on to serve.
    let before = store.connections().await.ok();
    for polls in 0..MOST_POLLS {
        let polled = drop_after(polls, store.connect()).await;
        let ended = matches!(polled, Polled::Ended(_));
        if let Polled::Ended(connected) = polled {
            still_answers(bench, &*connected?).await?;
        }
        if ended {
            return match before {
                Some(before) => connections_fall_to(bench, &*beside, before).await,
                None => Ok(()),
            };
        }
        still_answers(bench, &*beside).await?;
    }
    never_ended()
}

async fn connections_fall_to(bench: &Bench, client: &dyn Backend, want: usize) -> Verdict {
    // Far above what a driver gives a connect, and a server to notice that a client is gone.
    let end = now(client).saturating_add(bench.ttls(20).get());
    loop {
        let open = bench.store().connections().await?;
        if open <= want {
            return Ok(());
        }
        ensure!(now(client) < end, "{want} connections became {open}");
        pass(client, bench.step()).await;
    }
}

async fn dropped_wake_loses_nothing(bench: &Bench) -> Verdict {
    let [holder, waiter] = bench.clients().await?;
    needs_waking(&*waiter)?;
    for polls in 0..3 {
        let lease = take(&*holder, &bench.long_claim(&bench.name(), 20)).await?;
        let claim = bench.long_claim(&lease.name, 20);
        queue(&*waiter, &claim).await?;
        {
            // Waits, is woken, and is dropped before it is polled again.
            let waits = waiter.wake(&claim);
            tokio::pin!(waits);
            for _ in 0..polls {
                let polled = drop_after(1, waits.as_mut()).await;
                ensure!(polled == Polled::Dropped, "the waiter woke before the release");
            }
            release(&*holder, &lease.ticket()).await?;
        }
        is_woken(bench, &*waiter, &claim).await?;
    }
    Ok(())
}

async fn dropped_token_and_operator_verbs_break_nothing(bench: &Bench) -> Verdict {
    let client = bench.client().await?;
    let lease = take(&*client, &bench.long_claim(&bench.name(), 40)).await?;
    let (name, token) = (&lease.name, lease.token);
    let wrong = Token::new(token.get() - 1)?;
    for polls in 0..MOST_POLLS {
        let mut ended = true;
        ended &= ends(polls, client.fencing_token(name)).await;
        ended &= ends(polls, client.raise_tokens(Names::One(name), token)).await;
        ended &= ends(polls, client.inspect(name)).await;
        ended &= ends(polls, client.list(name.as_str())).await;
        ended &= ends(polls, client.evict(name, wrong)).await;
        ended &= ends(polls, client.renew_all(std::slice::from_ref(&lease))).await;
        still_answers(bench, &*client).await?;
        is_held_by(bench, &*client, &lease).await?;
        if ended {
            return Ok(());
        }
    }
    never_ended()
}

async fn ends<T>(polls: usize, future: impl Future<Output = T>) -> bool {
    matches!(drop_after(polls, future).await, Polled::Ended(_))
}

/// A round of every verb on a fresh name, each with its right answer: no connection was left in
/// the middle of one.
async fn still_answers(bench: &Bench, client: &dyn Backend) -> Verdict {
    let claim: Claim = bench.long_claim(&bench.name(), 20);
    let lease = take(client, &claim).await?;
    let floor = client.fencing_token(&lease.name).await?;
    ensure!(floor >= Some(lease.token), "{} was granted, it says {floor:?}", lease.token);
    super::steps::renew(client, &lease).await?;
    is_held_by(bench, client, &lease).await?;
    release(client, &lease.ticket()).await
}

fn never_ended() -> Verdict {
    Err(Failure::failed(format!("a verb was polled {MOST_POLLS} times and did not end")))
}
