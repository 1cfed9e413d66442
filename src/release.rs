//! Letting go of a lease: hand it over to the local head, or release it.

use std::sync::Arc;
use std::time::SystemTime;

use leasehold_api::{Claim, Error, HandedOver, Loss, Operation, Released};
use tracing::Instrument;

use crate::cleanup::Job;
use crate::client::Client;
use crate::held::Held;
use crate::queue::Waiter;
use crate::trace;

/// Lets go of a lease that was ended just now.
///
/// # Errors
///
/// `Lost` if it was not ours any more; else what the driver said, and then the cleaner goes on.
///
/// # Cancel safety
///
/// Dropped half way, the cleaner goes on and a waiting head goes to the store.
pub(crate) async fn let_go(client: &Arc<Client>, held: Arc<Held>) -> Result<(), Error> {
    let span = trace::release(client, &held.lease);
    tell_the_store(client, held).instrument(span).await
}

async fn tell_the_store(client: &Arc<Client>, held: Arc<Held>) -> Result<(), Error> {
    client.schedule.remove(held.lease.owner);
    let reopen_after = held.reopen_after(client.clock.now());
    let next = match reopen_after {
        Some(_) => None,
        None => client.queue.next_after(&held),
    };
    let mut letting = Letting { client, held: &held, next: None, told: false, settled: false };
    let lost = match next {
        Some((waiter, yields)) => {
            let waiter = letting.next.insert(waiter).clone();
            let outcome = hand_over(client, &held, &waiter, yields).await;
            let lost = outcome.inspect_err(|error| letting.failed(error))?;
            letting.told = true;
            lost
        }
        None => {
            let limit = Client::limit(held.lease.ttl);
            let ticket = held.lease.ticket();
            let release = client.backend.release(&ticket, reopen_after);
            trace::release_is_sent(client, &ticket);
            let answer = client.bounded(Operation::Release, limit, release).await;
            let Released { outcome, settled } =
                answer.inspect_err(|error| letting.failed(error))?;
            letting.told = true;
            letting.settled = settled;
            if outcome.is_ok() {
                trace::released(client, &held.lease, reopen_after);
            }
            outcome.err()
        }
    };
    lost.map_or(Ok(()), |loss| {
        trace::lost_before_release(client, &held.lease, loss);
        Err(Error::lost(Operation::Release, loss))
    })
}

/// One hand-over: `None` if the old lease is released.
async fn hand_over(
    client: &Arc<Client>,
    held: &Arc<Held>,
    waiter: &Arc<Waiter>,
    yields: bool,
) -> Result<Option<Loss>, Error> {
    let limit = Client::limit(held.lease.ttl);
    let mut claim = waiter.claim.clone().with_queue(true);
    claim.metadata.since = SystemTime::now();
    trace::hand_over_is_sent(client, &held.lease, claim.owner);
    let call = client.backend.hand_over(&held.lease, &claim, yields);
    let handed_over = client.bounded(Operation::Release, limit, call).await;
    match handed_over.map_err(|error| error.with_operation(Operation::Release))? {
        HandedOver::NotMine(loss) => {
            client.queue.send_to_store(held, waiter, false);
            return Ok(Some(loss));
        }
        HandedOver::Yielded => {
            trace::yielded(client, &held.lease, claim.owner);
            if !client.queue.send_to_store(held, waiter, true) {
                let Claim { name, owner, ttl, .. } = &waiter.claim;
                client.free(name.clone(), *owner, *ttl);
            }
        }
        HandedOver::Granted(grant) => {
            trace::handed_over(client, &held.lease, claim.owner);
            let now = client.clock.now();
            let next = Arc::new(Held::new(&waiter.claim, &waiter.terms, grant, waiter.task, None));
            let late = next.live(now).is_err();
            if late || !client.schedule.add(next.clone(), &grant.validity, now) {
                // The waiter finds it in the store, and what is left of it. Freed here, it would be
                // taken from under the guard that comes of that.
                if !client.queue.send_to_store(held, waiter, false) {
                    client.free_held(&next, now);
                }
            } else if !client.queue.deliver(next.clone()) && next.end(now).is_ok() {
                client.queue_job(Job::LetGo(next));
            }
        }
    }
    Ok(None)
}

/// A letting-go under way. Whatever ends it, the local queue moves on; and if the store has not
/// answered, the cleaner frees the lease by owner.
struct Letting<'a> {
    client: &'a Arc<Client>,
    held: &'a Arc<Held>,
    next: Option<Arc<Waiter>>,
    told: bool,
    /// Whether nothing of its owner can land any more, if the driver has said so.
    settled: bool,
}

impl Letting<'_> {
    fn failed(&self, error: &Error) {
        trace::release_failed(self.client, &self.held.lease, error);
    }
}

impl Drop for Letting<'_> {
    fn drop(&mut self) {
        let Self { client, held, next, told, settled } = self;
        if *told {
            // After a hand-over the holder is another one, and this changes nothing.
            client.queue.vacate(held);
            if held.strays() && !*settled {
                client.free_held(held, client.clock.now());
            }
        } else {
            match next {
                Some(next) => _ = client.queue.send_to_store(held, next, false),
                None => client.queue.vacate(held),
            }
            client.free_held(held, client.clock.now());
        }
    }
}
