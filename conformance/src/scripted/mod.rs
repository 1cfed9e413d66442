//! A driver that does as it is told: ok, an error, late, or never.
//!
//! It stands around another driver and forwards every verb. A script for each verb says what
//! becomes of each call: whether it takes effect, and what the caller sees of it. Whatever the
//! script, it stays a right driver: validities count from the start of the call, and a release is
//! not called settled while a request of its owner can still land.

mod step;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use leasehold_api::{
    Acquired, Backend, Claim, Clock, Error, ErrorKind, HandedOver, Holder, Instant, Lease,
    LockName, Loss, LossTeller, Losses, Names, Operation, Owner, Profile, Released, Renewal,
    Ticket, Token, Validity, async_trait,
};
use tokio::sync::watch;

pub use self::step::{Delay, Effect, Gate, Landing, Step, Verb};

/// A call that was made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// What was called.
    pub verb: Verb,
    /// When, by the driver's clock.
    pub at: Instant,
    /// For which name, where it is for one.
    pub name: Option<LockName>,
    /// Of which owner, where it has one; of the claim, in a hand-over.
    pub owner: Option<Owner>,
    /// Of which token: that of the lease, or of the ticket, which need not have one.
    pub token: Option<Token>,
    /// Whether the claim queues, or the hand-over yields.
    pub flag: bool,
}

impl Call {
    fn of_token(mut self, token: Option<Token>) -> Self {
        self.token = token;
        self
    }
}

type Plan = Box<dyn FnMut(u64) -> Step + Send>;

/// A driver around another one, with a script for each verb. Clones share the scripts.
#[derive(Clone)]
pub struct Scripted {
    inner: Arc<dyn Backend>,
    shared: Arc<Shared>,
}

struct Shared {
    plans: Mutex<HashMap<Verb, (Plan, u64)>>,
    calls: Mutex<Vec<Call>>,
    made: watch::Sender<usize>,
    /// How many requests of an owner can still land.
    flying: Mutex<HashMap<Owner, usize>>,
    lost: LossTeller,
}

