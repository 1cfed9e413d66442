//! Mistakes of acquire and hand-over.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Error, HandedOver, Lease, LockName, Owner, Released, Renewal, Ticket,
    Token, Ttl, Validity, async_trait,
};

use super::twist::{Twist, Twisted};
use super::{Wrong, twisted};
use crate::memory::MemorySubject;

pub(super) const WRONG: &[Wrong] = &[
    Wrong::new(
        "acquire_in_two_steps",
        "looks whether the name is free, and takes it in a second step",
        &[
            "exclusion::one_of_many_at_once_is_granted",
            "exclusion::contending_clients_leave_a_good_history",
            "exclusion::counter_under_the_lock_is_exact",
            "waiting::c85_tasks_on_one_thread_exclude_each_other",
        ],
        || twisted(|| AcquireInTwoSteps),
    ),
    Wrong::new(
        "same_owner_is_held_off",
        "does not know the owner that asks again",
        &[
            "base::acquire_is_idempotent_by_owner",
            "cancellation::dropped_acquire_is_found_again",
            "faults::c141_link_cut_at_each_message_leaves_one_record",
        ],
        || twisted(|| SameOwnerIsHeldOff),
    ),
    Wrong::new(
        "acquire_re_arms",
        "re-arms the lease of the owner that asks again",
        &["base::acquire_again_does_not_re_arm"],
        || twisted(|| AcquireReArms),
    ),
    Wrong::new(
        "free_at_once",
        "says that a held name is free in no time",
        &["base::free_in_is_true"],
        || twisted(|| FreeAtOnce),
    ),
    Wrong::new(
        "late_grant_accepted",
        "counts the validity from the end of the request",
        &["expiry::validity_counts_from_the_start", "exclusion::guard_and_store_agree"],
        || twisted(|| LateGrantAccepted),
    ),
    Wrong::new(
        "validity_too_long",
        "promises twice what the store keeps",
        &["expiry::validity_is_a_lower_bound"],
        || twisted(|| ValidityTooLong),
    ),
    Wrong::new(
        "hands_over_what_it_has_not",
        "grants the next claim without asking whether the lease is still its own",
        &["hand_over::lease_that_is_not_mine_hands_nothing_over"],
        || twisted(|| HandsOverWhatItHasNot),
    ),
    Wrong::new(
        "never_yields",
        "hands over to its own client for ever",
        &["hand_over::yielding_serves_the_others_first"],
        || twisted(|| NeverYields),
    ),
    Wrong::new(
        "evicts_anybody",
        "evicts whoever holds the name, whatever the token",
        &["base::evict_ends_the_lease_it_names"],
        || twisted(|| EvictsAnybody),
    ),
    Wrong::new(
        "evicts_nobody",
        "says that it evicted somebody from a name that is closed",
        &["base::closed_name_is_not_evicted"],
        || twisted(|| EvictsNobody),
    ),
    Wrong::new(
        "evicts_the_closed",
        "keeps a closed name as a lease, which an operator may evict",
        &["base::closed_name_is_not_evicted"],
        evicts_the_closed,
    ),
];

#[derive(Debug)]
struct AcquireInTwoSteps;

#[async_trait]
impl Twist for AcquireInTwoSteps {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        match right.inspect(&claim.name).await? {
            Some(_) => right.acquire(claim).await,
            None => {
                tokio::task::yield_now().await;
                if let Some(holder) = right.inspect(&claim.name).await? {
                    right.evict(&claim.name, holder.token).await?;
                }
                right.acquire(claim).await
            }
        }
    }
}

#[derive(Debug)]
struct SameOwnerIsHeldOff;

#[async_trait]
impl Twist for SameOwnerIsHeldOff {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        match right.inspect(&claim.name).await? {
            Some(holder) if holder.owner == claim.owner => {
                let free_in = holder.remaining;
                Ok(Acquired::Held { holder: Some(holder), free_in })
            }
            _ => right.acquire(claim).await,
        }
    }
}

#[derive(Debug)]
struct AcquireReArms;

#[async_trait]
impl Twist for AcquireReArms {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut answer = right.acquire(claim).await?;
        if let Acquired::Granted(grant) = &mut answer {
            let lease = Lease::new(claim.name.clone(), claim.owner, grant.token, claim.ttl);
            if let Renewal::Renewed(validity) = right.renew(&lease).await? {
                grant.validity = validity;
            }
        }
        Ok(answer)
    }
}

#[derive(Debug)]
struct FreeAtOnce;

