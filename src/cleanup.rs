//! The cleaner: finishes releases that nobody awaits, and frees by owner until that is certain.
//! One task a client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_api::{Error, Instant, Operation, Ticket, Ttl};
use tokio::sync::{mpsc, oneshot};

use crate::client::Client;
use crate::failure::may_mend;
use crate::held::Held;
use crate::release::let_go;
use crate::trace;

/// First rounds under way at once: a thousand dropped guards must not drown the link.
const AT_ONCE: usize = 256;

/// Work for the cleaner.
#[derive(Debug)]
pub(crate) enum Job {
    /// A guard was dropped: its lease was ended just now.
    LetGo(Arc<Held>),
    /// Frees what the ticket names: at `not_before`, and where that is not settled again at TTL/3
    /// and at TTL.
    Free {
        /// What to free.
        ticket: Ticket,
        /// The TTL of what may stand there.
        ttl: Ttl,
        /// Until when its `min_hold` keeps the name closed.
        closed_until: Option<Instant>,
        /// When to begin.
        not_before: Instant,
        /// Whether the lease has expired, so that only what lands late can be left.
        expired: bool,
    },
    /// Answers once each job queued before had its first round.
    Flush(oneshot::Sender<()>),
}

/// What is to be freed, from its first round on.
struct Unsettled {
    ticket: Ticket,
    ttl: Ttl,
    closed_until: Option<Instant>,
    begun: Instant,
}

/// Runs until the client is done and all that was queued by then had its rounds.
pub(crate) async fn run(client: Arc<Client>, mut queued: mpsc::UnboundedReceiver<Job>) {
    let mut waiting: VecDeque<Job> = VecDeque::new();
    // What is not due yet takes none of the places.
    let mut not_due = FuturesUnordered::new();
    let mut first_rounds = FuturesUnordered::new();
    let mut later_rounds = FuturesUnordered::new();
    let mut flushes: Vec<oneshot::Sender<()>> = Vec::new();
    let mut stopped = false;
    loop {
        while first_rounds.len() < AT_ONCE
            && let Some(job) = waiting.pop_front()
        {
            first_rounds.push(first_round(&client, job));
        }
        if first_rounds.is_empty() {
            if stopped && queued.is_empty() && not_due.is_empty() && later_rounds.is_empty() {
                return;
            }
            // What is due a moment later, at the end of a `max_hold`, is owed as well.
            if not_due.is_empty() {
                for flush in flushes.drain(..) {
                    let _ = flush.send(()); // whoever asked may have left
                }
            }
        }
        tokio::select! {
            Some(job) = queued.recv() => match job {
                Job::Flush(flush) => flushes.push(flush),
                Job::Free { not_before, .. } if not_before > client.clock.now() => {
                    not_due.push(due(&client, not_before, job));
                }
                job => waiting.push_back(job),
            },
            Some(job) = not_due.next() => waiting.push_back(job),
            Some(unsettled) = first_rounds.next() => {
                later_rounds.extend(unsettled.map(|later| later_rounds_of(&client, later)));
            }
            Some(()) = later_rounds.next() => {}
            // What was queued before comes first; then the loop ends above.
            () = client.stop.cancelled(), if !stopped => stopped = true,
        }
    }
}

async fn due(client: &Client, at: Instant, job: Job) -> Job {
    client.clock.sleep_until(at).await;
    job
}

async fn first_round(client: &Arc<Client>, job: Job) -> Option<Unsettled> {
    match job {
        Job::LetGo(held) => {
            // An error has queued the lease to be freed by owner.
            let _ = let_go(client, held).await;
            None
        }
        Job::Free { ticket, ttl, closed_until, not_before: _, expired } => {
            let begun = client.clock.now();
            let later = Unsettled { ticket, ttl, closed_until, begun };
            let freed = free(client, &later, begun.saturating_add(ttl.get())).await;
            if let Err(error) = &freed
                && !expired
            {
                trace::left_to_its_ttl(client, &later.ticket, ttl, error);
            }
            (!freed.unwrap_or(false)).then_some(later)
        }
        Job::Flush(_) => None,
    }
}

async fn later_rounds_of(client: &Arc<Client>, later: Unsettled) {
    let ttl = later.ttl.get();
    for after in [ttl / 3, ttl] {
        client.clock.sleep_until(later.begun.saturating_add(after)).await;
        if free(client, &later, client.clock.now()).await.unwrap_or(false) {
            return;
        }
    }
}

/// Releases until it is answered, or an error can't be mended, or `end` has passed (it is asked
/// at least once). Says whether that is settled.
async fn free(client: &Client, what: &Unsettled, end: Instant) -> Result<bool, Error> {
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);
    let mut pause = Duration::from_millis(20);
    let Unsettled { ticket, ttl, closed_until, .. } = what;
    let mut first = true;
    loop {
        let rest = closed_until.map(|until| until.since(client.clock.now()));
        trace::release_is_sent(client, ticket);
        let release = client.backend.release(ticket, rest.filter(|rest| !rest.is_zero()));
        match client.bounded(Operation::Release, Client::limit(*ttl), release).await {
            Ok(released) => {
                trace::cleaned_up(client, ticket, released.settled);
                return Ok(released.settled);
            }
            Err(error) => {
                trace::clean_up_failed(client, ticket, &error, first);
                if !may_mend(&error) || client.clock.now() >= end {
                    return Err(error);
                }
            }
        }
        first = false;
        client.clock.sleep_until(client.clock.now().saturating_add(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
