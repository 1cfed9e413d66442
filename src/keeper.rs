//! Renewal in batches, and losses at their time: one task a client.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, pending};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_api::{
    Error, Instant, Lease, Loss, Losses, Operation, Owner, Renewal, Ttl, Validity,
};
use tokio::sync::Notify;

use crate::client::Client;
use crate::held::Held;
use crate::trace;

/// What the keeper looks after, shared with the guards. The keeper is woken only when something
/// is due before its next look.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    plan: Mutex<Plan>,
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Plan {
    entries: HashMap<Owner, Entry>,
    by_time: BTreeSet<(Instant, Owner)>,
    /// Whose last renewal failed, or was not answered before it was due again.
    failing: HashSet<Owner>,
    next_look: Option<Instant>,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    held: Arc<Held>,
    at: Instant,
    /// Whether a renewal is due at `at`; else the deadline is.
    renews: bool,
    /// Whether a renewal was sent that is not answered.
    asked: bool,
}

/// What one look found.
#[derive(Debug, Default)]
struct Due {
    /// To be renewed now, by TTL: a batch is bounded by its TTL.
    batches: HashMap<Ttl, Vec<Arc<Held>>>,
    lost: Vec<Arc<Held>>,
    /// Those that begin to fail, as nothing was answered in time.
    unanswered: Vec<Fails>,
    next_look: Option<Instant>,
}

type Answer = Result<Renewal, Error>;

/// A lease whose renewals begin to fail.
#[derive(Debug)]
struct Fails {
    held: Arc<Held>,
    /// Whether no other one was failing.
    first: bool,
}

/// What a renewal's answer changes beyond the plan.
enum After {
    Nothing,
    Lost(Arc<Held>),
    Fails(Fails),
    /// This was the last one that failed.
    AllWell,
}

impl Schedule {
    /// No step panics half way, so a poisoned plan is still whole.
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks after a lease from now on. `false` once the client is closed.
    #[must_use = "a lease that is not looked after must be freed"]
    pub(crate) fn add(&self, held: Arc<Held>, validity: &Validity, now: Instant) -> bool {
        let mut plan = self.plan();
        if plan.closed {
            return false;
        }
        let renew_at = held.lease.keep_alive.then(|| held.renew_at(validity));
        if plan.set(held, renew_at, now, false) {
            self.earlier.notify_one();
        }
        true
    }

    /// Stops looking after a lease.
    pub(crate) fn remove(&self, owner: Owner) {
        self.plan().take(owner);
    }

    /// Takes all leases; none is added any more.
    pub(crate) fn close(&self) -> Vec<Arc<Held>> {
        let mut plan = self.plan();
        plan.closed = true;
        plan.by_time.clear();
        plan.entries.drain().map(|(_, entry)| entry.held).collect()
    }

    /// Takes what is due, and plans the next look.
    fn due(&self, now: Instant) -> Due {
        let mut plan = self.plan();
        let mut due = Due::default();
        for owner in plan.planned_until(now) {
            plan.take_due(owner, now, &mut due);
        }
        // Leases of the same TTL that are due soon join the batch, and so fall into step.
        if let Some(longest) = due.batches.keys().max() {
            for owner in plan.planned_until(now.saturating_add(longest.get() / 12)) {
                plan.take_due(owner, now, &mut due);
            }
        }
        due.next_look = plan.by_time.first().map(|(at, _)| *at);
        plan.next_look = due.next_look;
        due
    }

    /// Plans what follows a renewal.
    fn renewed(&self, owner: Owner, answer: &Answer, asked_at: Instant, now: Instant) -> After {
        let mut plan = self.plan();
        let Some(entry) = plan.entries.get(&owner) else { return After::Nothing };
        let held = entry.held.clone();
        let ttl = held.lease.ttl.get();
        let (again_at, after) = match answer {
            Ok(Renewal::Renewed(validity)) => {
                // One that is over is settled at its deadline's look, or by its guard.
                let _ = held.extend(validity, now);
                let in_time = now < asked_at.saturating_add(ttl / 6);
                let all_well = in_time && plan.recovers(owner) && plan.failing.is_empty();
                let after = if all_well { After::AllWell } else { After::Nothing };
                // Not at once, however little it says that remains: a driver that says so each
                // time would be asked without end.
                (held.renew_at(validity).max(asked_at.saturating_add(ttl / 12)), after)
            }
            Ok(Renewal::NotMine(loss)) => {
                held.lose(*loss);
                plan.take(owner);
                return After::Lost(held);
            }
            Err(_) => {
                let after = plan.fails(&held).map_or(After::Nothing, After::Fails);
                // At once, if it took its time to fail.
                (now.max(asked_at.saturating_add(ttl / 12)), after)
            }
        };
        plan.set(held, Some(again_at), now, false);
        after
    }

    /// Takes a lease whose loss the driver saw.
    fn lose(&self, owner: Owner, loss: Loss) -> Option<Arc<Held>> {
        let held = self.plan().take(owner)?.held;
        held.lose(loss);
        Some(held)
    }
}

impl Plan {
    /// Plans the next step of a lease: its renewal, or its deadline if that comes first. Says
    /// whether that is before the next look.
    fn set(
        &mut self,
        held: Arc<Held>,
        renew_at: Option<Instant>,
        now: Instant,
        asked: bool,
    ) -> bool {
        let owner = held.lease.owner;
        self.unplan(owner);
        // A lease that is over is due at once: the next look settles it.
        let deadline = held.live(now).unwrap_or(now);
        let (at, renews) = match renew_at {
            Some(renew_at) if renew_at < deadline => (renew_at, true),
            _ => (deadline, false),
        };
        self.by_time.insert((at, owner));
        self.entries.insert(owner, Entry { held, at, renews, asked });
        self.next_look.is_none_or(|next_look| at < next_look)
    }

