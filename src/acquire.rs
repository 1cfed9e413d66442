//! The waiting loop: how a claim becomes a guard, or leaves nothing behind.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold_api::{Acquired, Claim, Error, ErrorKind, Grant, Holder, Instant, Loss, Operation};
use tracing::Instrument;

use crate::cleanup::Job;
use crate::client::{Client, Lifeline};
use crate::failure::{may_have_landed, may_mend};
use crate::guard::Guard;
use crate::held::{Held, Over};
use crate::queue::{Turn, Waiter};
use crate::trace::{self, Acquisition};

/// No attempt of a `try_acquire`, or of a wait of zero, takes longer.
const LONGEST_TRY: Duration = Duration::from_secs(5);
/// A parked waiter looks at the clock and at its holder at least this often.
const RECHECK: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const NOT_REENTRANT: &str = "; a lock is not re-entrant";

/// Asks once, without queueing: `None` if somebody else has it, or stands before us.
pub(crate) async fn try_once(
    client: &Arc<Lifeline>,
    waiter: Waiter,
) -> Result<Option<Guard>, Error> {
    let told = Acquisition::begin(client, &waiter.claim, None);
    let asks = async {
        settle_lost_holder(client, &waiter.claim);
        if !client.queue.is_empty(&waiter.claim.name) {
            return Ok(None);
        }
        let _under_way = client.acquisitions.token();
        let mut traces = Traces { client, claim: &waiter.claim, left: true };
        let limit = Client::limit(waiter.claim.ttl).min(LONGEST_TRY);
        let outcome = match ask(client, &waiter.claim, limit).await {
            Ok(Acquired::Granted(grant)) => begin(client, &waiter, grant, None).map(Some),
            Ok(Acquired::Held { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        traces.left = outcome.as_ref().is_err_and(may_have_landed);
        outcome
    };
    let outcome = asks.instrument(told.span()).await;
    told.ends(outcome.as_ref().map(Option::as_ref));
    outcome
}

/// Waits for the lock until `wait` is over; without one, without limit.
pub(crate) async fn acquire(
    client: &Arc<Lifeline>,
    waiter: Waiter,
    wait: Option<Duration>,
) -> Result<Guard, Error> {
    let _under_way = client.acquisitions.token();
    let began = client.clock.now();
    let end = began.saturating_add(wait.unwrap_or(Duration::MAX));
    let asks_once = wait.is_some_and(|wait| wait.is_zero());
    let mut waiter = Arc::new(waiter);
    let mut pause = Pause::new(&waiter.claim, Client::limit(waiter.claim.ttl));
    let mut warned = false;
    loop {
        match stand_in_line(client, &waiter, began, end, asks_once).await {
            // What that owner left is freed, whenever it lands: it can't be asked for again.
            Err(error) if matches!(error.kind(), ErrorKind::TooLate | ErrorKind::Indeterminate) => {
                let again = pause.next(client.clock.now());
                if again >= end {
                    return Err(error);
                }
                let first = !std::mem::replace(&mut warned, true);
                trace::asks_as_another(client, &waiter.claim, &error, first);
                sleep_until(client, again).await?;
                waiter = Arc::new(waiter.with_another_owner());
            }
            outcome => return outcome,
        }
    }
}

/// Waits as one owner.
async fn stand_in_line(
    client: &Arc<Lifeline>,
    waiter: &Arc<Waiter>,
    began: Instant,
    end: Instant,
    asks_once: bool,
) -> Result<Guard, Error> {
    let mut told = Acquisition::begin(client, &waiter.claim, Some(began));
    let span = told.span();
    let waits = async {
        let holder = client.queue.enter(waiter);
        if let Some(holder) = holder {
            warn_of_self_wait(client, &holder, waiter);
        }
        let traces = Traces { client, claim: &waiter.claim, left: false };
        let told = &mut told;
        let mut claimant = Claimant { traces, waiter, in_line: true, told };
        match claimant.turn_comes(end).await? {
            Start::Granted(guard) => Ok(guard),
            Start::Store { queued, last } => claimant.contend(end, asks_once, queued, last).await,
        }
    };
    let outcome = waits.instrument(span).await;
    told.ends(outcome.as_ref().map(Some));
    outcome
}

/// What a claim may have left in the store. Dropped with something left, that is freed by owner.
struct Traces<'a> {
    client: &'a Arc<Lifeline>,
    claim: &'a Claim,
    left: bool,
}

impl Drop for Traces<'_> {
    fn drop(&mut self) {
        if self.left && !self.client.is_forked() {
            self.client.free(self.claim.name.clone(), self.claim.owner, self.claim.ttl);
        }
    }
}

/// An acquisition that stands in the local queue; dropped, it leaves it.
struct Claimant<'a, 'b> {
    traces: Traces<'a>,
    waiter: &'a Arc<Waiter>,
    in_line: bool,
    told: &'b mut Acquisition<'a>,
}

/// How a turn starts.
enum Start {
    Granted(Guard),
    Store { queued: bool, last: Last },
}

/// What was learnt last, for the error at the end of the wait.
enum Last {
    Nothing,
    Held(Option<Holder>),
    Failed(Error),
}

impl Drop for Claimant<'_, '_> {
    fn drop(&mut self) {
        let client = self.traces.client;
        if !self.in_line || client.is_forked() {
            return;
        }
        match client.queue.leave(self.waiter) {
            Turn::Granted(held) => {
                if held.end(client.clock.now()).is_ok() {
                    client.queue_job(Job::LetGo(held));
                }
            }
            Turn::Pending => self.traces.left = true,
            Turn::Store { traces, .. } => self.traces.left |= traces,
            Turn::Parked => {}
        }
    }
}

impl Claimant<'_, '_> {
    /// Waits until a hand-over brings the grant, or it is our turn to talk to the store.
    async fn turn_comes(&mut self, end: Instant) -> Result<Start, Error> {
        let client = self.traces.client;
        let mut last = Last::Nothing;
        loop {
            match client.queue.turn(self.waiter) {
                Turn::Granted(held) => return self.take(held).map(Start::Granted),
                Turn::Store { traces, queued } => {
                    self.traces.left = traces;
                    return Ok(Start::Store { queued, last });
                }
                Turn::Parked | Turn::Pending => {}
            }
            // Somebody of this client is before us.
            last = Last::Held(None);
            let now = client.clock.now();
            if now >= end {
                return Err(self.not_acquired(None));
            }
            self.told
                .waits_for(|| Some(client.queue.holder(&self.waiter.claim.name)?.holder(None)));
            let mut look_at = end.min(now.saturating_add(RECHECK));
            if let Some(deadline) = settle_lost_holder(client, &self.waiter.claim) {
                look_at = look_at.min(deadline);
            }
            tokio::select! {
                biased;
                () = client.closed.cancelled() => {
                    return Err(client.closed_error(Operation::Acquire));
                }
                () = self.waiter.moved() => {}
                () = client.clock.sleep_until(look_at) => {}
            }
        }
    }

    /// Takes a lease that was handed over.
    fn take(&mut self, held: Arc<Held>) -> Result<Guard, Error> {
        let client = self.traces.client;
        client.queue.leave(self.waiter);
        self.in_line = false;
        self.traces.left = false;
        // Who takes a lost lease off the schedule settles it.
        match held.live(client.clock.now()) {
            Ok(_) => Ok(Guard::new(client.clone(), held)),
            Err(Over::Lost(Loss::Closed)) => Err(client.closed_error(Operation::Acquire)),
            Err(Over::Lost(_) | Over::Ended) => Err(too_late(client)),
        }
    }

    /// Asks the store until it grants or the wait ends.
    async fn contend(
        &mut self,
        end: Instant,
        asks_once: bool,
        queued: bool,
        mut last: Last,
    ) -> Result<Guard, Error> {
        let client = self.traces.client;
        let ttl = self.waiter.claim.ttl.get();
        let longest = Client::limit(self.waiter.claim.ttl);
        let mut claim = self.waiter.claim.clone().with_queue(queued);
        let mut pause = Pause::new(&claim, LONGEST_PAUSE);
        // Since when an earlier attempt may still land.
        let mut unanswered_since = self.traces.left.then(|| client.clock.now());
        // Each attempt may be granted and keep others out, and on a slow link no answer ever comes
        // in time: so the owner is given up after two of full length.
        let longest_silence = longest * 2;
        let mut silent_since = None;
        let mut free_in = None;
        let mut stands_in_list = queued;
        loop {
            if !stands_in_list {
                let asked_at = client.clock.now();
                let left = if asks_once { LONGEST_TRY } else { end.since(asked_at) };
                if left.is_zero() {
                    break;
                }
                self.traces.left = true;
                claim.metadata.since = SystemTime::now();
                let answer = ask(client, &claim, left.min(longest)).await;
                let over = client.clock.now() >= end;
                if answer.as_ref().is_err_and(may_have_landed) {
                    unanswered_since.get_or_insert(asked_at);
                    silent_since.get_or_insert(asked_at);
                } else {
                    silent_since = None;
                }
                let is_silent = silent_since
                    .is_some_and(|since| client.clock.now().since(since) >= longest_silence);
                self.traces.left = unanswered_since.is_some() || claim.queue;
                match answer {
                    Ok(Acquired::Granted(grant)) => {
                        self.traces.left = true;
                        let guard = begin(client, self.waiter, grant, unanswered_since)?;
                        self.in_line = false;
                        self.traces.left = false;
                        return Ok(guard);
                    }
                    Ok(Acquired::Held { holder, free_in: time }) => {
                        if !over {
                            self.told.waits_for(|| holder.clone());
                        }
                        last = Last::Held(holder);
                        free_in = time;
                        pause = Pause::new(&claim, LONGEST_PAUSE);
                        if !claim.queue && !over {
                            claim.queue = true;
                            continue;
                        }
                    }
                    // Cut short by the end of the wait: what was known before says more.
                    Err(error)
                        if over
                            && left < longest
                            && error.kind() == ErrorKind::Indeterminate
                            && !matches!(last, Last::Nothing) =>
                    {
                        break;
                    }
                    Err(error) if may_mend(&error) && !over && !is_silent => {
                        self.told.asks_again(&error);
                        last = Last::Failed(error);
                        // No pause, if it took its time to fail.
                        sleep_until(client, pause.next(asked_at).min(end)).await?;
                        if client.clock.now() >= end {
                            break;
                        }
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            stands_in_list = false;
            let now = client.clock.now();
            if now >= end {
                break;
            }
            let recheck = now.saturating_add(ttl / 3).min(end);
            let free_at = free_in.map(|time: Duration| now.saturating_add(time + jitter(&claim)));
            let until = free_at.map_or(recheck, |free_at| free_at.min(recheck));
            tokio::select! {
                biased;
                woken = sleep_until(client, until) => woken?,
                () = client.backend.wake(&claim) => {}
            }
        }
        match last {
            Last::Failed(error) => Err(error),
            Last::Held(holder) => Err(self.not_acquired(holder)),
            Last::Nothing => Err(self.not_acquired(None)),
        }
    }

    fn not_acquired(&self, holder: Option<Holder>) -> Error {
        let client = self.traces.client;
        let now = client.clock.now();
        let ours = client.queue.holder(&self.waiter.claim.name);
        let ours = ours.filter(|_| holder.is_none());
        let message = match (&holder, &ours) {
            (Some(holder), _) => format!("the wait ended while it was held by {holder}"),
            (None, Some(ours)) if is_of_this_task(ours, self.waiter) => {
                format!("the wait ended while this task held it itself{NOT_REENTRANT}")
            }
            (None, Some(ours)) => format!(
                "the wait ended while another guard of this client held it ({}){}",
                ours.holder(None),
                // What runs outside of any task may be the same flow.
                if ours.task().or(self.waiter.task).is_none() { NOT_REENTRANT } else { "" }
            ),
            (None, None) => "the wait ended while it was closed by a min_hold, or held".to_owned(),
        };
        let holder = holder.or(ours.map(|held| {
            let remaining = held.live(now).map_or(Duration::ZERO, |until| until.since(now));
            held.holder(Some(remaining))
        }));
        Error::new(ErrorKind::NotAcquired, Operation::Acquire, message)
            .with_backend(client.backend.profile().backend)
            .with_holder(holder)
    }
}

/// Sleeps, unless the client is closed.
async fn sleep_until(client: &Lifeline, at: Instant) -> Result<(), Error> {
    tokio::select! {
        () = client.closed.cancelled() => Err(client.closed_error(Operation::Acquire)),
        () = client.clock.sleep_until(at) => Ok(()),
    }
}

/// Sees to it that a local holder that is over stands in nobody's way; the workers do so too, if
/// they run. Answers the deadline of one that is not.
fn settle_lost_holder(client: &Lifeline, claim: &Claim) -> Option<Instant> {
    let holder = client.queue.holder(&claim.name)?;
    let now = client.clock.now();
    match holder.live(now) {
        Ok(deadline) => return Some(deadline),
        // Its release may be stuck; nobody has to wait for that beyond the deadline.
        Err(Over::Ended) if now < holder.ended_before() => return Some(holder.ended_before()),
        Err(Over::Ended | Over::Lost(_)) => client.queue.vacate(&holder),
    }
    None
}

/// One bounded attempt.
async fn ask(client: &Arc<Lifeline>, claim: &Claim, limit: Duration) -> Result<Acquired, Error> {
    trace::acquire_is_sent(client, claim);
    let answer = tokio::select! {
        biased;
        () = client.closed.cancelled() => Err(client.closed_error(Operation::Acquire)),
        answer = client.bounded(Operation::Acquire, limit, client.backend.acquire(claim)) => answer,
    };
    if let Ok(Acquired::Held { holder, free_in }) = &answer {
        trace::is_held(client, claim, holder.as_ref(), *free_in);
    }
    answer
}

/// Makes a grant a guard, unless it came too late or the client was closed.
/// `unanswered_since` is when an earlier attempt began that was not answered: what was found may
/// have been granted then.
fn begin(
    client: &Arc<Lifeline>,
    waiter: &Waiter,
    grant: Grant,
    unanswered_since: Option<Instant>,
) -> Result<Guard, Error> {
    let now = client.clock.now();
    let held = Held::new(&waiter.claim, &waiter.terms, grant, waiter.task, unanswered_since);
    let held = Arc::new(held);
    if held.live(now).is_err() {
        return Err(too_late(client));
    }
    if !client.schedule.add(held.clone(), &grant.validity, now) {
        return Err(client.closed_error(Operation::Acquire));
    }
    client.queue.hold(held.clone());
    Ok(Guard::new(client.clone(), held))
}

fn too_late(client: &Arc<Lifeline>) -> Error {
    let message = "the grant was over when it came; it is released";
    Error::new(ErrorKind::TooLate, Operation::Acquire, message)
        .with_backend(client.backend.profile().backend)
}

/// A lock is not re-entrant: a task that waits for itself waits like anyone, and is told once.
fn warn_of_self_wait(client: &Lifeline, holder: &Held, waiter: &Waiter) {
    if is_of_this_task(holder, waiter) && client.warns_of_self_wait() {
        trace::waits_for_itself(client, &waiter.claim);
    }
}

fn is_of_this_task(holder: &Held, waiter: &Waiter) -> bool {
    holder.task().is_some() && holder.task() == waiter.task
}

/// Spreads those who wait for the same expiry. The owner is random already.
fn jitter(claim: &Claim) -> Duration {
    let most = (claim.ttl.get() / 50).clamp(Duration::from_millis(2), Duration::from_millis(100));
    Duration::from_millis(1) + fraction(claim.owner.bits(), most)
}

/// The part of `most` that 16 random bits say.
fn fraction(random: u128, most: Duration) -> Duration {
    most * u32::try_from(random & 0xffff).expect("16 bits fit") / 0xffff
}

/// Back-off between attempts that failed: doubling, with jitter of a half.
struct Pause {
    base: Duration,
    longest: Duration,
    random: u128,
}

impl Pause {
    fn new(claim: &Claim, longest: Duration) -> Self {
        Self { base: SHORTEST_PAUSE.min(longest), longest, random: claim.owner.bits() }
    }

    /// When to ask again, after an attempt that began at `asked_at`.
    fn next(&mut self, asked_at: Instant) -> Instant {
        let pause = self.base / 2 + fraction(self.random, self.base / 2);
        self.base = (self.base * 2).min(self.longest);
        self.random = self.random.rotate_right(16);
        asked_at.saturating_add(pause)
    }
}
