//! Handing over: my key goes, the next claim's comes, in one transaction.
//!
//! The queue is first come, first served. Where others of this name wait in the store, the next
//! claim goes behind them, whether it was asked to yield or not.

use etcd_client::{Compare, CompareOp, KeyValue, Txn, TxnOp, TxnResponse};
use leasehold_api::{BootClock, Claim, Clock, Grant, HandedOver, Instant, Lease, Loss};

use crate::acquire::patience;
use crate::carrier::Carrier;
use crate::claim::{Attempt, Seen, gets, revision, untouched_record};
use crate::driver::Core;
use crate::error::Failure;
use crate::floor::Known;
use crate::line::Mine;
use crate::record;

/// How often it is sent again whose floor or epoch others keep moving.
const ROUNDS: usize = 8;

/// What became of a round.
enum Step {
    Done(HandedOver),
    Again,
}

impl Core {
    pub(crate) async fn pass_on(
        &self,
        lease: &Lease,
        claim: &Claim,
        yields: bool,
    ) -> Result<HandedOver, Failure> {
        let from = BootClock.now();
        if !self.standing.claims(claim.owner, &claim.name, from.saturating_add(claim.ttl.get())) {
            return Err(Failure::Contended);
        }
        let held = self.holdings.get(lease.owner);
        let was_own = held.as_ref().is_some_and(|held| matches!(held.carrier, Carrier::Own(_)));
        let created = match held {
            Some(held) if held.token != lease.token || held.name != lease.name => {
                return Ok(HandedOver::NotMine(Loss::TakenOver));
            }
            Some(held) => held.created,
            None => match self.find(lease).await? {
                Ok(created) => created,
                Err(loss) => return Ok(HandedOver::NotMine(loss)),
            },
        };
        self.holdings.leave(lease.owner);
        let waits_on = self.waits_on(claim);
        for _ in 0..ROUNDS {
            let Some(carrier) = self.carrier(claim, waits_on.as_ref()).await? else { continue };
            let known = self.floor.to_claim(claim.above).await?;
            // Who goes behind others must be watching before.
            let watches = yields || self.watches.is_watched(&claim.name);
            if yields {
                self.open_slot(claim).await;
            } else if watches {
                self.watches.open_now(&claim.name, claim.owner);
            }
            let round = Round { lease, claim, created, carrier, known, watches, from };
            if let Step::Done(answer) = self.one_hand_over(&round, yields).await? {
                if self.settle(lease.owner, was_own).await {
                    self.standing.is_over(lease.owner);
                }
                self.watches.forgets(lease.owner);
                if !matches!(answer, HandedOver::Yielded) {
                    self.watches.close(&claim.name, claim.owner);
                }
                return Ok(answer);
            }
        }
        Err(Failure::Contended)
    }

    async fn one_hand_over(&self, round: &Round<'_>, yields: bool) -> Result<Step, Failure> {
        let Round { claim, carrier, known, from, .. } = round;
        let epoch = match carrier {
            Carrier::Shared(session) => Some(session.epoch()),
            Carrier::Own(_) => None,
        };
        let attempt = Attempt::new(&self.keys, claim, carrier, known.floor, epoch);
        let old = self.keys.place(&round.lease.name, round.lease.owner);
        let txn = round.swap(&attempt, &old);
        let answer = match self.send_claim(&attempt, txn).await {
            Ok(answer) => answer,
            Err(failure) if failure.is_no_lease() => {
                self.carrier_ended(carrier);
                return Ok(Step::Again);
            }
            Err(failure) if failure.is_no_space() => {
                return self.without_space_for_more(round, &attempt, &old, failure).await;
            }
            // Nobody waits for the name any more, so it is released.
            Err(Failure::GivenUp) => {
                let released = self.give_back(&round.lease.ticket(), None).await?;
                return Ok(Step::Done(match released.outcome {
                    Ok(()) => HandedOver::Yielded,
                    Err(loss) => HandedOver::NotMine(loss),
                }));
            }
            Err(failure) => return Err(failure),
        };
        let mine = |created| Mine { created, floor: known.floor, carrier: carrier.clone() };
        let revision = revision(&answer)?;
        match round.read(&answer)? {
            Swapped::Alone => {
                let granted = self.granted(claim, mine(revision), revision, *from, Some(*known));
                passed_on(granted.await).map(Step::Done)
            }
            Swapped::Behind(line) => {
                let seen = Seen { line, ..empty(revision) };
                let before = self.before(&attempt, &seen);
                let (name, owner) = (&claim.name, claim.owner);
                self.watches.entered(name, owner, mine(revision), before, revision);
                Ok(Step::Done(HandedOver::Yielded))
            }
            Swapped::Not { seen, old: found } => {
                self.learn(carrier, &seen);
                self.after_no_swap(round, &attempt, &seen, found, yields).await
            }
        }
    }

