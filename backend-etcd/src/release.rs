//! Giving back: by ticket, by owner, and closing.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, KeyValue, LeaseGrantOptions, PutOptions, Txn, TxnOp};
use leasehold_api::{BootClock, Clock, Loss, Owner, Released, Ticket, Token, Ttl};

use crate::acquire::{patience, whole_seconds};
use crate::carrier::{Carrier, OwnLease};
use crate::claim::{gets, is_untouched, revision};
use crate::driver::Core;
use crate::error::Failure;
use crate::record;
use crate::session::{self, Late};
use crate::spare::Spare;

/// How often a release looks again because the key, or the epoch, changed under it.
const ROUNDS: usize = 8;

/// What is known of a claim's key.
#[derive(Debug, Clone, Copy)]
enum Key {
    Unknown,
    /// It stands as it was written, over this floor.
    There {
        created: i64,
        floor: u64,
    },
    Absent,
}

/// What became of a release that knew the key.
enum Step {
    Done(Result<(), Loss>),
    Again(Key),
}

impl Core {
    pub(crate) async fn give_back(
        &self,
        ticket: &Ticket,
        reopen_after: Option<Ttl>,
    ) -> Result<Released, Failure> {
        let Ticket { name, owner, token, .. } = ticket;
        let holding = self.holdings.get(*owner).filter(|holding| holding.name == *name);
        if let (Some(token), Some(holding)) = (token, &holding)
            && *token != holding.token
        {
            return Ok(Released { outcome: Err(Loss::TakenOver), settled: true });
        }
        let mine = self.watches.mine(name, *owner).filter(|_| token.is_none());
        let (key, carrier) = match (holding, mine) {
            (Some(held), _) => {
                let floor = held.token.get() - held.created.unsigned_abs();
                (Key::There { created: held.created, floor }, Some(held.carrier))
            }
            (None, Some(mine)) => {
                (Key::There { created: mine.created, floor: mine.floor }, Some(mine.carrier))
            }
            (None, None) => (Key::Unknown, None),
        };
        // From here on, what happens to the key is this release's doing.
        if token.is_none() {
            // Before it is asked what may still land.
            self.standing.gives_up(*owner);
        }
        self.watches.close(name, *owner);
        self.holdings.leave(*owner);
        let outcome = match reopen_after {
            None => self.free(ticket, key).await?,
            Some(time) => self.close_name(ticket, key, time).await?,
        };
        let is_own = matches!(carrier, Some(Carrier::Own(_)));
        let settled = self.settle(*owner, is_own).await;
        if settled {
            self.standing.is_over(*owner);
        }
        self.watches.forgets(*owner);
        Ok(Released { outcome, settled })
    }