    fn planned_until(&self, end: Instant) -> Vec<Owner> {
        let planned = self.by_time.iter().take_while(|(at, _)| *at <= end);
        planned.map(|(_, owner)| *owner).collect()
    }

    fn take(&mut self, owner: Owner) -> Option<Entry> {
        self.recovers(owner);
        self.unplan(owner)
    }

    /// Notes that renewals of a lease do not fail, or are no matter any more; says whether they
    /// did.
    fn recovers(&mut self, owner: Owner) -> bool {
        // Nearly always none fails, and then nothing is hashed.
        !self.failing.is_empty() && self.failing.remove(&owner)
    }

    fn unplan(&mut self, owner: Owner) -> Option<Entry> {
        let entry = self.entries.remove(&owner)?;
        self.by_time.remove(&(entry.at, owner));
        Some(entry)
    }

    /// Notes that renewals of a lease fail; `None` if they did before.
    fn fails(&mut self, held: &Arc<Held>) -> Option<Fails> {
        let first = self.failing.is_empty();
        self.failing.insert(held.lease.owner).then(|| Fails { held: held.clone(), first })
    }

    /// Moves one lease into `due` if it is lost, or to be renewed now, or within the next TTL/12
    /// while a batch of its TTL goes out.
    fn take_due(&mut self, owner: Owner, now: Instant, due: &mut Due) {
        let Some(entry) = self.entries.get(&owner) else { return };
        let held = entry.held.clone();
        let ttl = held.lease.ttl;
        match held.live(now) {
            Err(_) => {
                self.take(owner);
                due.lost.push(held);
            }
            Ok(_)
                if entry.renews
                    && (entry.at <= now
                        || due.batches.contains_key(&ttl)
                            && entry.at <= now.saturating_add(ttl.get() / 12)) =>
            {
                if entry.asked {
                    due.unanswered.extend(self.fails(&held));
                }
                // Asked again if it is not answered by then; its answer may still come later.
                self.set(held.clone(), Some(now.saturating_add(ttl.get() / 6)), now, true);
                due.batches.entry(ttl).or_default().push(held);
            }
            Ok(_) => {}
        }
    }
}

/// Runs until the client is done; `losses` listens since before the first lease.
pub(crate) async fn run(client: Arc<Client>, mut losses: Box<dyn Losses>) {
    let schedule = &client.schedule;
    let mut renewals = FuturesUnordered::new();
    loop {
        let due = schedule.due(client.clock.now());
        for held in due.lost {
            client.settle_loss(&held);
        }
        let unanswered = due.unanswered.into_iter().map(|fails| {
            let limit = fails.held.lease.ttl.get() / 6;
            (fails, client.unanswered(Operation::Renew, limit))
        });
        tell_failures(&client, unanswered.collect());
        renewals.extend(due.batches.into_iter().map(|(ttl, batch)| renew(&client, ttl, batch)));
        let next_look = match due.next_look {
            Some(at) => Either::Left(client.clock.sleep_until(at)),
            None => Either::Right(pending()),
        };
        tokio::select! {
            () = client.stop.cancelled() => return,
            () = next_look => {}
            () = schedule.earlier.notified() => {}
            Some((asked_at, answers)) = renewals.next() => {
                let now = client.clock.now();
                let mut failures = Vec::new();
                for (owner, answer) in answers {
                    match (schedule.renewed(owner, &answer, asked_at, now), answer) {
                        (After::Lost(held), _) => client.settle_loss(&held),
                        (After::Fails(fails), Err(error)) => failures.push((fails, error)),
                        (After::AllWell, _) => trace::renewals_succeed(&client),
                        (After::Fails(_) | After::Nothing, _) => {}
                    }
                }
                tell_failures(&client, failures);
            }
            // Of other clients' leases, too, where several use the driver.
            (owner, loss) = losses.next() => {
                if let Some(held) = schedule.lose(owner, loss) {
                    client.settle_loss(&held);
                }
            }
        }
    }
}

/// Warns once when renewals begin to fail, however many do.
fn tell_failures(client: &Client, failures: Vec<(Fails, Error)>) {
    if let Some((_, error)) = failures.iter().find(|(fails, _)| fails.first) {
        trace::renewals_fail(client, failures.len(), error);
    }
    for (fails, error) in &failures {
        trace::renewal_fails(client, &fails.held.lease, error);
    }
}

/// One batch. After a sixth of its TTL it is asked again, but one that is slow (its link is, or one
/// of its parts) is not given up before the deadlines that it can move.
async fn renew(
    client: &Client,
    ttl: Ttl,
    batch: Vec<Arc<Held>>,
) -> (Instant, Vec<(Owner, Answer)>) {
    let asked_at = client.clock.now();
    let leases: Vec<Lease> = batch.iter().map(|held| held.lease.clone()).collect();
    trace::renewals_are_sent(client, leases.len(), ttl);
    let call = async { Ok(client.backend.renew_all(&leases).await) };
    // An unanswered batch changes no plan: its leases were due again before.
    let answers = client.bounded(Operation::Renew, ttl.get(), call).await.unwrap_or_default();
    let owners = batch.iter().map(|held| held.lease.owner);
    (asked_at, owners.zip(answers).collect())
}
