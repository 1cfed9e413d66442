//! Steps that many checks share. Each fails by itself where the answer is not the one it needs.

use std::time::Duration;

use leasehold_api::{
    Acquired, Backend, Claim, ErrorKind, Grant, HandedOver, Holder, Instant, Lease, LockName, Loss,
    Renewal, Ticket, Ttl, Validity, Waking,
};
use tokio::select;

use crate::bench::Bench;
use crate::ensure;
use crate::verdict::{Failure, Verdict};

/// The answer `Held`.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) holder: Option<Holder>,
    pub(super) free_in: Option<Duration>,
}

/// Acquires what must be free.
pub(super) async fn grant(client: &dyn Backend, claim: &Claim) -> Result<Grant, Failure> {
    match client.acquire(claim).await? {
        Acquired::Granted(grant) => Ok(grant),
        held @ Acquired::Held { .. } => {
            Err(Failure::failed(format!("{} must be free, but: {held:?}", claim.name)))
        }
    }
}

/// Acquires what must be free; the lease that is then held.
pub(super) async fn take(client: &dyn Backend, claim: &Claim) -> Result<Lease, Failure> {
    Ok(lease(claim, grant(client, claim).await?))
}

/// The lease of a granted claim.
pub(super) fn lease(claim: &Claim, grant: Grant) -> Lease {
    let mut lease = Lease::new(claim.name.clone(), claim.owner, grant.token, claim.ttl);
    lease.keep_alive = claim.keep_alive;
    lease
}

/// Asks for what must be held by somebody else.
pub(super) async fn held(client: &dyn Backend, claim: &Claim) -> Result<Held, Failure> {
    match client.acquire(claim).await? {
        Acquired::Held { holder, free_in } => Ok(Held { holder, free_in }),
        Acquired::Granted(grant) => {
            Err(Failure::failed(format!("{} must be held, but was granted: {grant:?}", claim.name)))
        }
    }
}

/// Enters the wait list of a held name.
pub(super) async fn queue(client: &dyn Backend, claim: &Claim) -> Verdict {
    held(client, &claim.clone().with_queue(true)).await.map(drop)
}

/// Renews what must be mine.
pub(super) async fn renew(client: &dyn Backend, lease: &Lease) -> Result<Validity, Failure> {
    match client.renew(lease).await? {
        Renewal::Renewed(validity) => Ok(validity),
        Renewal::NotMine(loss) => {
            Err(Failure::failed(format!("{} must be mine, but: {loss}", lease.name)))
        }
    }
}

/// Renews what must not be mine.
pub(super) async fn renew_in_vain(client: &dyn Backend, lease: &Lease) -> Result<Loss, Failure> {
    match client.renew(lease).await? {
        Renewal::NotMine(loss) => Ok(loss),
        Renewal::Renewed(_) => {
            Err(Failure::failed(format!("{} must not be mine, but was renewed", lease.name)))
        }
    }
}

/// Releases what must be mine.
pub(super) async fn release(client: &dyn Backend, ticket: &Ticket) -> Verdict {
    let released = client.release(ticket, None).await?;
    released.outcome.map_err(|loss| {
        Failure::failed(format!("{} must be mine to release, but: {loss}", ticket.name))
    })
}

/// Releases what must not be mine.
pub(super) async fn release_in_vain(client: &dyn Backend, ticket: &Ticket) -> Verdict {
    let released = client.release(ticket, None).await?;
    ensure!(released.outcome.is_err(), "{} must not be mine, but was released", ticket.name);
    Ok(())
}

/// Gives up whatever a claim has.
pub(super) async fn give_up(client: &dyn Backend, claim: &Claim) -> Verdict {
    client.release(&by_owner(claim), None).await?;
    Ok(())
}

/// The ticket of a claim whose token nobody knows.
pub(super) fn by_owner(claim: &Claim) -> Ticket {
    Ticket::by_owner(claim.name.clone(), claim.owner)
}

/// Hands over what must be mine to a claim that must get it.
pub(super) async fn hand_over(
    client: &dyn Backend,
    lease: &Lease,
    claim: &Claim,
) -> Result<Lease, Failure> {
    match client.hand_over(lease, claim, false).await? {
        HandedOver::Granted(grant) => Ok(self::lease(claim, grant)),
        other => Err(Failure::failed(format!("the hand-over must be granted, but: {other:?}"))),
    }
}

