//! Mistakes of expiry, renewal and release.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Error, ErrorKind, Lease, Loss, Operation, Owner, Released, Renewal,
    Ticket, Ttl, async_trait,
};

use super::twist::Twist;
use super::{Wrong, twisted};

pub(super) const WRONG: &[Wrong] = &[
    Wrong::new(
        "no_expiry",
        "stores a lease without an end",
        &[
            "expiry::lease_ends_at_its_ttl",
            "expiry::expired_lease_is_nobodys",
            "faults::c163_client_acquires_again_after_failed_releases",
            "base::c124_every_way_to_acquire_asks_for_the_same_ttl",
        ],
        || twisted(|| NoExpiry),
    ),
    Wrong::new(
        "ttl_in_whole_seconds",
        "cuts the TTL to whole seconds",
        &[
            "expiry::f67_c66_c67_ttls_are_kept_to_the_millisecond",
            "expiry::c69_store_keeps_no_more_than_any_ttl",
        ],
        || twisted(|| TtlInWholeSeconds),
    ),
    Wrong::new(
        "expiry_in_a_second_step",
        "sets the name first and its end later, so that a caller that goes leaves it for ever",
        &["cancellation::dropped_acquire_ends_at_its_ttl_without_clean_up"],
        || twisted(|| ExpiryInASecondStep),
    ),
    Wrong::new(
        "renew_revives",
        "takes an expired lease again when it is renewed",
        &[
            "renewal::c15_c16_renewal_never_revives_an_expired_lease",
            "renewal::renewal_never_revives_a_released_lease",
            "faults::f19_c133_late_renewal_revives_nothing",
        ],
        || twisted(RenewRevives::default),
    ),
    Wrong::new(
        "renew_creates",
        "sets the lease at a renewal, whether or not it was there",
        &[
            "renewal::renewal_never_creates",
            "faults::f73_deleted_record_is_a_loss",
            "faults::f73_c19_c28_deleted_record_is_told_at_the_next_renewal",
            "faults::f26_c142_lost_data_is_a_loss_and_serves_the_waiter",
        ],
        || twisted(|| RenewCreates),
    ),
    Wrong::new(
        "renew_adds",
        "adds the TTL to what is left",
        &[
            "renewal::renewal_never_adds",
            "renewal::renewal_re_arms_from_now",
            "faults::c54_store_is_what_the_model_says_after_each_operation",
        ],
        || twisted(|| RenewAdds),
    ),
    Wrong::new(
        "renew_without_comparing",
        "re-arms the name, whoever holds it",
        &[
            "renewal::renewal_compares_the_owner",
            "renewal::c7_renewal_never_touches_anothers_lease",
            "faults::f74_overwritten_record_is_a_loss",
            "faults::f74_c148_overwritten_record_is_told_at_the_next_renewal",
        ],
        || twisted(|| RenewWithoutComparing),
    ),
    Wrong::new(
        "renew_ignores_the_token",
        "compares the owner alone",
        &["renewal::renewal_compares_the_token"],
        || twisted(|| RenewIgnoresTheToken),
    ),
    Wrong::new(
        "one_bad_renewal_spoils_the_batch",
        "answers the rest of a batch with the first failure",
        &["renewal::renew_all_answers_each_in_order"],
        || twisted(|| OneBadRenewalSpoilsTheBatch),
    ),
    Wrong::new(
        "release_without_comparing",
        "frees the name, whoever holds it",
        &[
            "release::f71_release_compares_the_owner",
            "release::f72_release_twice_is_harmless",
            "release::release_by_owner_leaves_others_alone",
            "faults::f17_lost_answer_to_release_does_no_harm",
            "faults::c58_overrun_owner_changes_nothing_of_the_next_lease",
        ],
        || twisted(|| ReleaseWithoutComparing),
    ),
    Wrong::new(
        "compare_and_delete_in_two_steps",
        "looks whether the lease is its own, and frees the name in a second step",
        &["release::release_compares_and_frees_in_one_step"],
        || twisted(|| CompareAndDeleteInTwoSteps),
    ),
    Wrong::new(
        "release_ignores_the_token",
        "compares the owner alone",
        &["release::release_compares_the_token"],
        || twisted(|| ReleaseIgnoresTheToken),
    ),
    Wrong::new(
        "closing_is_ignored",
        "frees the name at once in place of closing it",
        &["release::closed_name_is_held_by_nobody", "release::closed_name_opens_at_its_time"],
        || twisted(|| ClosingIsIgnored),
    ),
    Wrong::new(
        "closing_again_is_refused",
        "says not mine to the repeat of a closing",
        &["release::closing_again_changes_nothing"],
        || twisted(|| ClosingAgainIsRefused),
    ),
];

#[derive(Debug)]
struct NoExpiry;

#[async_trait]
impl Twist for NoExpiry {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        with_ttl(right, claim, Ttl::MAX).await
    }
}

#[derive(Debug)]
struct TtlInWholeSeconds;

#[async_trait]
impl Twist for TtlInWholeSeconds {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let whole = Duration::from_secs(claim.ttl.get().as_secs().max(1));
        with_ttl(right, claim, Ttl::new(whole)?).await
    }
}

/// Takes the name for another TTL than it says.
async fn with_ttl(right: &Arc<dyn Backend>, claim: &Claim, ttl: Ttl) -> Result<Acquired, Error> {
    let mut stored = claim.clone();
    stored.ttl = ttl;
    let mut answer = right.acquire(&stored).await?;
    if let Acquired::Granted(grant) = &mut answer {
        grant.validity.remaining = claim.ttl.get();
    }
    Ok(answer)
}

