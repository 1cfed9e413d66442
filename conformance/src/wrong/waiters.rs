//! Mistakes of queues and wake-ups.

use std::collections::{HashMap, HashSet};
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Error, LockName, Loss, Owner, Released, Ticket, Ttl, async_trait,
};
use tokio::sync::watch;

use super::twist::{Twist, Twisted};
use super::{Wrong, twisted};
use crate::memory::MemorySubject;

pub(super) const WRONG: &[Wrong] = &[
    Wrong::new(
        "never_wakes",
        "wakes nobody, and says that it does",
        &[
            "waiting::release_wakes_the_waiter",
            "waiting::eviction_wakes_the_first",
            "waiting::line_of_many_is_served_by_messages_alone",
            "waiting::c25_waiters_of_500_names_are_served_in_their_own_lines",
        ],
        || twisted(|| NeverWakes),
    ),
    Wrong::new(
        "lost_wake_up",
        "forgets a wake-up that comes before the wait",
        &["waiting::wake_up_before_the_wait_is_kept"],
        || twisted(|| LostWakeUp),
    ),
    Wrong::new(
        "wakes_all",
        "wakes everybody who waits at each release",
        &["waiting::release_wakes_one_not_all", "waiting::waiters_of_one_client_wake_one_by_one"],
        wakes_all,
    ),
    Wrong::new(
        "closing_wakes_nobody",
        "wakes nobody when a release closes the name",
        &["waiting::closing_tells_the_first_waiter"],
        closing_wakes_nobody,
    ),
    Wrong::new(
        "quitter_keeps_the_wake_up",
        "does nothing at a release of what is not held",
        &[
            "waiting::giving_up_after_the_wake_up_passes_it_on",
            "waiting::giving_up_leaves_the_line",
            "waiting::strangers_release_wakes_the_first",
            "hand_over::waiter_that_leaves_a_yielded_hand_over_leaves_no_place",
        ],
        || twisted(|| QuitterKeepsTheWakeUp),
    ),
    Wrong::new(
        "asking_again_goes_to_the_back",
        "gives a waiter that asks again a new place",
        &["waiting::asking_again_keeps_the_place"],
        || twisted(|| AskingAgainGoesToTheBack),
    ),
    Wrong::new(
        "place_is_lost_once_woken",
        "gives a waiter that was woken in vain a new place",
        &["waiting::woken_and_barged_keeps_the_place"],
        || twisted(PlaceIsLostOnceWoken::default),
    ),
    Wrong::new(
        "places_never_end",
        "keeps the place of a waiter that is gone",
        &["waiting::place_that_was_not_re_armed_is_skipped"],
        || twisted(|| PlacesNeverEnd),
    ),
    Wrong::new(
        "everybody_queues",
        "queues a claim that does not ask to",
        &["waiting::claim_that_does_not_queue_is_not_in_line"],
        || twisted(|| EverybodyQueues),
    ),
    Wrong::new(
        "nobody_queues",
        "opens no slot before it looks",
        &["waiting::release_wakes_the_waiter", "waiting::first_in_line_wakes_first"],
        || twisted(|| NobodyQueues),
    ),
];

#[derive(Debug)]
struct NeverWakes;

#[async_trait]
impl Twist for NeverWakes {
    async fn wake(&self, _right: &Arc<dyn Backend>, _claim: &Claim) {
        pending().await
    }
}

/// What is latched when the wait begins is thrown away.
#[derive(Debug)]
struct LostWakeUp;

#[async_trait]
impl Twist for LostWakeUp {
    async fn wake(&self, right: &Arc<dyn Backend>, claim: &Claim) {
        let mut wake = pin!(right.wake(claim));
        let latched = poll_fn(|context| Poll::Ready(wake.as_mut().poll(context).is_ready()));
        if latched.await {
            pending().await
        }
        wake.await;
    }
}

#[derive(Debug)]
struct WakesAll {
    releases: watch::Sender<u64>,
    since: Arc<Mutex<HashMap<Owner, u64>>>,
}

