//! An acquire: one attempt of a claim, sent again only where floor or epoch had moved.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, KeyValue, LeaseGrantOptions, Txn, TxnOp, TxnResponse};
use leasehold_api::{Acquired, BootClock, Claim, Clock, Grant, Instant, Ttl, Validity};

use crate::carrier::{self, Carrier, OwnLease};
use crate::claim::{self, Attempt, Seen};
use crate::driver::Core;
use crate::error::Failure;
use crate::floor::Known;
use crate::holdings::Holding;
use crate::line::{First, Mine, Place, Watched};
use crate::record;

/// How often a claim is sent again whose floor or epoch others keep moving.
const ROUNDS: usize = 8;

/// For how long a claim waits for its watch at most. Without it, it waits by time.
const WATCH_PATIENCE: Duration = Duration::from_millis(500);

/// What became of an attempt.
enum Step {
    Done(Acquired),
    /// What it compared had moved, or what it found is no more.
    Again,
}

impl Core {
    pub(crate) async fn attempt(&self, claim: &Claim) -> Result<Acquired, Failure> {
        let from = BootClock.now();
        let Claim { name, owner, .. } = claim;
        // Before anything else: whatever this call comes to lasts so long, and a release by owner
        // from now on ends it.
        if !self.standing.claims(*owner, name, from.saturating_add(claim.ttl.get())) {
            return Err(Failure::Contended);
        }
        if let Some(first) = self.watches.first(name, *owner)
            && let Some(grant) = self.take_turn(claim, first, from).await?
        {
            return Ok(Acquired::Granted(grant));
        }
        // An opened slot knows nothing of this any more.
        let waits_on = self.waits_on(claim);
        if claim.queue {
            self.open_slot(claim).await;
        }
        for _ in 0..ROUNDS {
            let Some(carrier) = self.carrier(claim, waits_on.as_ref()).await? else { continue };
            let known = match self.floor.to_claim(claim.above).await {
                Ok(known) => known,
                // A claim that stands needs no floor.
                Err(failure) if failure.is_no_space() => {
                    let attempt = Attempt::new(&self.keys, claim, &carrier, 0, None);
                    match self.without_space(&attempt, failure, from).await? {
                        Step::Done(acquired) => return Ok(acquired),
                        Step::Again => continue,
                    }
                }
                Err(failure) => return Err(failure),
            };
            if let Step::Done(acquired) = self.one_round(claim, &carrier, known, from).await? {
                return Ok(acquired);
            }
        }
        Err(Failure::Contended)
    }

    pub(crate) async fn open_slot(&self, claim: &Claim) {
        let patience = WATCH_PATIENCE.min(claim.ttl.get() / 10);
        self.watches.open(&claim.name, claim.owner, patience).await;
    }

    /// The lease that the claim's key waits on, as far as it is known.
    pub(crate) fn waits_on(&self, claim: &Claim) -> Option<Carrier> {
        self.watches.mine(&claim.name, claim.owner).map(|mine| mine.carrier)
    }

    /// The lease that is to carry the claim's key, re-armed where it waits on one of its own;
    /// `None` if it has just ended.
    pub(crate) async fn carrier(
        &self,
        claim: &Claim,
        waits_on: Option<&Carrier>,
    ) -> Result<Option<Carrier>, Failure> {
        // A repeat re-arms nothing.
        if let Some(held) = self.holdings.get(claim.owner)
            && held.name == claim.name
            && held.carrier.is_alive()
        {
            return Ok(Some(held.carrier));
        }
        let seconds = whole_seconds(claim.ttl);
        if claim.keep_alive
            && let Some(session) = self.sessions.join(seconds).await?
        {
            return Ok(Some(Carrier::Shared(session)));
        }
        if let Some(own @ Carrier::Own(_)) = waits_on {
            match own.keep_alive(&self.link, true).await {
                Ok(_) => return Ok(Some(own.clone())),
                Err(failure) if failure.is_no_lease() => {}
                Err(failure) => return Err(failure),
            }
        }
        self.own_lease(claim, seconds).await
    }