impl Scripted {
    /// A driver that forwards everything until it is told otherwise.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        let shared = Shared {
            plans: Mutex::default(),
            calls: Mutex::default(),
            made: watch::Sender::new(0),
            flying: Mutex::default(),
            lost: LossTeller::default(),
        };
        Self { inner, shared: Arc::new(shared) }
    }

    /// Decides each call of a verb from now on by its number, which begins at 0.
    pub fn plan(&self, verb: Verb, plan: impl FnMut(u64) -> Step + Send + 'static) {
        lock(&self.shared.plans).insert(verb, (Box::new(plan), 0));
    }

    /// Does the same with each call of a verb from now on.
    pub fn always(&self, verb: Verb, step: Step) {
        self.plan(verb, move |_| step.clone());
    }

    /// Does these with the next calls of a verb, and forwards those after them.
    pub fn next(&self, verb: Verb, steps: impl IntoIterator<Item = Step>) {
        let mut steps: VecDeque<_> = steps.into_iter().collect();
        self.plan(verb, move |_| steps.pop_front().unwrap_or(Step::Ok));
    }

    /// Forwards everything again.
    pub fn heal(&self) {
        lock(&self.shared.plans).clear();
    }

    /// Tells this loss, beside those that the driver behind it sees.
    pub fn lose(&self, owner: Owner, loss: Loss) {
        self.shared.lost.tell(owner, loss);
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.shared.calls).clone()
    }

    /// How many calls of a verb were made.
    #[must_use]
    pub fn count(&self, verb: Verb) -> usize {
        lock(&self.shared.calls).iter().filter(|call| call.verb == verb).count()
    }

    /// Ends when at least `count` calls of a verb were made.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn made(&self, verb: Verb, count: usize) {
        let mut made = self.shared.made.subscribe();
        // No error: this driver holds the sender.
        let _ = made.wait_for(|_| self.count(verb) >= count).await;
    }

    async fn perform<T: Send + 'static>(
        &self,
        call: Call,
        operation: Operation,
        work: BoxFuture<'static, Result<T, Error>>,
    ) -> Result<T, Error> {
        let owner = call.owner.filter(|_| call.verb != Verb::Release);
        match self.step(call) {
            Step::Ok => work.await,
            Step::Error(kind, effect) => {
                if effect == Effect::Done {
                    work.await?;
                }
                Err(as_told(kind, operation))
            }
            Step::LateError(delay, kind) => {
                delay.passes(&*self.inner.clock()).await;
                Err(as_told(kind, operation))
            }
            Step::Late(delay, Landing::Before) => {
                let answer = work.await;
                delay.passes(&*self.inner.clock()).await;
                answer
            }
            Step::Late(delay, Landing::After) => {
                delay.passes(&*self.inner.clock()).await;
                work.await
            }
            Step::Late(delay, Landing::Surely) => {
                let clock = self.inner.clock();
                let flight = Flight::begin(self.shared.clone(), owner);
                let lands = tokio::spawn(async move {
                    delay.passes(&*clock).await;
                    let answer = work.await;
                    drop(flight);
                    answer
                });
                match lands.await {
                    Ok(answer) => answer,
                    Err(_) => pending().await, // the runtime ends, and with it the caller
                }
            }
            Step::Never(effect) => {
                if effect == Effect::Done {
                    work.await?;
                }
                pending().await
            }
        }
    }

    /// Records a call and says what becomes of it.
    fn step(&self, call: Call) -> Step {
        let verb = call.verb;
        lock(&self.shared.calls).push(call);
        self.shared.made.send_modify(|made| *made += 1);
        match lock(&self.shared.plans).get_mut(&verb) {
            None => Step::Ok,
            Some((plan, number)) => {
                *number += 1;
                plan(*number - 1)
            }
        }
    }

    fn call(&self, verb: Verb, name: Option<&LockName>, owner: Option<Owner>, flag: bool) -> Call {
        let at = self.inner.clock().now();
        Call { verb, at, name: name.cloned(), owner, token: None, flag }
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// A request that can still land.
struct Flight {
    shared: Arc<Shared>,
    owner: Option<Owner>,
}

impl Flight {
    fn begin(shared: Arc<Shared>, owner: Option<Owner>) -> Self {
        if let Some(owner) = owner {
            *lock(&shared.flying).entry(owner).or_default() += 1;
        }
        Self { shared, owner }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let Some(owner) = self.owner else { return };
        let mut flying = lock(&self.shared.flying);
        if let Some(count) = flying.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                flying.remove(&owner);
            }
        }
    }
}

/// What the script tells, and what the driver behind it does.
#[derive(Debug)]
struct Both(Box<dyn Losses>, Box<dyn Losses>);

