//! The driver: what each verb of the contract is made of.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use etcd_client::{Txn, TxnResponse};
use leasehold_api::{
    Acquired, Backend, BootClock, Claim, Clock, Error, HandedOver, Holder, Lease, LockName, Losses,
    Names, Operation, Owner, Profile, Released, Renewal, Ticket, Token, Ttl, async_trait,
};
use tokio::task::JoinHandle;

use crate::error::{Effect, Failure};
use crate::floor::Floor;
use crate::holdings::Holdings;
use crate::keys::Keys;
use crate::link::Link;
use crate::options::{Options, bad};
use crate::probe::{Unfit, probe};
use crate::profile::profile;
use crate::reaper;
use crate::sessions::Sessions;
use crate::spare::Spares;
use crate::standing::Standing;
use crate::trace;
use crate::watch::Watches;

/// The backend's name, as errors and profiles carry it.
pub(crate) const NAME: &str = "etcd";

/// Between attempts to connect.
const CONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The etcd driver.
#[derive(Debug)]
pub struct Etcd {
    core: Arc<Core>,
    reaper: Mutex<JoinHandle<()>>,
}

/// One client's connection, sessions, watches, held locks and claims.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) keys: Arc<Keys>,
    pub(crate) link: Link,
    pub(crate) floor: Floor,
    pub(crate) sessions: Sessions,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) watches: Watches,
    pub(crate) standing: Standing,
    pub(crate) spares: Arc<Spares>,
    profile: Profile,
}

impl Etcd {
    /// Connects to any of the members, for up to `connect_timeout`, and checks that the cluster can
    /// be used.
    ///
    /// # Errors
    ///
    /// [`BadInput`](leasehold_api::ErrorKind::BadInput) for bad options, before anything is sent;
    /// `Unreachable`, `Auth`, `Refused` or `Busy` as the members answer;
    /// [`Unsupported`](leasehold_api::ErrorKind::Unsupported) for a version before 3.4, and for
    /// what answers without TLS. A certificate that one of the two ends does not accept is `Auth`.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes what it opened; an empty lease of a second or two may stay till it ends.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        options.check()?;
        let place = options.place();
        let (until, mut pause) =
            (tokio::time::Instant::now() + options.connect_timeout, CONNECT_PAUSE.0);
        let keys = Arc::new(Keys::new(&options.prefix));
        // Any member will do; not all clients' the same.
        let first = usize::from(Owner::random().bits() as u16);
        let link = Link::new(options, first)?;
        let floor = Floor::new(keys.clone(), link.clone());
        let mut last = None;
        let probed = loop {
            let attempt = async {
                let probed = probe(&link).await?;
                // The tokens' source is there from the first client on.
                match floor.to_claim(None).await {
                    Err(failure) if !failure.is_no_space() => Err(failure.into()),
                    _ => Ok(probed),
                }
            };
            let failure = match tokio::time::timeout_at(until, attempt).await {
                Ok(Ok(probed)) => break probed,
                Ok(Err(Unfit::Refused(error))) => return Err(error),
                Ok(Err(Unfit::Failed(failure))) => failure,
                // Cut short: what was learnt before says more.
                Err(_) => last.unwrap_or(Failure::Silent(link.options().connect_timeout)),
            };
            if !failure.may_pass() || tokio::time::Instant::now() + pause >= until {
                return Err(failure.into_error(Operation::Connect, Effect::Reads));
            }
            last = Some(failure);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(CONNECT_PAUSE.1);
        };
        for warning in &probed.warnings {
            trace::warning(&place, warning);
        }
        let (holdings, spares) = (Arc::<Holdings>::default(), Arc::<Spares>::default());
        let core = Arc::new(Core {
            sessions: Sessions::new(keys.clone(), link.clone(), spares.clone()),
            watches: Watches::new(link.clone(), keys.clone(), holdings.clone()),
            profile: profile(probed.ttl_floor, probed.warnings),
            standing: Standing::default(),
            spares,
            keys,
            link,
            floor,
            holdings,
        });
        core.watches.run();
        let reaper = tokio::spawn(reaper::run(Arc::downgrade(&core)));
        Ok(Self { core, reaper: Mutex::new(reaper) })
    }

    /// Sees that the tasks run: they may have ended with the runtime they ran on.
    fn keep_tasks(&self) {
        self.core.watches.run();
        let mut reaper = self.reaper();
        if reaper.is_finished() {
            *reaper = tokio::spawn(reaper::run(Arc::downgrade(&self.core)));
        }
    }

    fn reaper(&self) -> MutexGuard<'_, JoinHandle<()>> {
        self.reaper.lock().expect("nothing panics while it holds this lock")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.reaper().abort();
    }
}