    async fn own_lease(&self, claim: &Claim, seconds: i64) -> Result<Option<Carrier>, Failure> {
        self.standing.is_on_its_own(claim.owner);
        let (id, begun) = (OwnLease::number(claim.owner), BootClock.now());
        let granted = self
            .link
            .call(patience(claim.ttl.get()), |client| {
                let mut leases = client.lease_client();
                let with_id = Some(LeaseGrantOptions::new().with_id(id));
                async move { leases.grant(seconds, with_id).await }
            })
            .await;
        let (counts_from, ttl) = match granted {
            Ok(granted) => (begun, Duration::from_secs(granted.ttl().unsigned_abs())),
            // An earlier attempt of this owner came through, perhaps; that needs no space.
            Err(failure) if failure.is_lease_there() || failure.is_no_space() => {
                let Some((ttl, left)) = carrier::time_left(&self.link, id).await? else {
                    return if failure.is_no_space() { Err(failure) } else { Ok(None) };
                };
                (begun.saturating_sub(ttl.saturating_sub(left)), ttl)
            }
            Err(failure) => return Err(failure),
        };
        Ok(Some(Carrier::Own(Arc::new(OwnLease::new(id, counts_from, ttl)))))
    }

    async fn one_round(
        &self,
        claim: &Claim,
        carrier: &Carrier,
        known: Known,
        from: Instant,
    ) -> Result<Step, Failure> {
        let epoch = match carrier {
            Carrier::Shared(session) => Some(session.epoch()),
            Carrier::Own(_) => None,
        };
        let attempt = Attempt::new(&self.keys, claim, carrier, known.floor, epoch);
        let enters = claim.queue;
        let txn = if enters { attempt.enter() } else { attempt.try_it() };
        let answer = match self.send_claim(&attempt, txn).await {
            Ok(answer) => answer,
            // Its lease had ended, which nobody had noticed yet.
            Err(failure) if failure.is_no_lease() => {
                self.carrier_ended(carrier);
                return Ok(Step::Again);
            }
            Err(failure) if failure.is_no_space() => {
                return self.without_space(&attempt, failure, from).await;
            }
            Err(failure) => return Err(failure),
        };
        let seen = attempt.read(&answer)?;
        if seen.landed {
            let mine =
                Mine { created: seen.revision, floor: known.floor, carrier: carrier.clone() };
            let before = self.before(&attempt, &seen);
            if !before.is_empty() {
                self.watches.entered(&claim.name, claim.owner, mine, before, seen.revision);
                return self.held(&seen).await.map(Step::Done);
            }
            return match self.granted(claim, mine, seen.revision, from, Some(known)).await? {
                Some(grant) => Ok(Step::Done(Acquired::Granted(grant))),
                None => Ok(Step::Again),
            };
        }
        self.learn(carrier, &seen);
        if let Some(own) = &seen.own {
            return self.found(&attempt, own, &seen, from).await;
        }
        match (&seen.first, enters) {
            (Some(_), false) => {
                // What was to carry its key goes, too; else it is given back later.
                let is_own = matches!(carrier, Carrier::Own(_));
                if self.settle(claim.owner, is_own).await {
                    self.standing.is_over(claim.owner);
                }
                self.held(&seen).await.map(Step::Done)
            }
            _ => Ok(Step::Again),
        }
    }

    /// A claim that stands needs no space: one that waits, or that took the last of it.
    async fn without_space(
        &self,
        attempt: &Attempt<'_>,
        failure: Failure,
        from: Instant,
    ) -> Result<Step, Failure> {
        let answer = self.txn(patience(attempt.claim.ttl.get()), &attempt.look()).await?;
        let seen = attempt.read(&answer)?;
        match &seen.own {
            Some(own) => self.found(attempt, own, &seen, from).await,
            None => Err(failure),
        }
    }

