//! The memory driver as a subject, with every hook that can be had in one process.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Clock, Error, ErrorKind, HandedOver, Holder, Lease, LockName, Losses,
    Names, Owner, Profile, Released, Renewal, Ticket, Token, Ttl, async_trait,
};
use leasehold_memory::Memory;

use crate::scripted::{Delay, Effect, Gate, Landing, Scripted, Step, Verb};
use crate::subject::{Link, Record, Share, Store, Subject, Time};
use crate::verdict::{Failure, Verdict};
use crate::wrong::{Twist, Twisted};

/// What stands between a client of the memory driver and a check. Each client gets one of its own.
type Wrap = Arc<dyn Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync>;

/// The memory driver on paused time: every check has a store of its own.
#[derive(Clone)]
pub struct MemorySubject {
    wrap: Wrap,
}

impl MemorySubject {
    /// The driver as it is.
    #[must_use]
    pub fn new() -> Self {
        Self::wrapped(|memory| memory)
    }

    /// The driver within another one: a wrong or a scripted one.
    #[must_use]
    pub fn wrapped(
        wrap: impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync + 'static,
    ) -> Self {
        Self { wrap: Arc::new(wrap) }
    }
}

impl Default for MemorySubject {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemorySubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySubject").finish_non_exhaustive()
    }
}

#[async_trait]
impl Subject for MemorySubject {
    fn name(&self) -> &str {
        "memory"
    }

    async fn store(&self, _share: Share) -> Result<Box<dyn Store>, Failure> {
        let disk = Disk(Arc::new(Mutex::new(Memory::new())));
        let state = Arc::new(Mutex::new((Link::Healthy, Gate::closed())));
        Ok(Box::new(MemoryStore { disk, state, wrap: self.wrap.clone(), open: Arc::default() }))
    }

    fn time(&self) -> Time {
        Time::Paused
    }
}

struct MemoryStore {
    disk: Disk,
    wrap: Wrap,
    state: Arc<Mutex<(Link, Gate)>>,
    open: Arc<AtomicUsize>,
}

#[async_trait]
impl Store for MemoryStore {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Failure> {
        let connection = Connection::open(&self.open);
        let (disk, memory) = (self.disk.clone(), self.disk.memory());
        let client = (self.wrap)(Arc::new(Client { disk, memory, _connection: connection }));
        // Over a network it would wait here, and could be dropped.
        tokio::task::yield_now().await;
        Ok(client)
    }

    async fn connections(&self) -> Result<usize, Failure> {
        Ok(self.open.load(Ordering::Relaxed))
    }

    async fn lose_data(&self) -> Verdict {
        *self.disk.current() = Memory::new();
        Ok(())
    }

    async fn delete_record(&self, name: &LockName) -> Verdict {
        let memory = self.disk.memory();
        if let Some(holder) = memory.inspect(name).await? {
            memory.evict(name, holder.token).await?;
        }
        Ok(())
    }

    async fn overwrite_record(&self, name: &LockName) -> Verdict {
        self.delete_record(name).await?;
        let claim = Claim::new(name.clone(), Owner::random(), Ttl::MAX);
        self.disk.memory().acquire(&claim).await?;
        Ok(())
    }

    async fn record(&self, name: &LockName) -> Result<Option<Record>, Failure> {
        let holder = self.disk.memory().inspect(name).await?;
        Ok(holder.map(|held| Record { remaining: held.remaining, token: Some(held.token) }))
    }

    async fn connect_by_link(&self) -> Result<Arc<dyn Backend>, Failure> {
        let doubling = Doubling(self.state.clone());
        let right = Twisted { right: self.connect().await?, twist: doubling };
        let scripted = Scripted::new(Arc::new(right));
        for verb in [Verb::Acquire, Verb::Renew, Verb::Release, Verb::HandOver, Verb::FencingToken]
        {
            let state = self.state.clone();
            scripted.plan(verb, move |_| step(&state));
        }
        Ok(Arc::new(scripted))
    }

    async fn link(&self, link: Link) -> Verdict {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if link == Link::Healthy {
            state.1.open();
            state.1 = Gate::closed();
        }
        state.0 = link;
        Ok(())
    }
}

