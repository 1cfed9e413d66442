//! One function a verb, each one step under the store's mutex.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, Clock, Error, Grant, Guarantee, HandedOver, Holder, Lease, LockName,
    Names, Operation, Order, Profile, Released, Renewal, Scope, Ticket, Token, TokioClock,
    Validity, Waking, async_trait,
};

use crate::store::{Handed, Store};

/// The shortest TTL that is kept.
pub const TTL_FLOOR: Duration = Duration::from_millis(10);

/// The URL's query keys that this driver takes.
pub const URL_KEYS: &[&str] = &["prefix"];

/// A client of a store in this process. Clones share the store.
#[derive(Debug, Clone)]
pub struct Memory {
    store: Arc<Mutex<Store>>,
    profile: Arc<Profile>,
}

impl Memory {
    /// A client of a new store.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Arc::default())
    }

    /// A client of the store that has this path in this process.
    #[must_use]
    pub fn shared(path: &str) -> Self {
        static STORES: OnceLock<Mutex<HashMap<String, Arc<Mutex<Store>>>>> = OnceLock::new();
        let stores = STORES.get_or_init(Mutex::default);
        let mut stores = stores.lock().unwrap_or_else(PoisonError::into_inner);
        Self::of(stores.entry(path.to_owned()).or_default().clone())
    }

    fn of(store: Arc<Mutex<Store>>) -> Self {
        let mut profile = Profile::new("memory");
        profile.guarantee = Guarantee::Correctness;
        profile.scope = Scope::Process;
        profile.ttl_floor = TTL_FLOOR;
        profile.tokens_on_data_loss = "data is lost only with the process";
        profile.waking = Waking::Message;
        profile.order = Order::Woken;
        profile.expiry_clock = "tokio's clock in this process";
        profile.operator = true;
        Self { store, profile: Arc::new(profile) }
    }

    /// No step panics half way, so a poisoned store is still whole.
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Backend for Memory {
    async fn acquire(&self, claim: &Claim) -> Result<Acquired, Error> {
        check_ttl(claim)?;
        let now = TokioClock.now();
        let mut store = self.store();
        let outcome = store.acquire(claim, now).map_err(|error| error.with_backend("memory"))?;
        Ok(match outcome {
            Ok((token, expires)) => {
                let validity = Validity { remaining: expires.since(now), from: now };
                Acquired::Granted(Grant { token, validity })
            }
            Err(record) => Acquired::Held {
                holder: record.holder(now),
                free_in: Some(record.expires.since(now)),
            },
        })
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal, Error> {
        let now = TokioClock.now();
        let renewed = self.store().renew(&lease.name, lease.owner, lease.token, lease.ttl, now);
        Ok(match renewed {
            Ok(()) => Renewal::Renewed(Validity { remaining: lease.ttl.get(), from: now }),
            Err(loss) => Renewal::NotMine(loss),
        })
    }

    async fn release(
        &self,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let outcome = self.store().release(ticket, reopen_after, TokioClock.now());
        // A dropped call either took its one step or never will.
        Ok(Released { outcome, settled: true })
    }

    async fn fencing_token(&self, _name: &LockName) -> Result<Option<Token>, Error> {
        Ok(self.store().last_token())
    }

    async fn raise_tokens(&self, _names: Names<'_>, above: Token) -> Result<(), Error> {
        self.store().raise_tokens(above);
        Ok(())
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TokioClock)
    }

    async fn wake(&self, claim: &Claim) {
        let slot = self.store().slot(claim.owner);
        match slot {
            Some(slot) => slot.notified().await,
            None => std::future::pending().await,
        }
    }

    async fn hand_over(
        &self,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        check_ttl(claim)?;
        let now = TokioClock.now();
        let mut store = self.store();
        let handed = store.hand_over(lease, claim, yield_to_others, now);
        Ok(match handed.map_err(|error| error.with_backend("memory"))? {
            Handed::Granted(token, expires) => {
                let validity = Validity { remaining: expires.since(now), from: now };
                HandedOver::Granted(Grant { token, validity })
            }
            Handed::NotMine(loss) => HandedOver::NotMine(loss),
            Handed::Yielded => HandedOver::Yielded,
        })
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>, Error> {
        let now = TokioClock.now();
        Ok(self.store().record(name, now).and_then(|record| record.holder(now)))
    }

    async fn list(&self, name_prefix: &str) -> Result<Vec<(LockName, Holder)>, Error> {
        let store = self.store();
        let mut held: Vec<_> = store
            .held(TokioClock.now())
            .filter(|(name, _)| name.as_str().starts_with(name_prefix))
            .map(|(name, holder)| (name.clone(), holder))
            .collect();
        held.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(held)
    }

    async fn evict(&self, name: &LockName, token: Token) -> Result<bool, Error> {
        Ok(self.store().evict(name, token, TokioClock.now()))
    }
}

fn check_ttl(claim: &Claim) -> Result<(), Error> {
    if claim.ttl.get() >= TTL_FLOOR {
        return Ok(());
    }
    let message = format!("a TTL of {} is below {TTL_FLOOR:?}, the least that is kept", claim.ttl);
    Err(Error::bad_input(Operation::Acquire, message).with_backend("memory"))
}
