//! Mistakes of calls that are dropped, land late, or fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Clock, Error, ErrorKind, Instant, LockName, Loss, LossTeller, Losses,
    Operation, Owner, Released, Ticket, Token, Ttl, async_trait,
};

use super::twist::Twist;
use super::{Wrong, twisted};
use crate::memory::MemorySubject;

pub(super) const WRONG: &[Wrong] = &[
    Wrong::new(
        "orphan_on_cancel",
        "frees nothing without a token, so that a dropped acquire leaves its lease",
        &[
            "cancellation::f7_dropped_acquire_is_cleaned_up_by_owner",
            "release::release_by_owner_needs_no_token",
            "faults::c43_lost_answer_to_acquire_is_freed",
            "faults::c21_c61_answers_after_most_of_the_ttl_are_refused",
        ],
        || twisted(|| OrphanOnCancel),
    ),
    Wrong::new(
        "claim_lands_after_its_clean_up",
        "calls a release settled while the claim is on its way",
        &["cancellation::f7_dropped_acquire_is_cleaned_up_by_owner"],
        || twisted(|| ClaimLandsAfterItsCleanUp),
    ),
    Wrong::new(
        "connection_left_in_the_middle",
        "fails every call after one that was dropped",
        &[
            "cancellation::f7_dropped_acquire_is_cleaned_up_by_owner",
            "cancellation::dropped_acquire_is_found_again",
        ],
        || twisted(LeftInTheMiddle::default),
    ),
    Wrong::new(
        "bad_input_is_not_refused",
        "keeps a TTL below its floor",
        &["names::f67_ttl_below_the_floor_is_refused"],
        || twisted(|| BadInputIsNotRefused),
    ),
    Wrong::new(
        "release_swallows_errors",
        "says released whatever happened",
        &["release::release_of_a_free_name_is_harmless", "release::f72_release_twice_is_harmless"],
        || twisted(|| ReleaseSwallowsErrors),
    ),
    Wrong::new(
        "client_outlives_its_handle",
        "keeps a client's connection when the client is dropped",
        &[
            "cancellation::dropped_connect_leaves_nothing",
            "resources::dropped_client_closes_its_connections",
        ],
        client_outlives_its_handle,
    ),
    Wrong::new(
        "cries_wolf",
        "tells of losses that were none",
        &[
            "loss::healthy_guard_is_not_lost",
            "faults::f22_c132_guard_outlives_cut_connections",
            "base::c93_every_combination_of_options_excludes",
        ],
        || twisted(CriesWolf::default),
    ),
    Wrong::new(
        "one_ear",
        "tells a loss to one of the clients that listen",
        &["base::each_who_listens_hears_of_each_loss"],
        || twisted(OneEar::default),
    ),
];

#[derive(Debug)]
struct OrphanOnCancel;

#[async_trait]
impl Twist for OrphanOnCancel {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let answer = right.acquire(claim).await;
        tokio::task::yield_now().await;
        answer
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        if ticket.token.is_none() {
            return Ok(Released { outcome: Err(Loss::Gone), settled: true });
        }
        right.release(ticket, reopen_after).await
    }
}

#[derive(Debug)]
struct ClaimLandsAfterItsCleanUp;

#[async_trait]
impl Twist for ClaimLandsAfterItsCleanUp {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let (right, claim) = (right.clone(), claim.clone());
        let lands = tokio::spawn(async move {
            let clock = right.clock();
            clock.sleep_until(clock.now().saturating_add(Duration::from_millis(2))).await;
            right.acquire(&claim).await
        });
        lands.await.expect("the task neither panics nor is aborted")
    }
}

#[derive(Debug, Default)]
struct LeftInTheMiddle {
    under_way: AtomicBool,
}

#[async_trait]
impl Twist for LeftInTheMiddle {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        self.begin(Operation::Acquire)?;
        tokio::task::yield_now().await;
        let answer = right.acquire(claim).await;
        self.under_way.store(false, Ordering::Relaxed);
        answer
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        self.begin(Operation::Release)?;
        let answer = right.release(ticket, reopen_after).await;
        self.under_way.store(false, Ordering::Relaxed);
        answer
    }
}

