//! The transactions of a claim, and what they answer.

use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use leasehold_api::{Claim, Holder};

use crate::carrier::Carrier;
use crate::error::Failure;
use crate::floor;
use crate::keys::Keys;
use crate::record::{self, Record};

/// A claim on its way: what it compares, and what it writes.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) claim: &'a Claim,
    pub(crate) carrier: &'a Carrier,
    pub(crate) floor: u64,
    /// The epoch of the shared lease.
    pub(crate) epoch: Option<i64>,
    pub(crate) line: String,
    pub(crate) place: String,
}

/// What the store said of an attempt.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) revision: i64,
    /// Whether the claim was written.
    pub(crate) landed: bool,
    /// The claim's own key, where it was there before.
    pub(crate) own: Option<KeyValue>,
    /// The oldest key of the name.
    pub(crate) first: Option<KeyValue>,
    /// The keys of the name, oldest first, where they were asked for.
    pub(crate) line: Vec<KeyValue>,
    /// The floor, where the claim did not land.
    pub(crate) floor: Option<u64>,
    /// The epoch, where the claim did not land; `None` without a session or its key.
    pub(crate) epoch: Option<i64>,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        keys: &'a Keys,
        claim: &'a Claim,
        carrier: &'a Carrier,
        floor: u64,
        epoch: Option<i64>,
    ) -> Self {
        let line = keys.line(&claim.name);
        let place = keys.place(&claim.name, claim.owner);
        Self { keys, claim, carrier, floor, epoch, line, place }
    }

    /// Writes the claim if the name has no key at all.
    ///
    /// Invariant: it lands only as the only key of its name, over the floor that is the store's
    /// and, on a shared lease, before the epoch is rewritten.
    pub(crate) fn try_it(&self) -> Txn {
        let free = Compare::create_revision(self.line.as_str(), CompareOp::Equal, 0).with_prefix();
        Txn::new()
            .when(self.if_current(free))
            .and_then([self.put()])
            .or_else(self.look_around(false))
    }

    /// Writes the claim behind those that are there, unless it is there itself; and lists them.
    ///
    /// Invariant: as for [`try_it`](Self::try_it), and its place is that of its first entry.
    pub(crate) fn enter(&self) -> Txn {
        let absent = Compare::create_revision(self.place.as_str(), CompareOp::Equal, 0);
        Txn::new()
            .when(self.if_current(absent))
            .and_then([self.put(), self.first(), self.all()])
            .or_else(self.look_around(true))
    }

    /// Writes nothing, and answers as [`enter`](Self::enter) does where the claim is there.
    pub(crate) fn look(&self) -> Txn {
        // Nothing compares so: it only looks.
        let never = Compare::version(self.place.as_str(), CompareOp::Less, 0);
        Txn::new().when([never]).or_else(self.look_around(true))
    }

    pub(crate) fn if_current(&self, other: Compare) -> Vec<Compare> {
        let floor = self.floor.to_string();
        let mut when = vec![other, Compare::value(self.keys.floor(), CompareOp::Equal, floor)];
        if let (Carrier::Shared(session), Some(epoch)) = (self.carrier, self.epoch) {
            let key = session.epoch_key.as_str();
            when.push(Compare::mod_revision(key, CompareOp::Equal, epoch));
        }
        when
    }

    pub(crate) fn put(&self) -> TxnOp {
        let value = record::write(self.floor, &self.claim.metadata);
        let lease = PutOptions::new().with_lease(self.carrier.lease());
        TxnOp::put(self.place.as_str(), value, Some(lease))
    }

    /// Own key, floor, epoch, the oldest, and perhaps all.
    pub(crate) fn look_around(&self, all: bool) -> Vec<TxnOp> {
        let epoch = match self.carrier {
            Carrier::Shared(session) => session.epoch_key.as_str(),
            Carrier::Own(_) => self.keys.nothing(),
        };
        let get = |key: &str| TxnOp::get(key, None);
        let mut look = vec![get(&self.place), get(self.keys.floor()), get(epoch), self.first()];
        if all {
            look.push(self.all());
        }
        look
    }

    pub(crate) fn first(&self) -> TxnOp {
        first_of(&self.line)
    }

    pub(crate) fn all(&self) -> TxnOp {
        let all = GetOptions::new().with_prefix().with_keys_only();
        TxnOp::get(self.line.as_str(), Some(all.with_sort(SortTarget::Create, SortOrder::Ascend)))
    }

    /// Reads the answer of [`try_it`](Self::try_it) or [`enter`](Self::enter).
    pub(crate) fn read(&self, answer: &TxnResponse) -> Result<Seen, Failure> {
        let mut seen = Seen {
            revision: revision(answer)?,
            landed: answer.succeeded(),
            own: None,
            first: None,
            line: Vec::new(),
            floor: None,
            epoch: None,
        };
        let mut gets = gets(answer);
        if seen.landed {
            seen.first = gets.next().and_then(|mut kvs| kvs.pop());
            seen.line = gets.next().unwrap_or_default();
            return Ok(seen);
        }
        seen.read_look(&mut gets)?;
        Ok(seen)
    }
}

impl Seen {
    /// What [`look_around`](Attempt::look_around) answered.
    pub(crate) fn read_look(
        &mut self,
        gets: &mut impl Iterator<Item = Vec<KeyValue>>,
    ) -> Result<(), Failure> {
        let mut next = || gets.next().ok_or(Failure::Answer("the answer has too few parts"));
        self.own = next()?.pop();
        let floor = next()?.pop().map(|kv| floor::read(kv.value())).transpose()?;
        self.floor = Some(floor.unwrap_or(0));
        self.epoch = next()?.pop().map(|kv| kv.mod_revision());
        self.first = next()?.pop();
        self.line = gets.next().unwrap_or_default();
        Ok(())
    }
}

/// The oldest key under a line.
pub(crate) fn first_of(line: &str) -> TxnOp {
    let first = GetOptions::new().with_prefix().with_limit(1);
    TxnOp::get(line, Some(first.with_sort(SortTarget::Create, SortOrder::Ascend)))
}

/// The answers of the reads of a transaction, in their order.
pub(crate) fn gets(answer: &TxnResponse) -> impl Iterator<Item = Vec<KeyValue>> {
    answer.op_responses().into_iter().filter_map(|part| match part {
        TxnOpResponse::Get(mut get) => Some(get.take_kvs()),
        _ => None,
    })
}

/// The revision of a transaction's answer.
pub(crate) fn revision(answer: &TxnResponse) -> Result<i64, Failure> {
    let revision = answer.header().map(etcd_client::ResponseHeader::revision);
    revision.ok_or(Failure::Answer("the answer names no revision"))
}

/// Whether a key stands as its claim wrote it.
pub(crate) fn is_untouched(kv: &KeyValue) -> bool {
    kv.mod_revision() == kv.create_revision()
}

/// A claim's key that stands as it was written, read.
pub(crate) fn untouched_record(kv: &KeyValue) -> Option<Record> {
    record::read(kv.value()).filter(|record| !record.closed && is_untouched(kv))
}

/// Who holds a name, by its oldest key; what is left of the lease is not in it.
pub(crate) fn holder(keys: &Keys, first: &KeyValue) -> Option<Holder> {
    let record = untouched_record(first)?;
    let (_, owner) = keys.read(first.key())?;
    let token = record::token(record.floor, first.create_revision())?;
    let holder = Holder::new(owner, token, None);
    Some(match record.said {
        Some(said) => holder.with_metadata(said),
        None => holder,
    })
}