    /// Deletes the key, and where a claim without an answer may still land rewrites the epoch in
    /// the same step, if there is space for that.
    async fn free(&self, ticket: &Ticket, mut key: Key) -> Result<Result<(), Loss>, Failure> {
        let mut bumps = true;
        for _ in 0..ROUNDS {
            match self.free_once(ticket, key, bumps).await {
                Ok(Step::Done(outcome)) => return Ok(outcome),
                Ok(Step::Again(seen)) => key = seen,
                // A deletion needs none.
                Err(failure) if bumps && failure.is_no_space() => bumps = false,
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::Contended)
    }

    /// Invariant: the key goes only if nobody has touched it since the claim wrote it; and no claim
    /// lands that was sent before over the epoch that is rewritten here.
    async fn free_once(&self, ticket: &Ticket, key: Key, bumps: bool) -> Result<Step, Failure> {
        let place = self.keys.place(&ticket.name, ticket.owner);
        let late = match self.sessions.late(ticket.owner).filter(|_| bumps) {
            Some((session, Late::Bump(epoch))) => Some((session, epoch)),
            Some((_, Late::Soon(at))) => {
                BootClock.sleep_until(at).await;
                return Ok(Step::Again(key));
            }
            _ => None,
        };
        let mut when = Vec::new();
        let mut then = Vec::new();
        match key {
            Key::There { created, .. } => {
                when.push(Compare::mod_revision(place.as_str(), CompareOp::Equal, created));
                then.push(TxnOp::delete(place.as_str(), None));
            }
            Key::Absent | Key::Unknown if late.is_some() => {
                when.push(Compare::create_revision(place.as_str(), CompareOp::Equal, 0));
            }
            Key::Absent => return Ok(Step::Done(Err(Loss::Gone))),
            // Nothing compares so: it only looks.
            Key::Unknown => when.push(Compare::version(place.as_str(), CompareOp::Less, 0)),
        }
        if let Some((session, epoch)) = &late {
            let key = session.epoch_key.as_str();
            when.push(Compare::mod_revision(key, CompareOp::Equal, *epoch));
            let on_it = PutOptions::new().with_lease(session.id);
            then.push(TxnOp::put(key, "", Some(on_it)));
        }
        let mut look = vec![TxnOp::get(place.as_str(), None)];
        if let Some((session, _)) = &late {
            look.push(TxnOp::get(session.epoch_key.as_str(), None));
        }
        let txn = Txn::new().when(when).and_then(then).or_else(look);
        let answer = self.txn(patience(Duration::ZERO), &txn).await?;
        if answer.succeeded() {
            if let Some((session, _)) = late {
                session.bumped(revision(&answer)?);
            }
            return Ok(Step::Done(match key {
                Key::There { .. } => Ok(()),
                Key::Absent | Key::Unknown => Err(Loss::Gone),
            }));
        }
        let mut gets = gets(&answer);
        let found = gets.next().and_then(|mut kvs| kvs.pop());
        if let (Some((session, _)), Some(mut epoch)) = (late, gets.next()) {
            session.saw(epoch.pop().map(|kv| kv.mod_revision()));
        }
        Ok(read(ticket, found.as_ref()))
    }

    /// Moves the key to a lease of its own, as the record of a closed name.
    ///
    /// Invariant: the key moves only if nobody has touched it since the claim wrote it. It keeps
    /// its create revision, so it stays before all that wait.
    async fn close_name(
        &self,
        ticket: &Ticket,
        mut key: Key,
        time: Ttl,
    ) -> Result<Result<(), Loss>, Failure> {
        let seconds = whole_seconds(time);
        // Dropped or refused before anything may be on it, nobody would know of it.
        let mut spare = self.spares.ask(seconds);
        let lease = spare.id();
        self.link
            .call(patience(Duration::ZERO), |client| {
                let mut leases = client.lease_client();
                let with_id = Some(LeaseGrantOptions::new().with_id(lease));
                async move { leases.grant(seconds, with_id).await }
            })
            .await?;
        let place = self.keys.place(&ticket.name, ticket.owner);
        for _ in 0..ROUNDS {
            let Key::There { created, floor } = key else {
                let step = match key {
                    Key::Unknown => read(ticket, self.look(&place).await?.as_ref()),
                    _ => Step::Done(Err(Loss::Gone)),
                };
                match step {
                    Step::Again(seen) => key = seen,
                    Step::Done(outcome) => {
                        self.end_spare(spare).await;
                        return Ok(outcome);
                    }
                }
                continue;
            };
            let on_it = PutOptions::new().with_lease(lease);
            let closed = record::write_closed(floor);
            let txn = Txn::new()
                .when([Compare::mod_revision(place.as_str(), CompareOp::Equal, created)])
                .and_then([TxnOp::put(place.as_str(), closed, Some(on_it))])
                .or_else([TxnOp::get(place.as_str(), None)]);
            spare.may_be_used();
            let answer = self.txn(patience(Duration::ZERO), &txn).await;
            match &answer {
                Ok(answer) if answer.succeeded() => return Ok(Ok(())),
                // The write that took the last space has been done.
                Err(failure) if failure.is_indeterminate() || failure.is_no_space() => {}
                _ => spare.is_unused(),
            }
            let answer = answer?;
            let found = gets(&answer).next().and_then(|mut kvs| kvs.pop());
            key = match read(ticket, found.as_ref()) {
                Step::Again(seen) => seen,
                Step::Done(outcome) => {
                    self.end_spare(spare).await;
                    return Ok(outcome);
                }
            };
        }
        Err(Failure::Contended)
    }

    /// Ends a lease that came to no use; what fails is left to the reaper.
    async fn end_spare(&self, spare: Spare<'_>) {
        if session::revoke(&self.link, spare.id()).await.is_ok() {
            spare.keep();
        }
    }

    async fn look(&self, place: &str) -> Result<Option<KeyValue>, Failure> {
        let found = self
            .link
            .call(patience(Duration::ZERO), |client| {
                let mut kv = client.kv_client();
                async move { kv.get(place, None).await }
            })
            .await?;
        Ok(found.kvs().first().cloned())
    }

    /// Sees to it that no claim of this owner can still land; says whether that is certain.
    pub(crate) async fn settle(&self, owner: Owner, is_own: bool) -> bool {
        if is_own || self.standing.may_be_on_its_own(owner) {
            // Its number comes from the owner, and no key can be put on it any more.
            if session::revoke(&self.link, OwnLease::number(owner)).await.is_err() {
                return false;
            }
            self.standing.is_not_on_its_own(owner);
        }
        self.sessions.late(owner).is_none()
    }
}

/// What a ticket may do with the key that was found.
fn read(ticket: &Ticket, found: Option<&KeyValue>) -> Step {
    let Some(kv) = found else { return Step::Again(Key::Absent) };
    let Some(record) = record::read(kv.value()) else {
        return Step::Done(Err(Loss::TakenOver));
    };
    let token: Option<Token> = record::token(record.floor, kv.create_revision());
    if ticket.token.is_some() && ticket.token != token {
        return Step::Done(Err(Loss::TakenOver));
    }
    match (record.closed, is_untouched(kv)) {
        // A repeat: it stays closed.
        (true, _) => Step::Done(Ok(())),
        (false, true) => {
            Step::Again(Key::There { created: kv.create_revision(), floor: record.floor })
        }
        (false, false) => Step::Done(Err(Loss::TakenOver)),
    }
}