impl LeftInTheMiddle {
    fn begin(&self, operation: Operation) -> Result<(), Error> {
        if self.under_way.swap(true, Ordering::Relaxed) {
            let message = "the connection is in the middle of an answer";
            return Err(Error::new(ErrorKind::Unclassified, operation, message));
        }
        Ok(())
    }
}

fn client_outlives_its_handle() -> MemorySubject {
    MemorySubject::wrapped(|right| {
        std::mem::forget(right.clone());
        right
    })
}

#[derive(Debug)]
struct BadInputIsNotRefused;

#[async_trait]
impl Twist for BadInputIsNotRefused {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut claim = claim.clone();
        claim.ttl = claim.ttl.max(Ttl::new(right.profile().ttl_floor)?);
        right.acquire(&claim).await
    }
}

#[derive(Debug)]
struct ReleaseSwallowsErrors;

#[async_trait]
impl Twist for ReleaseSwallowsErrors {
    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        // Even the error of the call itself is of no account to this one.
        let _ = right.release(ticket, reopen_after).await;
        Ok(Released { outcome: Ok(()), settled: true })
    }
}

/// Tells that the lease granted last is gone.
#[derive(Debug, Default)]
struct CriesWolf(Arc<Wolf>);

#[derive(Debug, Default)]
struct Wolf {
    granted: tokio::sync::Notify,
    last: std::sync::Mutex<Option<Owner>>,
}

#[async_trait]
impl Twist for CriesWolf {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let answer = right.acquire(claim).await?;
        if matches!(answer, Acquired::Granted(_)) {
            *self.0.last.lock().expect("no holder panics") = Some(claim.owner);
            self.0.granted.notify_one();
        }
        Ok(answer)
    }

    fn losses(&self, right: &Arc<dyn Backend>) -> Box<dyn Losses> {
        Box::new(Cries { wolf: self.0.clone(), clock: right.clock(), cries_at: None })
    }
}

#[derive(Debug)]
struct Cries {
    wolf: Arc<Wolf>,
    clock: Arc<dyn Clock>,
    cries_at: Option<Instant>,
}

#[async_trait]
impl Losses for Cries {
    async fn next(&mut self) -> (Owner, Loss) {
        loop {
            // May be dropped at any await.
            let cries_at = match self.cries_at {
                Some(at) => at,
                None => {
                    self.wolf.granted.notified().await;
                    let soon = self.clock.now().saturating_add(Duration::from_millis(1));
                    *self.cries_at.insert(soon)
                }
            };
            self.clock.sleep_until(cries_at).await;
            self.cries_at = None;
            if let Some(owner) = self.wolf.last.lock().expect("no holder panics").take() {
                return (owner, Loss::SessionGone);
            }
        }
    }
}

/// Sees evictions of its own, and has one queue of them for all who listen.
#[derive(Debug)]
struct OneEar {
    lost: LossTeller,
    ear: Arc<tokio::sync::Mutex<Box<dyn Losses>>>,
}

impl Default for OneEar {
    fn default() -> Self {
        let lost = LossTeller::default();
        let ear = Arc::new(tokio::sync::Mutex::new(lost.listen()));
        Self { lost, ear }
    }
}

#[async_trait]
impl Twist for OneEar {
    async fn evict(
        &self,
        right: &Arc<dyn Backend>,
        name: &LockName,
        token: Token,
    ) -> Result<bool, Error> {
        let holder = right.inspect(name).await?;
        let evicted = right.evict(name, token).await?;
        if let Some(holder) = holder.filter(|_| evicted) {
            self.lost.tell(holder.owner, Loss::Gone);
        }
        Ok(evicted)
    }

    fn losses(&self, _: &Arc<dyn Backend>) -> Box<dyn Losses> {
        Box::new(SharedEar(self.ear.clone()))
    }
}

#[derive(Debug)]
struct SharedEar(Arc<tokio::sync::Mutex<Box<dyn Losses>>>);

#[async_trait]
impl Losses for SharedEar {
    async fn next(&mut self) -> (Owner, Loss) {
        self.0.lock().await.next().await
    }
}
