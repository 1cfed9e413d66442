//! What is told to `tracing`: a function an event, with one set of field names. `docs/tracing.md`
//! has the table, and a test compares the two.
//!
//! Nothing is told while a lock of the client is held: a subscriber may be slow, or call back.

use std::time::Duration;

use leasehold_api::{
    Claim, Error, Holder, Instant, Lease, LockName, Loss, Owner, Ticket, Token, Ttl,
};
use tracing::Span;
use tracing::field::Empty;

use crate::client::Client;
use crate::guard::Guard;

const TARGET: &str = "leasehold";

type DynError = dyn std::error::Error + 'static;

/// Whom an event is about.
struct Who<'a> {
    lock: &'a LockName,
    owner: Owner,
    token: Option<Token>,
}

macro_rules! tell {
    ($level:ident, $client:expr, $who:expr, $($rest:tt)*) => {{
        let who = Who::from($who);
        tracing::$level!(
            target: TARGET,
            lock = who.lock.as_str(),
            backend = $client.backend.profile().backend,
            owner = %who.owner,
            token = who.token.map(Token::get),
            $($rest)*
        );
    }};
}

macro_rules! tell_of_client {
    ($level:ident, $client:expr, $($rest:tt)*) => {
        tracing::$level!(target: TARGET, backend = $client.backend.profile().backend, $($rest)*)
    };
}

pub(crate) fn started(client: &Client) {
    let profile = client.backend.profile();
    let (guarantee, scope) = (profile.guarantee, profile.scope);
    tell_of_client!(debug, client, %guarantee, %scope, "client started");
}

/// An acquisition under way: its span, and its end, whichever way it ends.
#[derive(Debug)]
pub(crate) struct Acquisition<'a> {
    client: &'a Client,
    claim: &'a Claim,
    since: Option<Instant>,
    span: Span,
    waits: bool,
    fails: bool,
    ended: bool,
}

impl<'a> Acquisition<'a> {
    /// Begins its span. One that does not wait has no `since`.
    pub(crate) fn begin(client: &'a Client, claim: &'a Claim, since: Option<Instant>) -> Self {
        let span = tracing::debug_span!(
            target: TARGET,
            "acquire",
            lock = claim.name.as_str(),
            backend = client.backend.profile().backend,
            owner = %claim.owner,
            token = Empty,
        );
        Self { client, claim, since, span, waits: false, fails: false, ended: false }
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Told once. It runs within the span.
    pub(crate) fn waits_for(&mut self, holder: impl FnOnce() -> Option<Holder>) {
        if !std::mem::replace(&mut self.waits, true) {
            tell!(
                debug,
                self.client,
                self.claim,
                holder = holder().map(tracing::field::display),
                "waiting"
            );
        }
    }

    /// The first failed attempt is told; who wants to see each asks for it.
    pub(crate) fn asks_again(&mut self, error: &Error) {
        const SAYS: &str = "an attempt failed; asking again";
        let first = !std::mem::replace(&mut self.fails, true);
        let (client, claim, error) = (self.client, self.claim, error as &DynError);
        if first {
            tell!(debug, client, claim, error, "{SAYS}");
        } else {
            tell!(trace, client, claim, error, "{SAYS}");
        }
    }

    pub(crate) fn ends(mut self, outcome: Result<Option<&Guard>, &Error>) {
        self.ended = true;
        let _within = self.span.enter();
        let (client, claim) = (self.client, self.claim);
        match outcome {
            Ok(Some(guard)) => {
                let Lease { token, ttl, .. } = guard.lease();
                self.span.record("token", token.get());
                let ttl_ms = ttl.as_millis();
                tell!(debug, client, guard.lease(), ttl_ms, waited_ms = self.waited(), "acquired");
            }
            Ok(None) => tell!(debug, client, claim, "not acquired"),
            Err(error) => {
                let error = error as &DynError;
                tell!(debug, client, claim, error, waited_ms = self.waited(), "not acquired");
            }
        }
    }

    fn waited(&self) -> Option<u64> {
        Some(millis(self.client.clock.now().since(self.since?)))
    }
}

impl Drop for Acquisition<'_> {
    fn drop(&mut self) {
        if !self.ended && !self.client.is_forked() {
            let _within = self.span.enter();
            let waited_ms = self.waited();
            tell!(debug, self.client, self.claim, waited_ms, "acquire dropped");
        }
    }
}

/// A claim is given up, and asked anew; `first` is the first of a call.
pub(crate) fn asks_as_another(client: &Client, claim: &Claim, error: &Error, first: bool) {
    const SAYS: &str = "answers come too late for this TTL; asking anew after a pause";
    let error = error as &DynError;
    if first {
        tell!(warn, client, claim, error, "{SAYS}");
    } else {
        tell!(debug, client, claim, error, "{SAYS}");
    }
}

pub(crate) fn acquire_is_sent(client: &Client, claim: &Claim) {
    tell!(trace, client, claim, queue = claim.queue, "acquire is sent");
}