/// What a link in this state makes of a call.
fn step(state: &Mutex<(Link, Gate)>) -> Step {
    let (link, gate) = &mut *state.lock().unwrap_or_else(PoisonError::into_inner);
    let step = match link {
        Link::Healthy => Step::Ok,
        Link::Refused => Step::Error(ErrorKind::Unreachable, Effect::Not),
        Link::Blackholed => Step::Never(Effect::Not),
        Link::AnswersLost => Step::Never(Effect::Done),
        Link::AnswersHeld => Step::Late(Delay::Until(gate.clone()), Landing::Before),
        Link::RequestsHeld => Step::Late(Delay::Until(gate.clone()), Landing::Surely),
        // Doubled by `Doubling`, behind this.
        Link::RequestsDoubled => Step::Ok,
        Link::CutAtRequest(0) => Step::Error(ErrorKind::Unreachable, Effect::Not),
        Link::CutAtAnswer(0) => Step::Error(ErrorKind::Indeterminate, Effect::Done),
        Link::CutAtRequest(_) | Link::CutAtAnswer(_) => Step::Ok,
    };
    *link = match *link {
        Link::CutAtRequest(0) | Link::CutAtAnswer(0) => Link::Healthy,
        Link::CutAtRequest(left) => Link::CutAtRequest(left - 1),
        Link::CutAtAnswer(left) => Link::CutAtAnswer(left - 1),
        standing => standing,
    };
    step
}

/// Sends requests twice while the link doubles them, and answers the first answer.
struct Doubling(Arc<Mutex<(Link, Gate)>>);

impl Doubling {
    fn doubles(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 == Link::RequestsDoubled
    }
}

impl fmt::Debug for Doubling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Doubling").field(&self.doubles()).finish()
    }
}

#[async_trait]
impl Twist for Doubling {
    async fn acquire(&self, right: &Arc<dyn Backend>, claim: &Claim) -> Result<Acquired, Error> {
        let answer = right.acquire(claim).await;
        if self.doubles() {
            let _ = right.acquire(claim).await; // nobody hears the second answer
        }
        answer
    }

    async fn renew(&self, right: &Arc<dyn Backend>, lease: &Lease) -> Result<Renewal, Error> {
        let answer = right.renew(lease).await;
        if self.doubles() {
            let _ = right.renew(lease).await;
        }
        answer
    }

    async fn release(
        &self,
        right: &Arc<dyn Backend>,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let answer = right.release(ticket, reopen_after).await;
        if self.doubles() {
            let _ = right.release(ticket, reopen_after).await;
        }
        answer
    }

    async fn hand_over(
        &self,
        right: &Arc<dyn Backend>,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        let answer = right.hand_over(lease, claim, yield_to_others).await;
        if self.doubles() {
            let _ = right.hand_over(lease, claim, yield_to_others).await;
        }
        answer
    }
}

/// The store that clients reach, which another may take the place of.
#[derive(Debug, Clone)]
struct Disk(Arc<Mutex<Memory>>);

impl Disk {
    fn current(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> Memory {
        self.current().clone()
    }
}

/// What a client has open as long as it lives.
#[derive(Debug)]
struct Connection(Arc<AtomicUsize>);

impl Connection {
    fn open(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client that finds the store that is there now.
#[derive(Debug)]
struct Client {
    disk: Disk,
    /// Of the profile only, which no exchange alters.
    memory: Memory,
    _connection: Connection,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Client {
    async fn acquire(&self, claim: &Claim) -> Result<Acquired, Error> {
        self.disk.memory().acquire(claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal, Error> {
        self.disk.memory().renew(lease).await
    }

    async fn release(
        &self,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        self.disk.memory().release(ticket, reopen_after).await
    }

    async fn fencing_token(&self, name: &LockName) -> Result<Option<Token>, Error> {
        self.disk.memory().fencing_token(name).await
    }

    async fn raise_tokens(&self, names: Names<'_>, above: Token) -> Result<(), Error> {
        self.disk.memory().raise_tokens(names, above).await
    }

    fn profile(&self) -> &Profile {
        self.memory.profile()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.memory.clock()
    }

    async fn wake(&self, claim: &Claim) {
        self.disk.memory().wake(claim).await;
    }

    async fn hand_over(
        &self,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        self.disk.memory().hand_over(lease, claim, yield_to_others).await
    }

    async fn renew_all(&self, leases: &[Lease]) -> Vec<Result<Renewal, Error>> {
        self.disk.memory().renew_all(leases).await
    }

    fn losses(&self) -> Box<dyn Losses> {
        self.disk.memory().losses()
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>, Error> {
        self.disk.memory().inspect(name).await
    }

    async fn list(&self, name_prefix: &str) -> Result<Vec<(LockName, Holder)>, Error> {
        self.disk.memory().list(name_prefix).await
    }

    async fn evict(&self, name: &LockName, token: Token) -> Result<bool, Error> {
        self.disk.memory().evict(name, token).await
    }
}