/// Shows that a name is free, by taking and releasing it.
pub(super) async fn is_free(bench: &Bench, client: &dyn Backend, name: &LockName) -> Verdict {
    let lease = take(client, &bench.claim(name)).await?;
    release(client, &lease.ticket()).await
}

/// Shows that a name is held by this lease, by asking for it with the same owner and another.
pub(super) async fn is_held_by(bench: &Bench, client: &dyn Backend, lease: &Lease) -> Verdict {
    held(client, &bench.claim(&lease.name)).await?;
    let mine = Claim::new(lease.name.clone(), lease.owner, lease.ttl);
    let again = grant(client, &mine).await?;
    let (got, want) = (again.token, lease.token);
    ensure!(got == want, "the lease of token {want} is answered with token {got}");
    Ok(())
}

/// Claims a name until it is granted, which must be neither before `earliest` nor after `latest`
/// (plus what this bench allows).
pub(super) async fn free_between(
    bench: &Bench,
    client: &dyn Backend,
    name: &LockName,
    earliest: Instant,
    latest: Instant,
) -> Result<Lease, Failure> {
    const ROUNDING: Duration = Duration::from_millis(1);
    let clock = client.clock();
    let claim = bench.claim(name);
    loop {
        let start = clock.now();
        let asked = client.acquire(&claim).await;
        // Without an answer it is asked again, as the same owner may.
        let unanswered =
            asked.as_ref().is_err_and(|error| error.kind() == ErrorKind::Indeterminate);
        if !unanswered && let Acquired::Granted(grant) = asked? {
            let early = earliest.since(clock.now().saturating_add(ROUNDING));
            ensure!(early.is_zero(), "{name} fell free {early:?} too early");
            return Ok(lease(&claim, grant));
        }
        let late = start.since(latest.saturating_add(bench.late()));
        ensure!(late.is_zero(), "{name} is still held {late:?} after it must be free");
        clock.sleep_until(start.saturating_add(bench.step())).await;
    }
}

/// Lets time pass on a client's clock.
pub(super) async fn pass(client: &dyn Backend, time: Duration) {
    let clock = client.clock();
    clock.sleep_until(clock.now().saturating_add(time)).await;
}

/// How long the store may keep a lease of `ttl`: rounded up to its granularity, and with what the
/// whole milliseconds of two clocks add.
pub(super) fn kept(client: &dyn Backend, ttl: Ttl) -> Duration {
    let granularity = client.profile().ttl_granularity.as_millis().max(1);
    let steps = u128::from(ttl.as_millis()).div_ceil(granularity);
    let millis = u64::try_from(steps * granularity).expect("a TTL in milliseconds");
    Duration::from_millis(millis + 2)
}

/// Until when a grant or a renewal is good by its own word.
pub(super) fn promised(validity: &Validity, ttl: Ttl) -> Instant {
    validity.from.saturating_add(validity.remaining.min(ttl.get()))
}

/// The instant now on a client's clock.
pub(super) fn now(client: &dyn Backend) -> Instant {
    client.clock().now()
}

/// Shows that the slot of a claim is or will be woken.
pub(super) async fn is_woken(bench: &Bench, client: &dyn Backend, claim: &Claim) -> Verdict {
    ensure!(
        woken_within(client, claim, bench.late()).await,
        "the waiter was not woken within {:?}",
        bench.late()
    );
    Ok(())
}

/// Shows that the slot of a claim stays asleep.
pub(super) async fn stays_asleep(bench: &Bench, client: &dyn Backend, claim: &Claim) -> Verdict {
    let woken = woken_within(client, claim, bench.late()).await;
    ensure!(!woken, "a waiter was woken that must not be");
    Ok(())
}

async fn woken_within(client: &dyn Backend, claim: &Claim, time: Duration) -> bool {
    select! {
        biased;
        () = client.wake(claim) => true,
        () = pass(client, time) => false,
    }
}

/// Refuses the check where waiters are woken by time only.
pub(super) fn needs_waking(client: &dyn Backend) -> Verdict {
    match client.profile().waking {
        Waking::Message => Ok(()),
        Waking::Time => Err(Failure::not_applicable("its waiters are woken by time only")),
    }
}
