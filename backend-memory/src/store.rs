//! The store: what a server would keep, behind one mutex. Every method is one atomic step.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_api::{
    Claim, Error, ErrorKind, Holder, Instant, Lease, LockName, Loss, Metadata, Operation, Owner,
    Ticket, Token, Ttl,
};
use tokio::sync::Notify;

/// All names, and the one source of their tokens.
#[derive(Debug, Default)]
pub(crate) struct Store {
    names: HashMap<LockName, Entry>,
    slots: HashMap<Owner, Slot>,
    last_token: Option<Token>,
    next_place: u64,
    sweep_at: usize,
}

/// One name: who holds it, who waits. Without either it is removed.
#[derive(Debug, Default)]
struct Entry {
    record: Option<Record>,
    waiters: BTreeMap<u64, Waiter>,
}

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) owner: Owner,
    pub(crate) token: Token,
    pub(crate) expires: Instant,
    /// `None`: a closed name, which nobody holds and nobody gets.
    metadata: Option<Metadata>,
}

#[derive(Debug)]
struct Waiter {
    owner: Owner,
    expires: Instant,
}

/// A waiting owner's latch, and its place in the wait list for as long as it waits.
#[derive(Debug)]
struct Slot {
    wake: Arc<Notify>,
    place: u64,
}

/// What became of a hand-over.
#[derive(Debug)]
pub(crate) enum Handed {
    /// The claim holds the name: its token, and when that expires.
    Granted(Token, Instant),
    NotMine(Loss),
    Yielded,
}

impl Record {
    pub(crate) fn holder(&self, now: Instant) -> Option<Holder> {
        let metadata = self.metadata.clone()?;
        let remaining = Some(self.expires.since(now));
        Some(Holder::new(self.owner, self.token, remaining).with_metadata(metadata))
    }

    /// Why this is not the lease of `owner` and `token`, if it is not.
    fn compare(&self, owner: Owner, token: Option<Token>) -> Result<(), Loss> {
        let mine = self.owner == owner && token.is_none_or(|token| token == self.token);
        if mine { Ok(()) } else { Err(Loss::TakenOver) }
    }
}

impl Store {
    /// The unexpired record of a name.
    pub(crate) fn record(&self, name: &LockName, now: Instant) -> Option<&Record> {
        let record = self.names.get(name)?.record.as_ref()?;
        (record.expires > now).then_some(record)
    }

    /// The names that somebody holds, in no order.
    pub(crate) fn held(&self, now: Instant) -> impl Iterator<Item = (&LockName, Holder)> {
        let holder = move |entry: &Entry| {
            let record = entry.record.as_ref().filter(|record| record.expires > now)?;
            record.holder(now)
        };
        self.names.iter().filter_map(move |(name, entry)| Some((name, holder(entry)?)))
    }

    /// Grants a name that is free, or finds the grant that this owner has. `Err` is who holds it.
    pub(crate) fn acquire(
        &mut self,
        claim: &Claim,
        now: Instant,
    ) -> Result<Result<(Token, Instant), &Record>, Error> {
        self.sweep(now);
        let held = self.record(&claim.name, now);
        let granted = match held {
            Some(record) if record.owner == claim.owner && record.metadata.is_some() => {
                (record.token, record.expires)
            }
            None => self.grant(claim, now)?,
            Some(_) => {
                if claim.queue {
                    self.enqueue(claim, now);
                }
                return Ok(Err(self.record(&claim.name, now).expect("it was held just now")));
            }
        };
        self.close_slot(&claim.name, claim.owner);
        Ok(Ok(granted))
    }

    fn grant(&mut self, claim: &Claim, now: Instant) -> Result<(Token, Instant), Error> {
        let token = self.draw(claim.above)?;
        let expires = now.saturating_add(claim.ttl.get());
        let metadata = Some(claim.metadata.clone());
        let record = Record { owner: claim.owner, token, expires, metadata };
        self.names.entry(claim.name.clone()).or_default().record = Some(record);
        Ok((token, expires))
    }