    /// Without space nothing is swapped any more. But the swap that took the last of it was done,
    /// and is refused all the same; and so is one that was done before, and is sent again.
    async fn without_space_for_more(
        &self,
        round: &Round<'_>,
        attempt: &Attempt<'_>,
        old: &str,
        failure: Failure,
    ) -> Result<Step, Failure> {
        let mut look = attempt.look_around(true);
        look.push(TxnOp::get(old, None));
        let answer = self.txn(patience(round.claim.ttl.get()), &Txn::new().and_then(look)).await?;
        let mut seen = empty(revision(&answer)?);
        let mut gets = gets(&answer);
        seen.read_look(&mut gets)?;
        let found = gets.next().and_then(|mut kvs| kvs.pop());
        if found.as_ref().is_some_and(|found| found.mod_revision() == round.created) {
            return Err(failure);
        }
        if let Some(own) = &seen.own
            && let Some(record) = untouched_record(own)
            && own.lease() == attempt.carrier.lease()
            && seen.first.as_ref().is_some_and(|first| first.key() != own.key())
        {
            let carrier = attempt.carrier.clone();
            let mine = Mine { created: own.create_revision(), floor: record.floor, carrier };
            let before = self.before(attempt, &seen);
            let (name, owner) = (&round.claim.name, round.claim.owner);
            self.watches.entered(name, owner, mine, before, seen.revision);
            return Ok(Step::Done(HandedOver::Yielded));
        }
        self.after_no_swap(round, attempt, &seen, found, false).await
    }

    /// Nothing was changed: because the old key is not mine, because the new one is there already,
    /// because others wait, or because floor or epoch had moved.
    async fn after_no_swap(
        &self,
        round: &Round<'_>,
        attempt: &Attempt<'_>,
        seen: &Seen,
        old: Option<KeyValue>,
        yields: bool,
    ) -> Result<Step, Failure> {
        let Round { claim, created, from, .. } = round;
        let first_is = |key: &[u8]| seen.first.as_ref().is_some_and(|first| first.key() == key);
        let is_mine = old.as_ref().is_some_and(|old| old.mod_revision() == *created);
        let own = seen.own.as_ref().and_then(|own| Some((own, untouched_record(own)?)));
        if !is_mine {
            // A repeat finds what the first one granted.
            if let Some((own, record)) = own
                && first_is(own.key())
                && own.lease() == attempt.carrier.lease()
            {
                let mine = Mine {
                    created: own.create_revision(),
                    floor: record.floor,
                    carrier: attempt.carrier.clone(),
                };
                let granted = self.granted(claim, mine, seen.revision, *from, None).await?;
                if let Some(grant) = granted {
                    return Ok(Step::Done(HandedOver::Granted(grant)));
                }
            }
            let loss = if old.is_some() { Loss::TakenOver } else { Loss::Gone };
            return Ok(Step::Done(HandedOver::NotMine(loss)));
        }
        let old_place = self.keys.place(&round.lease.name, round.lease.owner);
        let Some((own, record)) = own else {
            if seen.line.len() > 1 && !round.watches {
                // Others wait, so it will be in line: then it has to watch first.
                self.open_slot(claim).await;
            }
            return Ok(Step::Again);
        };
        // The claim stands in line already. Where it is the next one, it keeps its place.
        let is_next = seen.line.get(1).is_some_and(|next| next.key() == own.key());
        let alone = seen.line.len() == 2;
        if is_next && (alone || !yields) && own.lease() == attempt.carrier.lease() {
            if !self.delete(&old_place, *created).await? {
                return Ok(Step::Again);
            }
            let mine = Mine {
                created: own.create_revision(),
                floor: record.floor,
                carrier: attempt.carrier.clone(),
            };
            let granted = self.granted(claim, mine, seen.revision, *from, None).await;
            return passed_on(granted).map(Step::Done);
        }
        // Else it goes behind the others, for which its key has to go first.
        self.delete(&attempt.place, own.mod_revision()).await?;
        self.open_slot(claim).await;
        Ok(Step::Again)
    }

