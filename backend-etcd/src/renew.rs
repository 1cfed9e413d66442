//! Renewing: one keepalive a lease of etcd's, however many locks are on it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use etcd_client::{KeyValue, Txn, TxnOp};
use futures_util::future::join;
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_api::{BootClock, Clock, Error, Instant, Lease, Loss, Operation, Renewal, Validity};

use crate::acquire::patience;
use crate::carrier::Carrier;
use crate::claim::untouched_record;
use crate::driver::Core;
use crate::error::{Effect, Failure};
use crate::keepalive::keep_alive;
use crate::line::Watched;
use crate::record;
use crate::session::{self, Session};
use crate::trace;

/// How many keys one transaction looks at; the server's own limit is 128.
const KEYS_AT_ONCE: usize = 100;

/// How many requests are under way at once.
const AT_ONCE: usize = 64;

/// What is known of a lease that is to be renewed.
enum Found {
    /// It is ours, on this lease of etcd's.
    On(i64),
    NotMine(Loss),
    /// Only the store can tell; and on which lease it was granted, where that is known.
    Look(Option<i64>),
}

/// What a keepalive answered, in a form that many leases can share.
type Kept = Result<(Instant, Duration), Error>;

impl Core {
    pub(crate) async fn renew_each(&self, leases: &[Lease]) -> Vec<Result<Renewal, Error>> {
        self.retire_ended();
        let mut found: Vec<_> = leases.iter().map(|lease| Ok(self.known(lease))).collect();
        let was_held = |found: &_| matches!(found, Ok(Found::On(_) | Found::Look(Some(_))));
        let held: Vec<bool> = found.iter().map(was_held).collect();
        // At once what is known to be on which lease, though its key is looked at meanwhile: to
        // keep a lease of ours alive gives nobody a key.
        let mut known: BTreeMap<i64, Duration> = BTreeMap::new();
        for (lease, found) in leases.iter().zip(&found) {
            if let Ok(Found::On(id) | Found::Look(Some(id))) = found {
                known.insert(*id, lease.ttl.get());
            }
        }
        let asked: Vec<i64> = known.keys().copied().collect();
        let (mut kept, ()) =
            join(self.keep_alive_all(known), self.look_at(leases, &mut found)).await;
        let mut others = BTreeMap::new();
        for (lease, found) in leases.iter().zip(&found) {
            if let Ok(Found::On(id)) = found
                && !asked.contains(id)
            {
                others.insert(*id, lease.ttl.get());
            }
        }
        kept.extend(self.keep_alive_all(others).await);
        let renewals = leases.iter().zip(found).zip(held).map(|((lease, found), held)| {
            match renewal(found?, &kept, lease.ttl.get())? {
                Renewal::Renewed(validity) => Ok(self.in_time(lease, validity, held)),
                not_mine => Ok(not_mine),
            }
        });
        renewals.collect()
    }

    /// A renewal that was answered, unless what was `held` when it was asked has been lost or given
    /// back meanwhile: its answer revives nothing.
    fn in_time(&self, lease: &Lease, validity: Validity, held: bool) -> Renewal {
        let until = validity.from.saturating_add(lease.ttl.get());
        let is_cared_for = self.standing.renewed(lease.owner, until);
        match self.known(lease) {
            Found::NotMine(loss) => Renewal::NotMine(loss),
            _ if held && !is_cared_for => Renewal::NotMine(Loss::Deadline),
            _ => Renewal::Renewed(validity),
        }
    }

    /// What is known without asking.
    fn known(&self, lease: &Lease) -> Found {
        let held = self.holdings.get(lease.owner).filter(|held| held.name == lease.name);
        let Some(held) = held else { return Found::Look(None) };
        if held.token != lease.token {
            return Found::NotMine(Loss::TakenOver);
        }
        if let Some(loss) = held.lost {
            return Found::NotMine(loss);
        }
        if held.leaving {
            return Found::Look(None);
        }
        match &held.carrier {
            Carrier::Shared(session) if !session.is_alive() => Found::NotMine(Loss::SessionGone),
            // Its watch would have told.
            carrier if matches!(held.watched, Watched::Yes(_)) => Found::On(carrier.lease()),
            carrier => Found::Look(Some(carrier.lease())),
        }
    }

    /// Looks at the keys of those of whom only the store can tell.
    async fn look_at(&self, leases: &[Lease], found: &mut [Result<Found, Error>]) {
        let unknown: Vec<_> =
            (0..leases.len()).filter(|at| matches!(found[*at], Ok(Found::Look(_)))).collect();
        let mut chunks = unknown.chunks(KEYS_AT_ONCE);
        let look = |chunk: &[usize]| {
            let chunk = chunk.to_vec();
            async move {
                let looked = self.look_at_some(leases, &chunk).await;
                (chunk, looked)
            }
        };
        let mut running: FuturesUnordered<_> = chunks.by_ref().take(AT_ONCE).map(look).collect();
        while let Some((chunk, looked)) = running.next().await {
            match looked {
                Ok(looked) => {
                    for (at, one) in chunk.into_iter().zip(looked) {
                        found[at] = Ok(one);
                    }
                }
                Err(failure) => {
                    let error = failure.into_error(Operation::Renew, Effect::Changes);
                    for at in chunk {
                        found[at] = Err(like(&error));
                    }
                }
            }
            running.extend(chunks.next().map(look));
        }
    }