    /// Sends a transaction that may write a claim; what is not answered is remembered, for its
    /// clean-up.
    pub(crate) async fn send_claim(
        &self,
        attempt: &Attempt<'_>,
        txn: Txn,
    ) -> Result<TxnResponse, Failure> {
        let (owner, ttl) = (attempt.claim.owner, attempt.claim.ttl.get());
        let session = match (attempt.carrier, attempt.epoch) {
            (Carrier::Shared(session), Some(epoch)) => Some((session, session.asked(owner, epoch))),
            _ => None,
        };
        // Only now: a release by owner that begins after this look finds the claim noted.
        let answer = match self.standing.is_given_up(owner) {
            true => Err(Failure::GivenUp),
            false => self.txn(patience(ttl), &txn).await,
        };
        let answered = !answer.as_ref().is_err_and(Failure::is_indeterminate);
        if let Some((session, true)) = session
            && answered
        {
            session.answered(owner);
        }
        answer
    }

    /// What an answer told of floor and session.
    pub(crate) fn learn(&self, carrier: &Carrier, seen: &Seen) {
        if let Some(floor) = seen.floor {
            self.floor.learn(floor, seen.revision.unsigned_abs());
        }
        if let Carrier::Shared(session) = carrier {
            session.saw(seen.epoch);
            if seen.epoch.is_none() {
                self.carrier_ended(carrier);
            }
        }
    }

    /// The claim's own key stood there already: of an earlier attempt, or in the queue.
    async fn found(
        &self,
        attempt: &Attempt<'_>,
        own: &KeyValue,
        seen: &Seen,
        from: Instant,
    ) -> Result<Step, Failure> {
        let claim = attempt.claim;
        let is_first = seen.first.as_ref().is_some_and(|first| first.key() == own.key());
        let Some(record) = claim::untouched_record(own) else {
            // Closed by a release, or written over.
            return self.held(seen).await.map(Step::Done);
        };
        // Who waits keeps its place by asking again; who holds is not re-armed by that.
        if !is_first && claim.queue && own.lease() == attempt.carrier.lease() {
            match attempt.carrier.keep_fresh(&self.link).await {
                Err(failure) if failure.is_no_lease() => return Ok(Step::Again),
                kept => kept?,
            }
        }
        let Some(carrier) = self.carrier_of(own, attempt.carrier).await? else {
            // On a lease that is over, or as good as over: it may go any moment.
            self.delete(&attempt.place, own.mod_revision()).await?;
            return Ok(Step::Again);
        };
        let mine = Mine { created: own.create_revision(), floor: record.floor, carrier };
        if is_first {
            return match self.granted(claim, mine, seen.revision, from, None).await? {
                Some(grant) => Ok(Step::Done(Acquired::Granted(grant))),
                None => Ok(Step::Again),
            };
        }
        if claim.queue {
            let before = self.before(attempt, seen);
            self.watches.entered(&claim.name, claim.owner, mine, before, seen.revision);
        }
        self.held(seen).await.map(Step::Done)
    }

    /// The lease that a key of this owner is on, if it is good for more.
    async fn carrier_of(
        &self,
        own: &KeyValue,
        current: &Carrier,
    ) -> Result<Option<Carrier>, Failure> {
        let lease = own.lease();
        if lease == current.lease() {
            return Ok(current.is_alive().then(|| current.clone()));
        }
        if self.sessions.has_retired(lease) {
            return Ok(None);
        }
        if let Some(session) = self.sessions.find(lease) {
            return Ok(session.is_alive().then_some(Carrier::Shared(session)));
        }
        // Another client's, by the same owner, or one of this client's that has ended.
        let begun = BootClock.now();
        Ok(carrier::time_left(&self.link, lease).await?.map(|(ttl, left)| {
            let counts_from = begun.saturating_sub(ttl.saturating_sub(left));
            Carrier::Own(Arc::new(OwnLease::new(lease, counts_from, ttl)))
        }))
    }

