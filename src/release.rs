//! Letting go of a lease: hand it over to the local head, or release it.

use std::sync::Arc;
use std::time::SystemTime;

use leasehold_api::{Error, HandedOver, Loss, Operation, Released};

use crate::cleanup::Job;
use crate::client::Client;
use crate::held::Held;
use crate::queue::Waiter;

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
            let outcome = hand_over(client, &held, &waiter, yields).await?;
            letting.told = true;
            outcome
        }
        None => {
            let limit = Client::limit(held.lease.ttl);
            let ticket = held.lease.ticket();
            let release = client.backend.release(&ticket, reopen_after);
            let Released { outcome, settled } =
                client.bounded(Operation::Release, limit, release).await?;
            letting.told = true;
            letting.settled = settled;
            outcome.err()
        }
    };
    lost.map_or(Ok(()), |loss| Err(Error::lost(Operation::Release, loss)))
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
    let call = client.backend.hand_over(&held.lease, &claim, yields);
    match client.bounded(Operation::Release, limit, call).await? {
        HandedOver::NotMine(loss) => {
            client.queue.vacate(held, Some(waiter));
            return Ok(Some(loss));
        }
        HandedOver::Yielded => client.queue.yielded(held, waiter),
        HandedOver::Granted(grant) => {
            let now = client.clock.now();
            let next = Arc::new(Held::new(&waiter.claim, &waiter.terms, grant, waiter.task, false));
            let late = next.live(now).is_err();
            if late || !client.schedule.add(next.clone(), &grant.validity, now) {
                // It stands in the store for a waiter that is told to go there and see.
                client.free_held(&next, now);
                client.queue.vacate(held, Some(waiter));
            } else if !client.queue.deliver(next.clone()) && next.end(now).is_ok() {
                client.queue_job(Job::LetGo(next));
            }
        }
    }
    Ok(None)
}

/// A letting-go under way. Whatever ends it, the local queue moves on; and if the store has not
/// answered, the cleaner frees the lease by ticket.
struct Letting<'a> {
    client: &'a Arc<Client>,
    held: &'a Arc<Held>,
    next: Option<Arc<Waiter>>,
    told: bool,
    /// Whether nothing of its owner can land any more, if the driver has said so.
    settled: bool,
}

impl Drop for Letting<'_> {
    fn drop(&mut self) {
        let Self { client, held, next, told, settled } = self;
        if *told {
            // After a hand-over the holder is another one, and this changes nothing.
            client.queue.vacate(held, None);
            if held.strays() && !*settled {
                client.free_held(held, client.clock.now());
            }
        } else {
            client.queue.vacate(held, next.as_deref());
            client.free_held(held, client.clock.now());
        }
    }
}
