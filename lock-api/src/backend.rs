//! The trait that a driver implements.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::claim::{Acquired, Claim, HandedOver, Names, Released, Renewal};
use crate::clock::{BootClock, Clock};
use crate::error::{Error, ErrorKind, Operation};
use crate::lease::{Holder, Lease, Ticket, Token};
use crate::losses::{Losses, NoLosses};
use crate::name::LockName;
use crate::profile::Profile;

/// A driver: small atomic steps against a store, and nothing else.
///
/// The contract stands in the [crate docs](crate), clause by clause. Waiting, back-off,
/// deadlines, renewing and cleaning up are policy and live above this trait, once.
///
/// # Cancel safety
///
/// Every method may be dropped at any await ([clause 8.1](crate#8-cancellation-and-bounds)).
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// One atomic attempt; never waits for a holder. [Clauses 1 and 2](crate#1-acquire).
    ///
    /// # Errors
    ///
    /// Any kind but `NotAcquired`, `Lost`, `TooLate`, `Closed` and `Forked`, which are policy's.
    /// [`Indeterminate`](ErrorKind::Indeterminate) if the claim may have taken effect.
    async fn acquire(&self, claim: &Claim) -> Result<Acquired, Error>;

    /// Re-arms a lease to its TTL. [Clause 4](crate#4-renew).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Backend::acquire).
    async fn renew(&self, lease: &Lease) -> Result<Renewal, Error>;

    /// Gives a lease back, or frees all that an owner has of a name.
    /// [Clause 5](crate#5-release).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Backend::acquire).
    async fn release(
        &self,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error>;

    /// At least every token granted for the name before the call. [Clause 3](crate#3-tokens).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Backend::acquire), but never `Indeterminate`: it changes nothing.
    async fn fencing_token(&self, name: &LockName) -> Result<Option<Token>, Error>;

    /// Makes every later grant strictly above `above`. [Clause 3](crate#3-tokens).
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Backend::acquire).
    async fn raise_tokens(&self, names: Names<'_>, above: Token) -> Result<(), Error>;

    /// What this driver, as configured, says of itself.
    fn profile(&self) -> &Profile;

    /// The clock that validities count by. Provided: the boot clock.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    /// Ends when this owner's slot is woken. Policy bounds it by time.
    /// [Clause 6](crate#6-waiting).
    async fn wake(&self, claim: &Claim) {
        let _ = claim;
        std::future::pending().await
    }

    /// Releases `lease` and grants `claim` in one step where the driver can.
    /// [Clause 7](crate#7-hand-over).
    ///
    /// Provided: a release and an acquire, between which others may come. That is for drivers
    /// that wake by time; one that wakes by message **must** do it in one step, so as to wake
    /// nobody in vain and to let others go first when it yields.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Backend::acquire). After an error policy does not repeat it.
    async fn hand_over(
        &self,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        let _ = yield_to_others; // whoever asks first gets it, as always where time wakes
        let profile = self.profile();
        if claim.ttl.get() < profile.ttl_floor {
            let message = format!("a TTL of {} is below {:?}", claim.ttl, profile.ttl_floor);
            return Err(Error::bad_input(Operation::Acquire, message));
        }
        if let Err(loss) = self.release(&lease.ticket(), None).await?.outcome {
            return Ok(HandedOver::NotMine(loss));
        }
        let claim = claim.clone().with_queue(true);
        Ok(match self.acquire(&claim).await? {
            Acquired::Granted(grant) => HandedOver::Granted(grant),
            Acquired::Held { .. } => HandedOver::Yielded,
        })
    }

    /// Renews many leases: one result a lease, in their order.
    async fn renew_all(&self, leases: &[Lease]) -> Vec<Result<Renewal, Error>> {
        const AT_ONCE: usize = 64;
        let mut results: Vec<_> = leases.iter().map(|_| None).collect();
        let mut rest = leases.iter().enumerate();
        let one = |(at, lease)| async move { (at, self.renew(lease).await) };
        let mut running: FuturesUnordered<_> = rest.by_ref().take(AT_ONCE).map(one).collect();
        while let Some((at, result)) = running.next().await {
            results[at] = Some(result);
            running.extend(rest.next().map(one));
        }
        results.into_iter().map(|result| result.expect("each lease was renewed once")).collect()
    }

    /// Begins to listen for the losses that the driver itself sees: a watch that fired, a session
    /// that died. [Clause 4.5](crate#4-renew). Provided: it sees none.
    fn losses(&self) -> Box<dyn Losses> {
        Box::new(NoLosses)
    }

    /// Who holds the name, if anybody.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) unless the profile has `operator`.
    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>, Error> {
        let _ = name;
        Err(unsupported(self.profile(), Operation::Inspect))
    }

    /// The held names that begin with `name_prefix`, and who holds them.
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Backend::inspect).
    async fn list(&self, name_prefix: &str) -> Result<Vec<(LockName, Holder)>, Error> {
        let _ = name_prefix;
        Err(unsupported(self.profile(), Operation::List))
    }

    /// Ends the lease of `name` if it has this token; says whether it did. The first waiter is
    /// woken.
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Backend::inspect).
    async fn evict(&self, name: &LockName, token: Token) -> Result<bool, Error> {
        let _ = (name, token);
        Err(unsupported(self.profile(), Operation::Evict))
    }
}

fn unsupported(profile: &Profile, operation: Operation) -> Error {
    let message = "this backend has no such operation";
    Error::new(ErrorKind::Unsupported, operation, message).with_backend(profile.backend)
}