    /// The create revision of a lease's key, where nothing is known of it.
    async fn find(&self, lease: &Lease) -> Result<Result<i64, Loss>, Failure> {
        let place = self.keys.place(&lease.name, lease.owner);
        let found = self
            .link
            .call(patience(lease.ttl.get()), |client| {
                let (mut kv, place) = (client.kv_client(), place.as_str());
                async move { kv.get(place, None).await }
            })
            .await?;
        let Some(key) = found.kvs().first() else { return Ok(Err(Loss::Gone)) };
        let token = untouched_record(key)
            .and_then(|record| record::token(record.floor, key.create_revision()));
        Ok(match token {
            Some(token) if token == lease.token => Ok(key.create_revision()),
            _ => Err(Loss::TakenOver),
        })
    }
}

/// One round of a hand-over.
struct Round<'a> {
    lease: &'a Lease,
    claim: &'a Claim,
    created: i64,
    carrier: Carrier,
    known: Known,
    /// The line is watched, so the claim may go behind others.
    watches: bool,
    from: Instant,
}

/// What a round's transaction did.
enum Swapped {
    /// The claim's key is the only one.
    Alone,
    /// The claim's key is behind these.
    Behind(Vec<KeyValue>),
    Not {
        seen: Box<Seen>,
        old: Option<KeyValue>,
    },
}

impl Round<'_> {
    /// Invariant: the old key goes only if it stands as it was written; the new one comes over the
    /// floor and the epoch that are the store's, and in the same revision. So there is no time
    /// with two holders, and none without one: it is alone in line, or somebody was before it.
    fn swap(&self, attempt: &Attempt<'_>, old: &str) -> Txn {
        let mine = Compare::mod_revision(old, CompareOp::Equal, self.created);
        let absent = || Compare::create_revision(attempt.place.as_str(), CompareOp::Equal, 0);
        let no_other = |from: &str, to: &[u8]| {
            Compare::create_revision(from, CompareOp::Equal, 0).with_range(to.to_vec())
        };
        let swap = || [TxnOp::delete(old, None), attempt.put()];
        let mut when = attempt.if_current(absent());
        when.push(mine.clone());
        let mut alone = when.clone();
        // All of the line before the old key, and all after it: an empty range compares as 0.
        if *attempt.line != *old {
            alone.push(no_other(&attempt.line, old.as_bytes()));
        }
        let (after, end) = (format!("{old}\0"), end_of(&attempt.line));
        alone.push(no_other(&after, &end));
        let mut look = attempt.look_around(true);
        look.push(TxnOp::get(old, None));
        let otherwise = if self.watches {
            let mut behind = swap().to_vec();
            behind.push(attempt.all());
            TxnOp::txn(Txn::new().when(when).and_then(behind).or_else(look))
        } else {
            TxnOp::txn(Txn::new().and_then(look))
        };
        Txn::new().when(alone).and_then(swap()).or_else([otherwise])
    }

    fn read(&self, answer: &TxnResponse) -> Result<Swapped, Failure> {
        if answer.succeeded() {
            return Ok(Swapped::Alone);
        }
        let inner = answer.op_responses().into_iter().find_map(|part| match part {
            etcd_client::TxnOpResponse::Txn(inner) => Some(inner),
            _ => None,
        });
        let inner = inner.ok_or(Failure::Answer("the answer has too few parts"))?;
        let mut gets = gets(&inner);
        if self.watches && inner.succeeded() {
            return Ok(Swapped::Behind(gets.next().unwrap_or_default()));
        }
        let mut seen = empty(revision(answer)?);
        seen.read_look(&mut gets)?;
        let old = gets.next().and_then(|mut kvs| kvs.pop());
        Ok(Swapped::Not { seen: Box::new(seen), old })
    }
}

/// The answer once the old key is gone and the new one was there.
fn passed_on(granted: Result<Option<Grant>, Failure>) -> Result<HandedOver, Failure> {
    match granted {
        Ok(Some(grant)) => Ok(HandedOver::Granted(grant)),
        // It was taken back: the name is free.
        Ok(None) | Err(Failure::GivenUp) => Ok(HandedOver::Yielded),
        Err(failure) => Err(failure),
    }
}

fn empty(revision: i64) -> Seen {
    Seen {
        revision,
        landed: false,
        own: None,
        first: None,
        line: Vec::new(),
        floor: None,
        epoch: None,
    }
}

/// The first key after all that begin so.
fn end_of(line: &str) -> Vec<u8> {
    let mut end = line.as_bytes().to_vec();
    // It ends in a slash, so there is a next byte.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