    /// max(last + 1, above + 1, microseconds since 1970).
    fn draw(&mut self, above: Option<Token>) -> Result<Token, Error> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let clock = u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX);
        let floor = self.last_token.max(above).map_or(0, Token::get);
        let token = Token::new(clock.max(floor + 1)).map_err(|source| {
            let message = "the store's tokens are used up";
            Error::new(ErrorKind::Refused, Operation::Acquire, message).with_source(source)
        })?;
        self.last_token = Some(token);
        Ok(token)
    }

    pub(crate) fn last_token(&self) -> Option<Token> {
        self.last_token
    }

    pub(crate) fn raise_tokens(&mut self, above: Token) {
        self.last_token = self.last_token.max(Some(above));
    }

    /// Re-arms the lease of this owner and token, if it still is.
    pub(crate) fn renew(
        &mut self,
        name: &LockName,
        owner: Owner,
        token: Token,
        ttl: Ttl,
        now: Instant,
    ) -> Result<(), Loss> {
        let record = self.live_record(name, now).ok_or(Loss::Gone)?;
        record.compare(owner, Some(token))?;
        if record.metadata.is_none() {
            return Err(Loss::Gone);
        }
        record.expires = now.saturating_add(ttl.get());
        Ok(())
    }

    /// Ends what the ticket names, or closes it for a while; wakes the first waiter then, and that
    /// of a name that is free, whoever asked.
    pub(crate) fn release(
        &mut self,
        ticket: &Ticket,
        reopen_after: Option<Duration>,
        now: Instant,
    ) -> Result<(), Loss> {
        self.close_slot(&ticket.name, ticket.owner);
        let outcome = self.live_record(&ticket.name, now).ok_or(Loss::Gone).and_then(|record| {
            record.compare(ticket.owner, ticket.token)?;
            // A closed record stays as it is.
            let was_held = record.metadata.take().is_some();
            if was_held {
                record.expires = now.saturating_add(reopen_after.unwrap_or_default());
            }
            Ok(was_held)
        });
        // Also when the name was closed just now: one waiter learns when it opens.
        if outcome == Ok(true) || self.record(&ticket.name, now).is_none() {
            self.wake_first(&ticket.name, now);
        }
        outcome.map(drop)
    }

    /// Gives the lease to the claim, or ends it for the first of the others that wait. A repeat
    /// finds what the claim was given.
    pub(crate) fn hand_over(
        &mut self,
        lease: &Lease,
        claim: &Claim,
        yield_to_others: bool,
        now: Instant,
    ) -> Result<Handed, Error> {
        let Some(record) = self.live_record(&lease.name, now) else {
            return Ok(Handed::NotMine(Loss::Gone));
        };
        if record.owner == claim.owner && record.metadata.is_some() {
            let granted = Handed::Granted(record.token, record.expires);
            self.close_slot(&claim.name, claim.owner);
            return Ok(granted);
        }
        if let Err(loss) = record.compare(lease.owner, Some(lease.token)) {
            return Ok(Handed::NotMine(loss));
        }
        if record.metadata.is_none() {
            return Ok(Handed::NotMine(Loss::Gone));
        }
        if yield_to_others && self.others_wait(&claim.name, claim.owner, now) {
            // An earlier place of this claim's would not be behind the others.
            self.close_slot(&claim.name, claim.owner);
            self.enqueue(claim, now);
            self.release(&lease.ticket(), None, now).expect("compared in this step");
            return Ok(Handed::Yielded);
        }
        let (token, expires) = self.grant(claim, now)?;
        self.close_slot(&claim.name, claim.owner);
        Ok(Handed::Granted(token, expires))
    }

    /// Ends the lease of this token, whoever holds it.
    pub(crate) fn evict(&mut self, name: &LockName, token: Token, now: Instant) -> bool {
        match self.live_record(name, now) {
            Some(record) if record.token == token && record.metadata.is_some() => {
                record.expires = now;
            }
            _ => return false,
        }
        self.wake_first(name, now);
        true
    }

    /// Whether somebody other than `owner` waits for the name.
    fn others_wait(&self, name: &LockName, owner: Owner, now: Instant) -> bool {
        let waits = |waiter: &Waiter| waiter.owner != owner && waiter.expires > now;
        self.names.get(name).is_some_and(|entry| entry.waiters.values().any(waits))
    }

    /// Opens the claim's slot if it has none, and puts it on the wait list, at the place of its
    /// first entry, for one TTL.
    fn enqueue(&mut self, claim: &Claim, now: Instant) {
        let slot = self.slots.entry(claim.owner).or_insert_with(|| {
            self.next_place += 1;
            Slot { wake: Arc::new(Notify::new()), place: self.next_place }
        });
        let waiter = Waiter { owner: claim.owner, expires: now.saturating_add(claim.ttl.get()) };
        let entry = self.names.entry(claim.name.clone()).or_default();
        entry.waiters.insert(slot.place, waiter);
    }

    /// What `owner` waits on, while its slot is open.
    pub(crate) fn slot(&self, owner: Owner) -> Option<Arc<Notify>> {
        self.slots.get(&owner).map(|slot| slot.wake.clone())
    }

    fn close_slot(&mut self, name: &LockName, owner: Owner) {
        if let Some(slot) = self.slots.remove(&owner)
            && let Some(entry) = self.names.get_mut(name)
        {
            entry.waiters.remove(&slot.place);
        }
    }

    /// Takes the first live waiter off the list and wakes it.
    fn wake_first(&mut self, name: &LockName, now: Instant) {
        let Some(entry) = self.names.get_mut(name) else { return };
        while let Some((_, waiter)) = entry.waiters.pop_first() {
            if waiter.expires > now
                && let Some(slot) = self.slots.get(&waiter.owner)
            {
                slot.wake.notify_one();
                break;
            }
        }
        let held = entry.record.as_ref().is_some_and(|record| record.expires > now);
        if entry.waiters.is_empty() && !held {
            self.names.remove(name);
        }
    }

    fn live_record(&mut self, name: &LockName, now: Instant) -> Option<&mut Record> {
        let record = self.names.get_mut(name)?.record.as_mut()?;
        (record.expires > now).then_some(record)
    }

    /// Forgets what expired, whenever the map has doubled: nothing of a name stays behind.
    fn sweep(&mut self, now: Instant) {
        if self.names.len() < self.sweep_at.max(64) {
            return;
        }
        self.names.retain(|_, entry| {
            entry.waiters.retain(|_, waiter| waiter.expires > now);
            let held = entry.record.as_ref().is_some_and(|record| record.expires > now);
            held || !entry.waiters.is_empty()
        });
        self.sweep_at = self.names.len() * 2;
    }
}
