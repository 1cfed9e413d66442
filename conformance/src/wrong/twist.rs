//! A right driver with something about it that is not.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Clock, Error, HandedOver, Holder, Lease, LockName, Losses, Names,
    Profile, Released, Renewal, Ticket, Token, async_trait,
};

/// What a wrong driver does otherwise: each method gets the right driver, and by default asks it.
#[async_trait]
pub(crate) trait Twist: Debug + Send + Sync + 'static {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        right.acquire(claim).await
    }

    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        right.renew(lease).await
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        right.release(ticket, reopen_after).await
    }

    async fn fencing_token(
        &self,
        right: &Arc<dyn Backend>,
        name: &LockName,
    ) -> Result<Option<Token>, Error> {
        right.fencing_token(name).await
    }

    async fn raise_tokens(
        &self,
        right: &Arc<dyn Backend>,
        names: Names<'_>,
        above: Token,
    ) -> Result<(), Error> {
        right.raise_tokens(names, above).await
    }

    async fn wake(&self, right: &Arc<dyn Backend>, claim: &Claim) {
        right.wake(claim).await;
    }

    async fn hand_over(
        &self,
        right: &Arc<dyn Backend>,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        right.hand_over(lease, claim, yield_to_others).await
    }

    async fn renew_all(
        &self,
        right: &Arc<dyn Backend>,
        leases: &[Lease],
    ) -> Vec<Result<Renewal, Error>> {
        let mut answers = Vec::with_capacity(leases.len());
        for lease in leases {
            answers.push(self.renew(right, lease).await);
        }
        answers
    }

    fn losses(&self, right: &Arc<dyn Backend>) -> Box<dyn Losses> {
        right.losses()
    }

    async fn inspect(
        &self,
        right: &Arc<dyn Backend>,
        name: &LockName,
    ) -> Result<Option<Holder>, Error> {
        right.inspect(name).await
    }

    async fn evict(
        &self,
        right: &Arc<dyn Backend>,
        name: &LockName,
        token: Token,
    ) -> Result<bool, Error> {
        right.evict(name, token).await
    }
}

/// The wrong driver that a twist makes of a right one.
#[derive(Debug)]
pub(crate) struct Twisted<T> {
    pub(crate) right: Arc<dyn Backend>,
    pub(crate) twist: T,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<T: Twist> Backend for Twisted<T> {
    // As `async_trait` would write it, but that the twist is called before anybody polls.
    fn acquire<'a, 'b, 'c>(
        &'a self,
        claim: &'b Claim,
    ) -> Pin<Box<dyn Future<Output = Result<Acquired, Error>> + Send + 'c>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.twist.acquire(&self.right, claim)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal, Error> {
        self.twist.renew(&self.right, lease).await
    }

    async fn release(
        &self,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        self.twist.release(&self.right, ticket, reopen_after).await
    }

    async fn fencing_token(&self, name: &LockName) -> Result<Option<Token>, Error> {
        self.twist.fencing_token(&self.right, name).await
    }

    async fn raise_tokens(&self, names: Names<'_>, above: Token) -> Result<(), Error> {
        self.twist.raise_tokens(&self.right, names, above).await
    }

    fn profile(&self) -> &Profile {
        self.right.profile()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.right.clock()
    }

    async fn wake(&self, claim: &Claim) {
        self.twist.wake(&self.right, claim).await;
    }

    async fn hand_over(
        &self,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        self.twist.hand_over(&self.right, lease, claim, yield_to_others).await
    }

    async fn renew_all(&self, leases: &[Lease]) -> Vec<Result<Renewal, Error>> {
        self.twist.renew_all(&self.right, leases).await
    }

    fn losses(&self) -> Box<dyn Losses> {
        self.twist.losses(&self.right)
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>, Error> {
        self.twist.inspect(&self.right, name).await
    }

    async fn list(&self, name_prefix: &str) -> Result<Vec<(LockName, Holder)>, Error> {
        self.right.list(name_prefix).await
    }

    async fn evict(&self, name: &LockName, token: Token) -> Result<bool, Error> {
        self.twist.evict(&self.right, name, token).await
    }
}