    /// A claim that waited is the first: proven by the watch, without asking.
    async fn take_turn(
        &self,
        claim: &Claim,
        first: First,
        from: Instant,
    ) -> Result<Option<Grant>, Failure> {
        match first.mine.carrier.keep_alive(&self.link, false).await {
            Ok(_) => {}
            Err(failure) if failure.is_no_lease() => {
                self.carrier_ended(&first.mine.carrier);
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        }
        // Its key may have gone while that took its time.
        let Some(First { mine, since }) = self.watches.first(&claim.name, claim.owner) else {
            return Ok(None);
        };
        self.granted(claim, mine, since, from, None).await
    }

    /// Makes what stands in the store a grant; `None` if it had to be taken back.
    ///
    /// `known` is what was known when a claim was sent that has landed now.
    pub(crate) async fn granted(
        &self,
        claim: &Claim,
        mine: Mine,
        since: i64,
        from: Instant,
        known: Option<Known>,
    ) -> Result<Option<Grant>, Failure> {
        let Mine { created, floor, carrier } = mine;
        let place = self.keys.place(&claim.name, claim.owner);
        let Some(token) = record::token(floor, created) else {
            self.delete(&place, created).await?;
            return Err(Failure::Exhausted);
        };
        if let Some(known) = known
            && (token.get() <= known.highest || claim.above.is_some_and(|above| token <= above))
        {
            // The store went back to an older revision: a snapshot was restored.
            self.floor.went_back(created.unsigned_abs());
            self.delete(&place, created).await?;
            return Ok(None);
        }
        if self.standing.is_given_up(claim.owner) {
            self.delete(&place, created).await?;
            return Err(Failure::GivenUp);
        }
        self.floor.granted(token, since.unsigned_abs());
        // Of a lease in whole seconds there may be more.
        let remaining = carrier.remaining(from).min(claim.ttl.get());
        self.watches.close(&claim.name, claim.owner);
        let (name, watched) = (claim.name.clone(), Watched::No);
        let (leaving, lost) = (false, None);
        let holding = Holding { name, token, created, since, carrier, watched, leaving, lost };
        self.watches.holds(claim.owner, holding);
        Ok(Some(Grant { token, validity: Validity { remaining, from } }))
    }

    /// The answer that somebody else has it.
    async fn held(&self, seen: &Seen) -> Result<Acquired, Failure> {
        let Some(first) = &seen.first else {
            return Ok(Acquired::Held { holder: None, free_in: None });
        };
        let is_closed = record::read(first.value()).is_some_and(|record| record.closed);
        if !is_closed {
            let holder = claim::holder(&self.keys, first);
            return Ok(Acquired::Held { holder, free_in: None });
        }
        // When a closed name opens, only its lease tells.
        let left = carrier::time_left(&self.link, first.lease()).await?;
        let free_in = left.map(|(_, left)| left);
        Ok(Acquired::Held { holder: None, free_in })
    }

    /// Deletes a key that stands as it was read.
    pub(crate) async fn delete(&self, place: &str, modified: i64) -> Result<bool, Failure> {
        let delete = Txn::new()
            .when([Compare::mod_revision(place, CompareOp::Equal, modified)])
            .and_then([TxnOp::delete(place, None)]);
        Ok(self.txn(patience(Duration::ZERO), &delete).await?.succeeded())
    }

    pub(crate) fn before(&self, attempt: &Attempt<'_>, seen: &Seen) -> Vec<Place> {
        let own = attempt.place.as_bytes();
        let keys = seen.line.iter().map(KeyValue::key).take_while(|key| *key != own);
        keys.map(|key| key[attempt.line.len()..].into()).collect()
    }
}

/// How long a lease of this TTL is in etcd.
pub(crate) fn whole_seconds(ttl: Ttl) -> i64 {
    i64::try_from(ttl.as_millis().div_ceil(1_000)).expect("30 days in seconds fit")
}

/// How long a request waits for an answer before the next ones go to another member.
pub(crate) fn patience(ttl: Duration) -> Duration {
    (ttl / 6).clamp(Duration::from_millis(150), Duration::from_secs(1))
}