#[derive(Debug)]
struct ExpiryInASecondStep;

#[async_trait]
impl Twist for ExpiryInASecondStep {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let mut answer = with_ttl(right, claim, Ttl::MAX).await?;
        tokio::task::yield_now().await;
        if let Acquired::Granted(grant) = &mut answer {
            let lease = Lease::new(claim.name.clone(), claim.owner, grant.token, claim.ttl);
            if let Renewal::Renewed(validity) = right.renew(&lease).await? {
                grant.validity = validity;
            }
        }
        Ok(answer)
    }
}

#[derive(Debug, Default)]
struct RenewRevives {
    granted: Mutex<HashSet<Owner>>,
}

#[async_trait]
impl Twist for RenewRevives {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let answer = right.acquire(claim).await?;
        if matches!(answer, Acquired::Granted(_)) {
            self.granted.lock().expect("no holder panics").insert(claim.owner);
        }
        Ok(answer)
    }

    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        if self.granted.lock().expect("no holder panics").contains(&lease.owner) {
            renew_or_create(right, lease).await
        } else {
            right.renew(lease).await
        }
    }
}

#[derive(Debug)]
struct RenewCreates;

#[async_trait]
impl Twist for RenewCreates {
    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        renew_or_create(right, lease).await
    }
}

async fn renew_or_create(right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
    let answer = right.renew(lease).await?;
    if answer != Renewal::NotMine(Loss::Gone) {
        return Ok(answer);
    }
    let claim = Claim::new(lease.name.clone(), lease.owner, lease.ttl);
    Ok(match right.acquire(&claim).await? {
        Acquired::Granted(grant) => Renewal::Renewed(grant.validity),
        Acquired::Held { .. } => answer,
    })
}

#[derive(Debug)]
struct RenewAdds;

#[async_trait]
impl Twist for RenewAdds {
    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        let mut longer = lease.clone();
        if let Some(left) = right.inspect(&lease.name).await?.and_then(|held| held.remaining) {
            longer.ttl = Ttl::new(lease.ttl.get() + left)?;
        }
        right.renew(&longer).await
    }
}

#[derive(Debug)]
struct RenewWithoutComparing;

#[async_trait]
impl Twist for RenewWithoutComparing {
    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        let mut theirs = lease.clone();
        if let Some(holder) = right.inspect(&lease.name).await? {
            (theirs.owner, theirs.token) = (holder.owner, holder.token);
        }
        right.renew(&theirs).await
    }
}

#[derive(Debug)]
struct RenewIgnoresTheToken;

#[async_trait]
impl Twist for RenewIgnoresTheToken {
    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        let mut mine = lease.clone();
        match right.inspect(&lease.name).await? {
            Some(holder) if holder.owner == lease.owner => mine.token = holder.token,
            _ => {}
        }
        right.renew(&mine).await
    }
}

#[derive(Debug)]
struct OneBadRenewalSpoilsTheBatch;

#[async_trait]
impl Twist for OneBadRenewalSpoilsTheBatch {
    async fn renew_all(
        &self,
        right: &Arc<dyn Backend>,
        leases: &[Lease],
    ) -> Vec<Result<Renewal, Error>> {
        let mut answers = Vec::new();
        let mut failed = false;
        for lease in leases {
            let answer = if failed {
                let message = "the batch failed";
                Err(Error::new(ErrorKind::Unreachable, Operation::Renew, message))
            } else {
                right.renew(lease).await
            };
            failed |= !matches!(answer, Ok(Renewal::Renewed(_)));
            answers.push(answer);
        }
        answers
    }
}

#[derive(Debug)]
struct ReleaseWithoutComparing;

#[async_trait]
impl Twist for ReleaseWithoutComparing {
    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let mut theirs = ticket.clone();
        if let Some(holder) = right.inspect(&ticket.name).await? {
            (theirs.owner, theirs.token) = (holder.owner, Some(holder.token));
        }
        right.release(&theirs, reopen_after).await
    }
}

#[derive(Debug)]
struct CompareAndDeleteInTwoSteps;

#[async_trait]
impl Twist for CompareAndDeleteInTwoSteps {
    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        match right.inspect(&ticket.name).await? {
            Some(mine) if mine.owner == ticket.owner && reopen_after.is_none() => {
                let clock = right.clock();
                let travels = Duration::from_millis(2);
                clock.sleep_until(clock.now().saturating_add(travels)).await;
                ReleaseWithoutComparing.release(right, ticket, None).await
            }
            _ => right.release(ticket, reopen_after).await,
        }
    }
}

#[derive(Debug)]
struct ReleaseIgnoresTheToken;

#[async_trait]
impl Twist for ReleaseIgnoresTheToken {
    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let by_owner = Ticket::by_owner(ticket.name.clone(), ticket.owner);
        right.release(&by_owner, reopen_after).await
    }
}

#[derive(Debug)]
struct ClosingIsIgnored;

#[async_trait]
impl Twist for ClosingIsIgnored {
    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        _reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        right.release(ticket, None).await
    }
}

#[derive(Debug)]
struct ClosingAgainIsRefused;

#[async_trait]
impl Twist for ClosingAgainIsRefused {
    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let held = right.inspect(&ticket.name).await?.is_some();
        let mut released = right.release(ticket, reopen_after).await?;
        if !held {
            released.outcome = Err(Loss::Gone);
        }
        Ok(released)
    }
}