fn wakes_all() -> MemorySubject {
    let releases = watch::Sender::new(0);
    let since = Arc::default();
    MemorySubject::wrapped(move |right| {
        let twist = WakesAll { releases: releases.clone(), since: Arc::clone(&since) };
        Arc::new(Twisted { right, twist }) as Arc<dyn Backend>
    })
}

#[async_trait]
impl Twist for WakesAll {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        if claim.queue {
            let now = *self.releases.borrow();
            self.since.lock().expect("no holder panics").insert(claim.owner, now);
        }
        right.acquire(claim).await
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let released = right.release(ticket, reopen_after).await;
        self.releases.send_modify(|count| *count += 1);
        released
    }

    async fn wake(&self, _right: &Arc<dyn Backend>, claim: &Claim) {
        let known = self.since.lock().expect("no holder panics").get(&claim.owner).copied();
        let mut releases = self.releases.subscribe();
        match known {
            Some(known) => drop(releases.wait_for(|count| *count > known).await),
            None => pending().await,
        }
    }
}

/// The names that were closed.
#[derive(Debug, Clone, Default)]
struct ClosingWakesNobody(Arc<Mutex<HashSet<LockName>>>);

fn closing_wakes_nobody() -> MemorySubject {
    let twist = ClosingWakesNobody::default();
    twisted(move || twist.clone())
}

#[async_trait]
impl Twist for ClosingWakesNobody {
    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        if reopen_after.is_some() {
            self.0.lock().expect("no holder panics").insert(ticket.name.clone());
        }
        right.release(ticket, reopen_after).await
    }

    async fn wake(&self, right: &Arc<dyn Backend>, claim: &Claim) {
        right.wake(claim).await;
        let closed = self.0.lock().expect("no holder panics").contains(&claim.name);
        if closed {
            pending().await
        }
    }
}

#[derive(Debug)]
struct QuitterKeepsTheWakeUp;

#[async_trait]
impl Twist for QuitterKeepsTheWakeUp {
    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        match right.inspect(&ticket.name).await? {
            Some(holder) if holder.owner == ticket.owner => {
                right.release(ticket, reopen_after).await
            }
            _ => Ok(Released { outcome: Err(Loss::Gone), settled: true }),
        }
    }
}

#[derive(Debug)]
struct AskingAgainGoesToTheBack;

#[async_trait]
impl Twist for AskingAgainGoesToTheBack {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let holder = right.inspect(&claim.name).await?;
        if claim.queue && holder.is_some_and(|holder| holder.owner != claim.owner) {
            let ticket = Ticket::by_owner(claim.name.clone(), claim.owner);
            right.release(&ticket, None).await?;
        }
        right.acquire(claim).await
    }
}

#[derive(Debug, Default)]
struct PlaceIsLostOnceWoken {
    woken: Mutex<HashSet<Owner>>,
}

#[async_trait]
impl Twist for PlaceIsLostOnceWoken {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        if self.woken.lock().expect("no holder panics").remove(&claim.owner) {
            return AskingAgainGoesToTheBack.acquire(right, claim).await;
        }
        right.acquire(claim).await
    }

    async fn wake(&self, right: &Arc<dyn Backend>, claim: &Claim) {
        right.wake(claim).await;
        self.woken.lock().expect("no holder panics").insert(claim.owner);
    }
}

#[derive(Debug)]
struct PlacesNeverEnd;

#[async_trait]
impl Twist for PlacesNeverEnd {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut claim = claim.clone();
        let holder = right.inspect(&claim.name).await?;
        if claim.queue && holder.is_some_and(|holder| holder.owner != claim.owner) {
            claim.ttl = Ttl::MAX;
        }
        right.acquire(&claim).await
    }
}

#[derive(Debug)]
struct EverybodyQueues;

#[async_trait]
impl Twist for EverybodyQueues {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        right.acquire(&claim.clone().with_queue(true)).await
    }
}

#[derive(Debug)]
struct NobodyQueues;

#[async_trait]
impl Twist for NobodyQueues {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        right.acquire(&claim.clone().with_queue(false)).await
    }
}
