//! Mistakes of what is sent: the wrong verb, too early, counted each time it comes.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Error, Lease, Owner, Released, Renewal, Ticket, Validity, async_trait,
};

use super::twist::{Twist, Twisted};
use super::{Wrong, twisted};
use crate::memory::MemorySubject;

pub(super) const WRONG: &[Wrong] = &[
    Wrong::new(
        "renew_calls_release",
        "releases the lease where it should renew it, and says that it was renewed",
        &[
            "faults::c54_store_is_what_the_model_says_after_each_operation",
            "renewal::renewal_re_arms_from_now",
        ],
        || twisted(|| RenewCallsRelease),
    ),
    Wrong::new(
        "sends_when_called",
        "sends an acquire when it is called, before anybody polls it",
        &["faults::f6_acquire_dropped_before_it_is_sent_leaves_nothing"],
        || twisted(|| SendsWhenCalled),
    ),
    Wrong::new(
        "counts_every_claim",
        "counts the claims of an owner, and frees the name with as many releases",
        &["faults::f16_c48_request_that_arrives_twice_holds_once"],
        counts_every_claim,
    ),
];

#[derive(Debug)]
struct RenewCallsRelease;

#[async_trait]
impl Twist for RenewCallsRelease {
    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        let from = right.clock().now();
        Ok(match right.release(&lease.ticket(), None).await?.outcome {
            Ok(()) => Renewal::Renewed(Validity { remaining: lease.ttl.get(), from }),
            Err(loss) => Renewal::NotMine(loss),
        })
    }
}

#[derive(Debug)]
struct SendsWhenCalled;

impl Twist for SendsWhenCalled {
    // As `async_trait` would write it, but for what happens before the future is polled.
    fn acquire<'a, 'b, 'c, 'd>(
        &'a self,
        right: &'b Arc<dyn Backend>,
        claim: &'c Claim,
    ) -> Pin<Box<dyn Future<Output = Result<Acquired, Error>> + Send + 'd>>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
        Self: 'd,
    {
        let (right, claim) = (right.clone(), claim.clone());
        let sent = tokio::spawn(async move { right.acquire(&claim).await });
        Box::pin(async move { sent.await.expect("the task neither panics nor is aborted") })
    }
}

/// How often each owner has claimed, for all clients of a store.
#[derive(Debug, Default)]
struct CountsEveryClaim {
    claimed: Arc<Mutex<HashMap<Owner, usize>>>,
}

fn counts_every_claim() -> MemorySubject {
    let claimed = Arc::default();
    MemorySubject::wrapped(move |right| {
        let twist = CountsEveryClaim { claimed: Arc::clone(&claimed) };
        Arc::new(Twisted { right, twist }) as Arc<dyn Backend>
    })
}

#[async_trait]
impl Twist for CountsEveryClaim {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let answer = right.acquire(claim).await?;
        if matches!(answer, Acquired::Granted(_)) {
            *self.claimed.lock().expect("no holder panics").entry(claim.owner).or_default() += 1;
        }
        Ok(answer)
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let left = {
            let mut claimed = self.claimed.lock().expect("no holder panics");
            let count = claimed.entry(ticket.owner).or_insert(1);
            *count = count.saturating_sub(1);
            *count
        };
        if left > 0 {
            return Ok(Released { outcome: Ok(()), settled: true });
        }
        right.release(ticket, reopen_after).await
    }
}
