//! The driver: one function a verb.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, BootClock, Claim, Clock, Error, Grant, HandedOver, Holder, Instant, Lease,
    LockName, Loss, Names, Operation, Owner, Profile, Released, Renewal, Ticket, Token, Ttl,
    Validity, async_trait,
};

use crate::answer;
use crate::error::{Effect, Failure};
use crate::keys::Keys;
use crate::link::{Answer, Link, Target};
use crate::opening::Opening;
use crate::options::{Options, bad};
use crate::probe::{Unfit, probe};
use crate::profile::{TTL_FLOOR, profile};
use crate::record::{Head, Rest};
use crate::scripts::{ACQUIRE, Call, FENCING, HAND_OVER, RAISE, RELEASE};
use crate::trace;
use crate::unanswered::Unanswered;
use crate::wake::Wakes;

pub(crate) const NAME: &str = "redis";
const CONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
const GRACE: Duration = Duration::from_millis(50);
/// The longest that a queued claim waits for its subscription.
const PATIENCE: Duration = Duration::from_secs(1);

/// The driver of one Redis server.
#[derive(Debug)]
pub struct Redis {
    pub(crate) link: Link,
    pub(crate) keys: Keys,
    wakes: Wakes,
    unanswered: Unanswered,
    profile: Profile,
    /// By which messages find this client.
    process: String,
}

impl Redis {
    /// Connects, and looks whether the server will do.
    ///
    /// A server that can't be reached, or is loading, is tried again until the connect timeout
    /// (5 s unless set).
    ///
    /// # Errors
    ///
    /// By [kind](leasehold_api::ErrorKind): `BadInput` for bad options, before anything is sent;
    /// `Unreachable` and `Busy` after the connect timeout; `Auth` for a refused user or password,
    /// or one that may not run scripts, and for a certificate that one of the two does not trust;
    /// `NotPrimary` for a replica; `Unsupported` for a version below 6.2, a cluster's node, a
    /// sentinel, a server that answers without TLS; `Refused` with the server's code for anything
    /// else that it refuses.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes what it opened.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let target = Arc::new(Target::new(options)?);
        let options = &target.options;
        let keys = Keys::new(&options.prefix);
        let link = Link::new(target.clone());
        let until = tokio::time::Instant::now() + options.connect_timeout;
        let mut pause = CONNECT_PAUSE.0;
        let mut last = None;
        let warnings = loop {
            let attempt = async { probe(&*link.wire().await.map_err(Unfit::Failed)?, &keys).await };
            // The attempt has this limit too, and says more when it comes to it.
            let failure = match tokio::time::timeout_at(until + GRACE, attempt).await {
                Ok(Ok(warnings)) => break warnings,
                Ok(Err(Unfit::Refused(error))) => return Err(error),
                Ok(Err(Unfit::Failed(failure))) => failure,
                Err(_) => last.take().unwrap_or_else(|| Failure::Open(Opening::timed_out(&target))),
            };
            if !failure.may_pass() || tokio::time::Instant::now() + pause >= until {
                return Err(failure.into_error(Operation::Connect, Effect::Reads));
            }
            last = Some(failure);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(CONNECT_PAUSE.1);
        };
        for warning in &warnings {
            trace::warning(options, warning);
        }
        let process = Owner::random().to_string();
        let wakes = Wakes::new(target, format!("{}{process}", keys.channels));
        let unanswered = Unanswered::default();
        Ok(Self { link, keys, wakes, unanswered, profile: profile(warnings), process })
    }

    /// Sends a claim, and remembers it where it stays without an answer.
    async fn claim(&self, claim: &Claim, call: &Call) -> Result<Answer, Failure> {
        let mut asked = self.unanswered.asked(claim.owner, claim.ttl.get());
        let answer = self.link.script(call, |on| asked.sent(on)).await;
        if !answer.as_ref().is_err_and(Failure::is_indeterminate) {
            asked.answered();
        }
        answer
    }

    fn granted(&self, claim: &Claim, grant: answer::Granted, from: Instant) -> Grant {
        self.wakes.close(claim.owner);
        let remaining = grant.left.unwrap_or(claim.ttl.get());
        Grant { token: grant.token, validity: Validity { remaining, from } }
    }
}