pub(crate) fn is_held(
    client: &Client,
    claim: &Claim,
    holder: Option<&Holder>,
    free_in: Option<Duration>,
) {
    let free_in_ms = free_in.map(millis);
    tell!(
        trace,
        client,
        claim,
        holder = holder.map(tracing::field::display),
        free_in_ms,
        "held by another"
    );
}

pub(crate) fn waits_for_itself(client: &Client, claim: &Claim) {
    tell!(warn, client, claim, "this task holds the lock it waits for; it is not re-entrant");
}

/// The span of a letting-go.
pub(crate) fn release(client: &Client, lease: &Lease) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "release",
        lock = lease.name.as_str(),
        backend = client.backend.profile().backend,
        owner = %lease.owner,
        token = lease.token.get(),
    )
}

pub(crate) fn release_is_sent(client: &Client, ticket: &Ticket) {
    tell!(trace, client, ticket, "release is sent");
}

pub(crate) fn hand_over_is_sent(client: &Client, lease: &Lease, next: Owner) {
    tell!(trace, client, lease, next_owner = %next, "hand-over is sent");
}

pub(crate) fn released(client: &Client, lease: &Lease, reopen_after: Option<Duration>) {
    let reopen_after_ms = reopen_after.map(millis);
    tell!(debug, client, lease, reopen_after_ms, "released");
}

pub(crate) fn handed_over(client: &Client, lease: &Lease, next: Owner) {
    tell!(debug, client, lease, next_owner = %next, "handed over");
}

pub(crate) fn yielded(client: &Client, lease: &Lease, next: Owner) {
    tell!(debug, client, lease, next_owner = %next, "released, as others wait");
}

pub(crate) fn release_failed(client: &Client, lease: &Lease, error: &Error) {
    let error = error as &DynError;
    tell!(debug, client, lease, error, "release failed; it goes on in the background");
}

pub(crate) fn lost_before_release(client: &Client, lease: &Lease, loss: Loss) {
    tell!(warn, client, lease, reason = %loss, "lost before its release");
}

/// Who closes a client knows that he loses what it holds.
pub(crate) fn lost(client: &Client, lease: &Lease, loss: Loss) {
    match loss {
        Loss::Closed => tell!(debug, client, lease, reason = %loss, "lost"),
        _ => tell!(warn, client, lease, reason = %loss, "lost"),
    }
}

pub(crate) fn renewals_are_sent(client: &Client, leases: usize, ttl: Ttl) {
    tell_of_client!(trace, client, leases, ttl_ms = ttl.as_millis(), "renewals are sent");
}

pub(crate) fn renewal_fails(client: &Client, lease: &Lease, error: &Error) {
    let error = error as &DynError;
    tell!(debug, client, lease, error, "a renewal fails");
}

pub(crate) fn renewals_fail(client: &Client, leases: usize, error: &Error) {
    let error = error as &DynError;
    tell_of_client!(warn, client, leases, error, "renewals fail");
}

pub(crate) fn renewals_succeed(client: &Client) {
    tell_of_client!(info, client, "renewals succeed again");
}

pub(crate) fn cleaning_up(client: &Client, ticket: &Ticket) {
    tell!(debug, client, ticket, "cleaning up");
}

/// The first error of a clean-up is told; who wants to see each asks for it.
pub(crate) fn clean_up_failed(client: &Client, ticket: &Ticket, error: &Error, first: bool) {
    const SAYS: &str = "a clean-up failed";
    let error = error as &DynError;
    if first {
        tell!(debug, client, ticket, error, "{SAYS}");
    } else {
        tell!(trace, client, ticket, error, "{SAYS}");
    }
}

pub(crate) fn cleaned_up(client: &Client, ticket: &Ticket, settled: bool) {
    tell!(debug, client, ticket, settled, "cleaned up");
}

pub(crate) fn left_to_its_ttl(client: &Client, ticket: &Ticket, ttl: Ttl, error: &Error) {
    let error = error as &DynError;
    tell!(warn, client, ticket, ttl_ms = ttl.as_millis(), error, "left to its TTL");
}

pub(crate) fn nobody_frees(client: &Client, ticket: &Ticket) {
    tell!(warn, client, ticket, "left to its TTL, as the client's runtime is gone");
}

pub(crate) fn closing(client: &Client, leases: usize) {
    tell_of_client!(debug, client, leases, "closing");
}

pub(crate) fn closed(client: &Client, all_released: bool) {
    if all_released {
        tell_of_client!(debug, client, "closed");
    } else {
        tell_of_client!(warn, client, "closed before all was released; the rest ends with its TTL");
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl<'a> From<&'a Claim> for Who<'a> {
    fn from(claim: &'a Claim) -> Self {
        Self { lock: &claim.name, owner: claim.owner, token: None }
    }
}

impl<'a> From<&'a Lease> for Who<'a> {
    fn from(lease: &'a Lease) -> Self {
        Self { lock: &lease.name, owner: lease.owner, token: Some(lease.token) }
    }
}

impl<'a> From<&'a Ticket> for Who<'a> {
    fn from(ticket: &'a Ticket) -> Self {
        Self { lock: &ticket.name, owner: ticket.owner, token: ticket.token }
    }
}
