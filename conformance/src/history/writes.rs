//! Writes under a lock's token, to a store that refuses a lower token than one it has accepted.
//!
//! Such a store is a register that only rises. Its answers can have been given one after the other
//! (they are linearizable) exactly if
//!
//! * no write was accepted that began after a write with a higher token was answered as accepted:
//!   the accepted ones can stand in the order of their tokens then;
//! * each refused one has a write with a higher token that may stand before its end. That one can't
//!   stand before it began, nor before an accepted one with a lower token began.
//!
//! A write without an answer may have been accepted: it can be why another was refused, and forbids
//! nothing.

use std::collections::BTreeMap;

use super::check::Finding;
use super::{Event, What};

/// A write that carried a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The client's number.
    pub client: usize,
    /// The lock's name.
    pub name: String,
    /// The acquisition's owner.
    pub owner: String,
    /// The token that it carried.
    pub token: u64,
    /// When it was sent.
    pub from: u64,
    /// When it was answered.
    pub until: Option<u64>,
    /// Whether it was accepted, if that is known.
    pub accepted: Option<bool>,
}

/// All writes, by the time they were sent.
pub(super) fn writes(events: &[Event]) -> Vec<Write> {
    let mut open: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut writes: Vec<Write> = Vec::new();
    for event in events {
        let key = (event.name.as_str(), event.owner.as_str());
        let accepted = match event.what {
            What::Write { token } => {
                open.insert(key, writes.len());
                writes.push(Write {
                    client: event.client,
                    name: event.name.clone(),
                    owner: event.owner.clone(),
                    token,
                    from: event.at,
                    until: None,
                    accepted: None,
                });
                continue;
            }
            What::Written => true,
            What::Refused => false,
            _ => continue,
        };
        if let Some(at) = open.remove(&key) {
            writes[at].until = Some(event.at);
            writes[at].accepted = Some(accepted);
        }
    }
    writes
}

/// What can't have been such a store.
pub(super) fn check(events: &[Event], findings: &mut Vec<Finding>) {
    let mut names: BTreeMap<String, Vec<Write>> = BTreeMap::new();
    for write in writes(events) {
        names.entry(write.name.clone()).or_default().push(write);
    }
    for mut writes in names.into_values() {
        let found = findings.len();
        stale(&writes, findings);
        // Among accepted ones that have no order, nothing can be said of the others.
        if findings.len() == found {
            writes.sort_by_key(|write| write.token);
            wrongly_refused(&writes, findings);
        }
    }
}

fn stale(by_start: &[Write], findings: &mut Vec<Finding>) {
    let accepted = || by_start.iter().filter(|write| write.accepted == Some(true));
    let mut by_end: Vec<&Write> = accepted().collect();
    by_end.sort_by_key(|write| write.until);
    let mut ended = by_end.into_iter().peekable();
    let mut highest: Option<&Write> = None;
    for write in accepted() {
        while let Some(before) = ended.next_if(|before| before.until < Some(write.from)) {
            highest = highest.filter(|highest| highest.token > before.token).or(Some(before));
        }
        if let Some(newer) = highest.filter(|newer| newer.token > write.token) {
            findings.push(Finding::Stale { newer: newer.clone(), write: write.clone() });
        }
    }
}

fn wrongly_refused(by_token: &[Write], findings: &mut Vec<Finding>) {
    // For each write, when the last of the accepted ones with a lower token began.
    let mut lower_began = Vec::with_capacity(by_token.len());
    let mut began = 0;
    for same in by_token.chunk_by(|a, b| a.token == b.token) {
        lower_began.extend(same.iter().map(|_| began));
        let accepted = same.iter().filter(|write| write.accepted == Some(true));
        began = accepted.map(|write| write.from).fold(began, u64::max);
    }
    for refused in by_token.iter().filter(|write| write.accepted == Some(false)) {
        let may_be_why = |(write, lower): (&Write, &u64)| {
            write.token > refused.token
                && write.accepted != Some(false)
                && Some(write.from.max(*lower)) < refused.until
        };
        if !by_token.iter().zip(&lower_began).any(may_be_why) {
            findings.push(Finding::WronglyRefused { write: refused.clone() });
        }
    }
}