    async fn look_at_some(&self, leases: &[Lease], some: &[usize]) -> Result<Vec<Found>, Failure> {
        let places = some.iter().map(|at| {
            let Lease { name, owner, .. } = &leases[*at];
            TxnOp::get(self.keys.place(name, *owner), None)
        });
        let ttl = some.iter().map(|at| leases[*at].ttl.get()).min().unwrap_or_default();
        let txn = Txn::new().and_then(places.collect::<Vec<_>>());
        let answer = self.txn(patience(ttl), &txn).await?;
        let keys: Vec<_> = crate::claim::gets(&answer).collect();
        if keys.len() != some.len() {
            return Err(Failure::Answer("the answer has too few parts"));
        }
        let found = some.iter().zip(&keys).map(|(at, key)| on(&leases[*at], key.first()));
        Ok(found.collect())
    }

    async fn keep_alive_all(&self, carriers: BTreeMap<i64, Duration>) -> HashMap<i64, Kept> {
        let mut rest = carriers.into_iter();
        let keep = |(id, ttl): (i64, Duration)| async move {
            let from = BootClock.now();
            let kept = match self.sessions.find(id) {
                Some(session) => self.keep_session(&session).await,
                None if self.sessions.has_retired(id) => Err(session::no_lease()),
                None => keep_alive(&self.link, id, ttl).await.map(|()| (from, ttl)),
            };
            (id, kept)
        };
        let mut running: FuturesUnordered<_> = rest.by_ref().take(AT_ONCE).map(keep).collect();
        let mut all = HashMap::new();
        while let Some((id, kept)) = running.next().await {
            let kept = kept.map_err(|failure| match failure.is_no_lease() {
                true => Error::lost(Operation::Renew, Loss::SessionGone),
                false => failure.into_error(Operation::Renew, Effect::Changes),
            });
            all.insert(id, kept);
            running.extend(rest.next().map(keep));
        }
        all
    }

    async fn keep_session(&self, session: &Session) -> Result<(Instant, Duration), Failure> {
        let kept = session.keep_alive(&self.link, true).await;
        if kept.as_ref().is_err_and(Failure::is_no_lease) {
            self.retire_ended();
        }
        kept
    }

    /// Tells those whose shared lease has ended.
    pub(crate) fn retire_ended(&self) {
        for session in self.sessions.retire_ended() {
            let place = self.link.options().place();
            trace::session_ended(&place, session.id, Loss::SessionGone);
            for owner in self.holdings.lose_all_on(session.id, Loss::SessionGone) {
                self.watches.tells(owner, Loss::SessionGone);
            }
        }
    }

    /// A lease was seen gone.
    pub(crate) fn carrier_ended(&self, carrier: &Carrier) {
        if let Carrier::Shared(session) = carrier {
            session.saw(None);
            self.retire_ended();
        }
    }
}

/// Whether a key that was read is that of the lease, and what it is on.
fn on(lease: &Lease, key: Option<&KeyValue>) -> Found {
    let Some(key) = key else { return Found::NotMine(Loss::Gone) };
    let token =
        untouched_record(key).and_then(|record| record::token(record.floor, key.create_revision()));
    match token {
        Some(token) if token == lease.token => Found::On(key.lease()),
        _ => Found::NotMine(Loss::TakenOver),
    }
}

fn renewal(found: Found, kept: &HashMap<i64, Kept>, ttl: Duration) -> Result<Renewal, Error> {
    let id = match found {
        Found::On(id) => id,
        Found::NotMine(loss) => return Ok(Renewal::NotMine(loss)),
        Found::Look(_) => {
            return Err(Failure::Answer("it was not looked at")
                .into_error(Operation::Renew, Effect::Changes));
        }
    };
    match kept.get(&id) {
        Some(Ok((from, remaining))) => {
            // Of a lease in whole seconds there may be more.
            let remaining = (*remaining).min(ttl);
            Ok(Renewal::Renewed(Validity { remaining, from: *from }))
        }
        Some(Err(error)) => match error.loss() {
            Some(loss) => Ok(Renewal::NotMine(loss)),
            None => Err(like(error)),
        },
        None => {
            Err(Failure::Answer("it was not kept alive")
                .into_error(Operation::Renew, Effect::Changes))
        }
    }
}

/// The same error once more, for another lease; its source is in its text.
fn like(error: &Error) -> Error {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let (backend, code) = (crate::driver::NAME, error.code().map(str::to_owned));
    let mut message = error.to_string();
    // Its own text says where and what already.
    if let Some((_, said)) = message.split_once(": renew: ") {
        message = said.to_owned();
    }
    if let Some(code) = &code {
        message = message.trim_end_matches(&format!(" ({code})")).to_owned();
    }
    let mut like = Error::new(error.kind(), error.operation(), message).with_backend(backend);
    if let Some(code) = code {
        like = like.with_code(code);
    }
    match source {
        Some(source) => like.with_source(source),
        None => like,
    }
}
