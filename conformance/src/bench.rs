//! What a check works with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Lock, Locks};
use leasehold_api::{Backend, Claim, LockName, Owner, Profile, Ttl};

use crate::scripted::Scripted;
use crate::subject::{Share, Store, Subject, Time};
use crate::table::Check;
use crate::verdict::Failure;

/// One check's store, its clients, and names that no other check uses.
pub struct Bench {
    store: Box<dyn Store>,
    time: Time,
    ttl: Ttl,
    late: Duration,
    prefix: String,
    names: AtomicU64,
}

impl Bench {
    /// A bench for `check` over a store of `subject`.
    ///
    /// # Errors
    ///
    /// What the subject answers when asked for a store.
    ///
    /// # Cancel safety
    ///
    /// As [`Subject::store`].
    pub async fn new(subject: &dyn Subject, check: &Check) -> Result<Self, Failure> {
        let share = check.share();
        Self::over(subject, share, &check.id()).await
    }

    /// A bench over a store of `subject`, for a test of one's own.
    ///
    /// # Errors
    ///
    /// What the subject answers when asked for a store.
    ///
    /// # Cancel safety
    ///
    /// As [`Subject::store`].
    pub async fn over(subject: &dyn Subject, share: Share, label: &str) -> Result<Self, Failure> {
        let store = subject.store(share).await?;
        let random = Owner::random().bits() as u32;
        Ok(Self {
            store,
            time: subject.time(),
            ttl: Ttl::new(subject.ttl())?,
            late: subject.late(),
            prefix: format!("{label}-{random:08x}"),
            names: AtomicU64::new(0),
        })
    }

    /// The store, for its hooks.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// A fresh client.
    ///
    /// # Errors
    ///
    /// What the driver's connect answers.
    ///
    /// # Cancel safety
    ///
    /// As [`Store::connect`].
    pub async fn client(&self) -> Result<Arc<dyn Backend>, Failure> {
        self.store.connect().await
    }

    /// Fresh clients.
    ///
    /// # Errors
    ///
    /// What the driver's connect answers.
    ///
    /// # Cancel safety
    ///
    /// As [`Store::connect`].
    pub async fn clients<const N: usize>(&self) -> Result<[Arc<dyn Backend>; N], Failure> {
        let mut clients = Vec::with_capacity(N);
        for _ in 0..N {
            clients.push(self.client().await?);
        }
        clients.try_into().map_err(|_| Failure::failed("not all clients were made"))
    }

    /// The facade over a fresh client.
    ///
    /// # Errors
    ///
    /// What the driver's connect answers.
    ///
    /// # Cancel safety
    ///
    /// As [`Store::connect`].
    pub async fn locks(&self) -> Result<Locks, Failure> {
        Ok(Locks::with_backend(self.client().await?))
    }

    /// The facade over a fresh client that does as it is told.
    ///
    /// # Errors
    ///
    /// What the driver's connect answers.
    ///
    /// # Cancel safety
    ///
    /// As [`Store::connect`].
    pub async fn scripted(&self) -> Result<(Scripted, Locks), Failure> {
        let scripted = Scripted::new(self.client().await?);
        let locks = Locks::with_backend(Arc::new(scripted.clone()));
        Ok((scripted, locks))
    }

    /// The lock of a name, for `n` TTLs.
    ///
    /// # Errors
    ///
    /// What the facade answers.
    pub fn lock(&self, locks: &Locks, name: &LockName, n: u32) -> Result<Lock, Failure> {
        Ok(locks.lock(name.as_str())?.ttl(self.ttls(n).get()))
    }

    /// A name that nobody else uses.
    ///
    /// # Panics
    ///
    /// If this bench's label is too long for a name.
    #[must_use]
    pub fn name(&self) -> LockName {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        LockName::new(&format!("{}-{number}", self.prefix)).expect("short and printable")
    }

    /// The TTL to use where a check is not about TTLs.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// That TTL `n` times.
    ///
    /// # Panics
    ///
    /// If that is more than 30 days.
    #[must_use]
    pub fn ttls(&self, n: u32) -> Ttl {
        Ttl::new(self.ttl.get() * n).expect("a multiple of a short TTL")
    }

    /// How late an expired lease may fall free, or a wake-up come.
    #[must_use]
    pub fn late(&self) -> Duration {
        self.late
    }

    /// On which clock time passes.
    #[must_use]
    pub fn time(&self) -> Time {
        self.time
    }

    /// A claim of a fresh owner, for one TTL.
    #[must_use]
    pub fn claim(&self, name: &LockName) -> Claim {
        Claim::new(name.clone(), Owner::random(), self.ttl)
    }

    /// A claim of a fresh owner, for `n` TTLs: long enough not to end while a check looks.
    #[must_use]
    pub fn long_claim(&self, name: &LockName, n: u32) -> Claim {
        Claim::new(name.clone(), Owner::random(), self.ttls(n))
    }

    /// How often a check that polls asks.
    #[must_use]
    pub fn step(&self) -> Duration {
        (self.late / 10).max(Duration::from_millis(1))
    }

    /// Refuses the check where the backend has no `inspect`, `list` and `evict`.
    ///
    /// # Errors
    ///
    /// Not applicable.
    pub fn needs_operator(profile: &Profile) -> Result<(), Failure> {
        if profile.operator {
            return Ok(());
        }
        Err(Failure::not_applicable("the profile has no operator's verbs"))
    }
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