impl Core {
    pub(crate) async fn txn(&self, patience: Duration, txn: &Txn) -> Result<TxnResponse, Failure> {
        self.link
            .call(patience, |client| {
                let (mut kv, txn) = (client.kv_client(), txn.clone());
                async move { kv.txn(txn).await }
            })
            .await
    }

    fn check_ttl(&self, ttl: Ttl) -> Result<(), Error> {
        let floor = self.profile.ttl_floor;
        if ttl.get() < floor {
            return bad(format!(
                "a TTL of {ttl}; allowed are {floor:?} and more, which is the shortest lease that \
                 this cluster grants"
            ));
        }
        Ok(())
    }
}

#[async_trait]
impl Backend for Etcd {
    async fn acquire(&self, claim: &Claim) -> Result<Acquired, Error> {
        self.core.check_ttl(claim.ttl)?;
        self.keep_tasks();
        let failed = |failure: Failure| failure.into_error(Operation::Acquire, Effect::Changes);
        self.core.attempt(claim).await.map_err(failed)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal, Error> {
        let mut renewals = self.renew_all(std::slice::from_ref(lease)).await;
        renewals.pop().expect("one renewal a lease")
    }

    async fn renew_all(&self, leases: &[Lease]) -> Vec<Result<Renewal, Error>> {
        self.core.renew_each(leases).await
    }

    async fn release(
        &self,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let reopen_after = match reopen_after {
            None | Some(Duration::ZERO) => None,
            Some(time) => Some(Ttl::new(time)?),
        };
        let failed = |failure: Failure| failure.into_error(Operation::Release, Effect::Changes);
        self.core.give_back(ticket, reopen_after).await.map_err(failed)
    }

    async fn fencing_token(&self, name: &LockName) -> Result<Option<Token>, Error> {
        let _ = name; // one floor for all
        let failed = |failure: Failure| failure.into_error(Operation::Tokens, Effect::Reads);
        let known = self.core.floor.read().await.map_err(failed)?;
        if known.floor == 0 {
            return Ok(None);
        }
        let highest = known.floor.saturating_add(known.revision).min(Token::MAX.get());
        Token::new(highest).map(Some)
    }

    async fn raise_tokens(&self, names: Names<'_>, above: Token) -> Result<(), Error> {
        let failed = |failure: Failure| failure.into_error(Operation::Tokens, Effect::Changes);
        self.core.floor.raise(above).await.map_err(failed)?;
        self.core.send_back_waiters(names, above).await.map_err(failed)
    }

    fn profile(&self) -> &Profile {
        &self.core.profile
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    async fn wake(&self, claim: &Claim) {
        self.core.watches.woken(&claim.name, claim.owner).await;
    }

    async fn hand_over(
        &self,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        self.core.check_ttl(claim.ttl)?;
        self.keep_tasks();
        if claim.name != lease.name {
            return bad("a hand-over is from one lease to a claim of the same name");
        }
        let failed = |failure: Failure| failure.into_error(Operation::Acquire, Effect::Changes);
        self.core.pass_on(lease, claim, yield_to_others).await.map_err(failed)
    }

    fn losses(&self) -> Box<dyn Losses> {
        self.core.watches.losses()
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>, Error> {
        let failed = |failure: Failure| failure.into_error(Operation::Inspect, Effect::Reads);
        self.core.look_up(name).await.map_err(failed)
    }

    async fn list(&self, name_prefix: &str) -> Result<Vec<(LockName, Holder)>, Error> {
        let failed = |failure: Failure| failure.into_error(Operation::List, Effect::Reads);
        self.core.list_all(name_prefix).await.map_err(failed)
    }

    async fn evict(&self, name: &LockName, token: Token) -> Result<bool, Error> {
        let failed = |failure: Failure| failure.into_error(Operation::Evict, Effect::Changes);
        self.core.end_lease(name, token).await.map_err(failed)
    }
}