#[async_trait]
impl Backend for Redis {
    async fn acquire(&self, claim: &Claim) -> Result<Acquired, Error> {
        check_ttl(claim.ttl)?;
        if claim.queue {
            self.wakes.open(claim.owner, PATIENCE.min(claim.ttl.get() / 10)).await;
        }
        let in_line = claim.queue || self.wakes.has(claim.owner);
        let mut call = ACQUIRE.call(if in_line { 4 } else { 3 });
        call.part(self.keys.record(&claim.name));
        call.part(self.keys.counter(&claim.name));
        call.part(self.keys.places(&claim.name));
        if in_line {
            call.part(self.keys.entries(&claim.name));
        }
        add_claim(&mut call, claim);
        if claim.queue || claim.above.is_some() {
            call.part(above(claim));
        }
        if claim.queue {
            call.part(&self.process);
        }
        let failed = |failure: Failure| failure.into_error(Operation::Acquire, Effect::Changes);
        let Answer { value, from, .. } = self.claim(claim, &call).await.map_err(failed)?;
        Ok(match answer::acquired(value).map_err(failed)? {
            answer::Acquired::Granted(grant) => Acquired::Granted(self.granted(claim, grant, from)),
            answer::Acquired::Held { holder, free_in } => Acquired::Held { holder, free_in },
        })
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal, Error> {
        let mut renewals = self.renew_all(std::slice::from_ref(lease)).await;
        renewals.pop().expect("one renewal a lease")
    }

    async fn renew_all(&self, leases: &[Lease]) -> Vec<Result<Renewal, Error>> {
        crate::renew::renew_all(&self.link, &self.keys, leases).await
    }

    async fn release(
        &self,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
    ) -> Result<Released, Error> {
        let closed_for = match reopen_after {
            None | Some(Duration::ZERO) => 0,
            Some(time) => Ttl::new(time)?.as_millis(),
        };
        let queued = self.wakes.close(ticket.owner);
        let mut call = RELEASE.call(3);
        call.part(self.keys.record(&ticket.name));
        call.part(self.keys.places(&ticket.name));
        call.part(self.keys.entries(&ticket.name));
        call.part(Head { owner: ticket.owner, token: ticket.token });
        if closed_for > 0 {
            call.part(closed_for);
        }
        let failed = |failure: Failure| failure.into_error(Operation::Release, Effect::Changes);
        let sent = self.link.script(&call, |_| ()).await;
        let Answer { value, generation, .. } = sent.map_err(failed)?;
        let outcome = match answer::number(&value) {
            Some(1) => Ok(()),
            Some(0) => Err(Loss::Gone),
            Some(-1) => Err(Loss::TakenOver),
            _ => return Err(failed(answer::UNREADABLE)),
        };
        // An owner of whom nothing is known here may have claimed through another client.
        let settled = self.unanswered.settled(ticket.owner, generation);
        let settled = settled.unwrap_or(queued || ticket.token.is_some());
        Ok(Released { outcome, settled })
    }

    async fn fencing_token(&self, name: &LockName) -> Result<Option<Token>, Error> {
        let failed = |failure: Failure| failure.into_error(Operation::Tokens, Effect::Reads);
        let mut call = FENCING.call(1);
        call.part(self.keys.counter(name));
        let answer = self.link.script(&call, |_| ()).await.map_err(failed)?;
        answer::token(answer.value).map_err(failed)
    }

    async fn raise_tokens(&self, names: Names<'_>, above: Token) -> Result<(), Error> {
        let failed = |failure: Failure| failure.into_error(Operation::Tokens, Effect::Changes);
        let one;
        let counters: &[String] = match names {
            Names::One(name) => {
                one = [self.keys.counter(name).to_owned()];
                &one
            }
            Names::All => self.keys.counters(),
        };
        let mut call = RAISE.call(counters.len());
        call.part(counters).part(above.get());
        self.link.script(&call, |_| ()).await.map_err(failed)?;
        Ok(())
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    async fn wake(&self, claim: &Claim) {
        self.wakes.woken(claim.owner).await;
    }

    async fn hand_over(
        &self,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
    ) -> Result<HandedOver, Error> {
        check_ttl(claim.ttl)?;
        if claim.name != lease.name {
            return bad("a hand-over is from one lease to a claim of the same name");
        }
        if yield_to_others {
            self.wakes.open(claim.owner, PATIENCE.min(claim.ttl.get() / 10)).await;
        }
        let name = &lease.name;
        let mut call = HAND_OVER.call(4);
        call.part(self.keys.record(name)).part(self.keys.counter(name));
        call.part(self.keys.places(name)).part(self.keys.entries(name));
        call.part(Head { owner: lease.owner, token: Some(lease.token) });
        add_claim(&mut call, claim);
        call.part(above(claim)).part(&self.process).part(if yield_to_others { "1" } else { "" });
        let failed = |failure: Failure| failure.into_error(Operation::Acquire, Effect::Changes);
        let Answer { value, from, .. } = self.claim(claim, &call).await.map_err(failed)?;
        Ok(match answer::handed_over(value).map_err(failed)? {
            answer::HandedOver::Granted(grant) => {
                HandedOver::Granted(self.granted(claim, grant, from))
            }
            answer::HandedOver::NotMine(loss) => HandedOver::NotMine(loss),
            answer::HandedOver::Yielded => HandedOver::Yielded,
        })
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>, Error> {
        self.inspect_name(name).await
    }

    async fn list(&self, name_prefix: &str) -> Result<Vec<(LockName, Holder)>, Error> {
        self.list_names(name_prefix).await
    }

    async fn evict(&self, name: &LockName, token: Token) -> Result<bool, Error> {
        self.evict_lease(name, token).await
    }
}

/// Adds what the scripts want to know of every claim.
fn add_claim(call: &mut Call, claim: &Claim) {
    call.part(Head { owner: claim.owner, token: None });
    call.part(claim.ttl.as_millis()).part(Rest(&claim.metadata));
}

/// What a claim's token must be above.
fn above(claim: &Claim) -> u64 {
    claim.above.map_or(0, Token::get)
}

fn check_ttl(ttl: Ttl) -> Result<(), Error> {
    if ttl.get() < TTL_FLOOR {
        return bad(format!("a TTL of {ttl}; allowed are {TTL_FLOOR:?} and more"));
    }
    Ok(())
}