#[async_trait]
impl Losses for Both {
    async fn next(&mut self) -> (Owner, Loss) {
        tokio::select! {
            loss = self.0.next() => loss,
            loss = self.1.next() => loss,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Scripted {
    async fn acquire(&self, claim: &Claim) -> Result<Acquired, Error> {
        let call = self.call(Verb::Acquire, Some(&claim.name), Some(claim.owner), claim.queue);
        let (inner, claim, start) = (self.inner.clone(), claim.clone(), call.at);
        let work = Box::pin(async move {
            let mut answer = inner.acquire(&claim).await?;
            if let Acquired::Granted(grant) = &mut answer {
                grant.validity = since(start, grant.validity);
            }
            Ok(answer)
        });
        self.perform(call, Operation::Acquire, work).await
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal, Error> {
        let call = self.call(Verb::Renew, Some(&lease.name), Some(lease.owner), false);
        let call = call.of_token(Some(lease.token));
        let (inner, lease, start) = (self.inner.clone(), lease.clone(), call.at);
        let work = Box::pin(async move {
            Ok(match inner.renew(&lease).await? {
                Renewal::Renewed(validity) => Renewal::Renewed(since(start, validity)),
                loss @ Renewal::NotMine(_) => loss,
            })
        });
        self.perform(call, Operation::Renew, work).await
    }

    async fn release(
        &self,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let owner = ticket.owner;
        let call = self.call(Verb::Release, Some(&ticket.name), Some(owner), false);
        let call = call.of_token(ticket.token);
        let (inner, ticket, shared) = (self.inner.clone(), ticket.clone(), self.shared.clone());
        let work = Box::pin(async move {
            // Looked at first: what lands meanwhile may land after the release.
            let flying = lock(&shared.flying).contains_key(&owner);
            let mut released = inner.release(&ticket, reopen_after).await?;
            released.settled &= !flying;
            Ok(released)
        });
        self.perform(call, Operation::Release, work).await
    }

    async fn fencing_token(&self, name: &LockName) -> Result<Option<Token>, Error> {
        let call = self.call(Verb::FencingToken, Some(name), None, false);
        let (inner, name) = (self.inner.clone(), name.clone());
        let work = Box::pin(async move { inner.fencing_token(&name).await });
        self.perform(call, Operation::Tokens, work).await
    }

    async fn raise_tokens(&self, names: Names<'_>, above: Token) -> Result<(), Error> {
        let one = match names {
            Names::One(name) => Some(name.clone()),
            Names::All => None,
        };
        let call = self.call(Verb::RaiseTokens, one.as_ref(), None, false);
        let inner = self.inner.clone();
        let work = Box::pin(async move {
            let names = one.as_ref().map_or(Names::All, Names::One);
            inner.raise_tokens(names, above).await
        });
        self.perform(call, Operation::Tokens, work).await
    }

    fn profile(&self) -> &Profile {
        self.inner.profile()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    async fn wake(&self, claim: &Claim) {
        let call = self.call(Verb::Wake, Some(&claim.name), Some(claim.owner), claim.queue);
        let (inner, claim) = (self.inner.clone(), claim.clone());
        let work = Box::pin(async move {
            inner.wake(&claim).await;
            Ok(())
        });
        if self.perform(call, Operation::Acquire, work).await.is_err() {
            pending().await
        }
    }

    async fn hand_over(
        &self,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        let owner = Some(claim.owner);
        let call = self.call(Verb::HandOver, Some(&lease.name), owner, yield_to_others);
        let call = call.of_token(Some(lease.token));
        let (inner, lease, claim, start) =
            (self.inner.clone(), lease.clone(), claim.clone(), call.at);
        let work = Box::pin(async move {
            let mut answer = inner.hand_over(&lease, &claim, yield_to_others).await?;
            if let HandedOver::Granted(grant) = &mut answer {
                grant.validity = since(start, grant.validity);
            }
            Ok(answer)
        });
        self.perform(call, Operation::Acquire, work).await
    }

    async fn renew_all(&self, leases: &[Lease]) -> Vec<Result<Renewal, Error>> {
        join_all(leases.iter().map(|lease| self.renew(lease))).await
    }

    fn losses(&self) -> Box<dyn Losses> {
        Box::new(Both(self.shared.lost.listen(), self.inner.losses()))
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>, Error> {
        let call = self.call(Verb::Inspect, Some(name), None, false);
        let (inner, name) = (self.inner.clone(), name.clone());
        let work = Box::pin(async move { inner.inspect(&name).await });
        self.perform(call, Operation::Inspect, work).await
    }

    async fn list(&self, name_prefix: &str) -> Result<Vec<(LockName, Holder)>, Error> {
        let call = self.call(Verb::List, None, None, false);
        let (inner, prefix) = (self.inner.clone(), name_prefix.to_owned());
        let work = Box::pin(async move { inner.list(&prefix).await });
        self.perform(call, Operation::List, work).await
    }

    async fn evict(&self, name: &LockName, token: Token) -> Result<bool, Error> {
        let call = self.call(Verb::Evict, Some(name), None, false).of_token(Some(token));
        let (inner, name) = (self.inner.clone(), name.clone());
        let work = Box::pin(async move { inner.evict(&name, token).await });
        self.perform(call, Operation::Evict, work).await
    }
}

fn as_told(kind: ErrorKind, operation: Operation) -> Error {
    Error::new(kind, operation, "as it was told").with_backend("scripted")
}

/// A validity that counts from the start of the call: what is kept from a later instant is kept
/// from an earlier one at least as long.
fn since(start: Instant, validity: Validity) -> Validity {
    Validity { from: validity.from.min(start), ..validity }
}

/// Nothing panics while it holds one of these locks but a script, and then the test fails anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
