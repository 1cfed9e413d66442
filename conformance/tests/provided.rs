//! The whole suite over a driver that implements what the trait asks for and no more: what the
//! trait provides keeps the contract too.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Clock, Error, Lease, LockName, Names, Order, Profile, Released,
    Renewal, Ticket, Token, Waking, async_trait,
};
use leasehold_conformance::MemorySubject;

/// The memory driver's required methods.
#[derive(Debug)]
struct Required {
    memory: Arc<dyn Backend>,
    profile: Profile,
}

#[async_trait]
impl Backend for Required {
    async fn acquire(&self, claim: &Claim) -> Result<Acquired, Error> {
        self.memory.acquire(claim).await
    }
    async fn renew(&self, lease: &Lease) -> Result<Renewal, Error> {
        self.memory.renew(lease).await
    }
    async fn release(
        &self,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        self.memory.release(ticket, reopen_after).await
    }
    async fn fencing_token(&self, name: &LockName) -> Result<Option<Token>, Error> {
        self.memory.fencing_token(name).await
    }
    async fn raise_tokens(&self, names: Names<'_>, above: Token) -> Result<(), Error> {
        self.memory.raise_tokens(names, above).await
    }
    fn profile(&self) -> &Profile {
        &self.profile
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.memory.clock()
    }
}

fn required(memory: Arc<dyn Backend>) -> Arc<dyn Backend> {
    let mut profile = memory.profile().clone();
    profile.operator = false;
    profile.waking = Waking::Time;
    profile.order = Order::None;
    Arc::new(Required { memory, profile })
}

leasehold_conformance::suite!(MemorySubject::wrapped(required));