#[async_trait]
impl Twist for FreeAtOnce {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut answer = right.acquire(claim).await?;
        if let Acquired::Held { free_in, .. } = &mut answer {
            *free_in = Some(Duration::ZERO);
        }
        Ok(answer)
    }
}

/// The store grants when the request arrives; the answer takes a while, and the validity is
/// counted from then.
#[derive(Debug)]
struct LateGrantAccepted;

#[async_trait]
impl Twist for LateGrantAccepted {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut answer = right.acquire(claim).await?;
        let clock = right.clock();
        clock.sleep_until(clock.now().saturating_add(claim.ttl.get() / 4)).await;
        if let Acquired::Granted(grant) = &mut answer {
            grant.validity = Validity { from: clock.now(), ..grant.validity };
        }
        Ok(answer)
    }
}

#[derive(Debug)]
struct ValidityTooLong;

#[async_trait]
impl Twist for ValidityTooLong {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut answer = right.acquire(claim).await?;
        if let Acquired::Granted(grant) = &mut answer {
            grant.validity.remaining *= 2;
        }
        Ok(answer)
    }
}

#[derive(Debug)]
struct HandsOverWhatItHasNot;

#[async_trait]
impl Twist for HandsOverWhatItHasNot {
    async fn hand_over(
        &self,
        right: &Arc<dyn Backend>,
        lease: &Lease,
        claim: &Claim,
        _yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        if let Some(holder) = right.inspect(&lease.name).await? {
            let mut ticket = Ticket::by_owner(lease.name.clone(), holder.owner);
            ticket.token = Some(holder.token);
            right.release(&ticket, None).await?;
        }
        Ok(match right.acquire(claim).await? {
            Acquired::Granted(grant) => HandedOver::Granted(grant),
            Acquired::Held { .. } => HandedOver::Yielded,
        })
    }
}

#[derive(Debug)]
struct NeverYields;

#[async_trait]
impl Twist for NeverYields {
    async fn hand_over(
        &self,
        right: &Arc<dyn Backend>,
        lease: &Lease,
        claim: &Claim,
        _yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        right.hand_over(lease, claim, false).await
    }
}

#[derive(Debug)]
struct EvictsAnybody;

#[async_trait]
impl Twist for EvictsAnybody {
    async fn evict(
        &self,
        right: &Arc<dyn Backend>,
        name: &LockName,
        _token: Token,
    ) -> Result<bool, Error> {
        match right.inspect(name).await? {
            Some(holder) => right.evict(name, holder.token).await,
            None => Ok(false),
        }
    }
}

#[derive(Debug)]
struct EvictsNobody;

#[async_trait]
impl Twist for EvictsNobody {
    async fn evict(
        &self,
        right: &Arc<dyn Backend>,
        name: &LockName,
        token: Token,
    ) -> Result<bool, Error> {
        let taken = matches!(right.inspect(name).await?, Some(holder) if holder.token != token);
        right.evict(name, token).await?;
        Ok(!taken)
    }
}

/// A closing leaves a lease of nobody's, under the token that was closed.
#[derive(Debug)]
struct EvictsTheClosed {
    closed: Arc<Mutex<Option<(Token, Ticket)>>>,
}

fn evicts_the_closed() -> MemorySubject {
    let closed = Arc::default();
    MemorySubject::wrapped(move |right| {
        let twist = EvictsTheClosed { closed: Arc::clone(&closed) };
        Arc::new(Twisted { right, twist }) as Arc<dyn Backend>
    })
}

#[async_trait]
impl Twist for EvictsTheClosed {
    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let released = right.release(ticket, None).await?;
        if let (Some(open), Some(token)) = (reopen_after, ticket.token) {
            let nobody = Claim::new(ticket.name.clone(), Owner::random(), Ttl::new(open)?);
            right.acquire(&nobody).await?;
            let ticket = Ticket::by_owner(nobody.name, nobody.owner);
            *self.closed.lock().expect("no holder panics") = Some((token, ticket));
        }
        Ok(released)
    }

    async fn evict(
        &self,
        right: &Arc<dyn Backend>,
        name: &LockName,
        token: Token,
    ) -> Result<bool, Error> {
        let closed = self.closed.lock().expect("no holder panics").take();
        match closed {
            Some((of, ticket)) if of == token && ticket.name == *name => {
                Ok(right.release(&ticket, None).await?.outcome.is_ok())
            }
            _ => right.evict(name, token).await,
        }
    }
}
