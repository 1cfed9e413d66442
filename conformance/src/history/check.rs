//! The verdict over a history.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::writes::{self, Write};
use super::{Event, What};

/// Why a history can't have been a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Two clients held a name at once.
    Overlap {
        /// The hold that began first.
        first: Hold,
        /// The hold that began within it.
        second: Hold,
    },
    /// Two acquisitions have one token.
    Repeated {
        /// The hold that began first.
        first: Hold,
        /// The other.
        second: Hold,
    },
    /// A grant has a lower token than one before it.
    Fell {
        /// The earlier hold.
        first: Hold,
        /// The later one.
        second: Hold,
    },
    /// One acquisition was answered with two tokens.
    Changed {
        /// The hold, with the first token.
        hold: Hold,
        /// The other token.
        token: u64,
    },
    /// A write was accepted after one with a higher token was.
    Stale {
        /// The write with the higher token.
        newer: Write,
        /// The one that came too late.
        write: Write,
    },
    /// A write was refused though none with a higher token can have been accepted before.
    WronglyRefused {
        /// The refused one.
        write: Write,
    },
}

/// The time in which one client believed to have a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The client's number.
    pub client: usize,
    /// The lock's name.
    pub name: String,
    /// The acquisition's owner.
    pub owner: String,
    /// Its token.
    pub token: u64,
    /// When the attempt that was granted began.
    pub asked: u64,
    /// When it was answered.
    pub from: u64,
    /// When the client stopped believing; not after `from` if it never began to.
    pub until: u64,
}

/// Everything that can't have been a lock, exclusion first.
pub(super) fn check(events: &[Event]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut names: BTreeMap<String, Vec<Hold>> = BTreeMap::new();
    for hold in holds(events, &mut findings) {
        names.entry(hold.name.clone()).or_default().push(hold);
    }
    for holds in names.values_mut() {
        holds.sort_by_key(|hold| hold.from);
        overlaps(holds, &mut findings);
        repeats(holds, &mut findings);
        falls_in_real_time(holds, &mut findings);
        falls_in_order_of_holding(holds, &mut findings);
    }
    writes::check(events, &mut findings);
    findings.sort_by_key(|finding| !matches!(finding, Finding::Overlap { .. }));
    findings
}

/// Every grant with the time it was believed in.
pub(super) fn holds(events: &[Event], findings: &mut Vec<Finding>) -> Vec<Hold> {
    let mut asked: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut open: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut holds: Vec<Hold> = Vec::new();
    for event in events {
        let key = (event.name.as_str(), event.owner.as_str());
        let held = open.get(&key).copied();
        match event.what {
            What::Claim => {
                asked.insert(key, event.at);
            }
            What::Granted { token, until } => match held {
                None => {
                    open.insert(key, holds.len());
                    holds.push(Hold {
                        client: event.client,
                        name: event.name.clone(),
                        owner: event.owner.clone(),
                        token,
                        asked: asked.get(&key).copied().unwrap_or(event.at),
                        from: event.at,
                        until,
                    });
                }
                Some(at) if holds[at].token != token => {
                    findings.push(Finding::Changed { hold: holds[at].clone(), token });
                }
                Some(_) => {}
            },
            // Past its deadline it is lost: never back to held.
            What::Renewed { until } => {
                if let Some(at) = held.filter(|at| event.at < holds[*at].until) {
                    holds[at].until = until;
                }
            }
            What::Lost | What::Release => {
                if let Some(at) = open.remove(&key) {
                    holds[at].until = holds[at].until.min(event.at);
                }
            }
            What::Held
            | What::Renewal
            | What::Write { .. }
            | What::Written
            | What::Refused
            | What::Unknown
            | What::Fault { .. } => {}
        }
    }
    holds
}

impl Hold {
    /// Whether the grant came before it was over.
    #[must_use]
    pub fn was_believed(&self) -> bool {
        self.from < self.until
    }
}

fn overlaps(by_start: &[Hold], findings: &mut Vec<Finding>) {
    let mut longest: Option<&Hold> = None;
    for second in by_start.iter().filter(|hold| hold.was_believed()) {
        if let Some(first) = longest.filter(|first| second.from < first.until) {
            findings.push(Finding::Overlap { first: first.clone(), second: second.clone() });
        }
        longest = match longest {
            Some(first) if first.until >= second.until => Some(first),
            _ => Some(second),
        };
    }
}

fn repeats(holds: &[Hold], findings: &mut Vec<Finding>) {
    let mut seen: BTreeMap<u64, &Hold> = BTreeMap::new();
    for second in holds {
        if let Some(first) = seen.insert(second.token, second) {
            findings.push(Finding::Repeated { first: first.clone(), second: second.clone() });
        }
    }
}

/// A grant that was answered before another was asked for has the lower token.
fn falls_in_real_time(by_answer: &[Hold], findings: &mut Vec<Finding>) {
    let mut by_question: Vec<&Hold> = by_answer.iter().collect();
    by_question.sort_by_key(|hold| hold.asked);
    let mut answered = by_answer.iter().peekable();
    let mut highest: Option<&Hold> = None;
    for second in by_question {
        while let Some(first) = answered.next_if(|first| first.from < second.asked) {
            highest = highest.filter(|highest| highest.token > first.token).or(Some(first));
        }
        if let Some(first) = highest.filter(|first| first.token > second.token) {
            findings.push(Finding::Fell { first: first.clone(), second: second.clone() });
        }
    }
}

fn falls_in_order_of_holding(by_start: &[Hold], findings: &mut Vec<Finding>) {
    let mut believed = by_start.iter().filter(|hold| hold.was_believed());
    let Some(mut first) = believed.next() else { return };
    for second in believed {
        if second.token < first.token {
            let fell = Finding::Fell { first: first.clone(), second: second.clone() };
            if !findings.contains(&fell) {
                findings.push(fell);
            }
        }
        first = second;
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, until) = (Duration::from_nanos(self.from), Duration::from_nanos(self.until));
        let (client, token) = (self.client, self.token);
        write!(f, "client {client} with token {token} from {from:?} until {until:?}")
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, token, from) = (self.client, self.token, Duration::from_nanos(self.from));
        write!(f, "client {client}'s write with token {token}, sent at {from:?}")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { first, second } => {
                write!(f, "{} is held twice: {first}, and {second}", first.name)
            }
            Self::Repeated { first, second } => {
                write!(f, "{} repeats a token: {first}, and {second}", first.name)
            }
            Self::Fell { first, second } => {
                write!(f, "{} has a token that fell: {first}, then {second}", first.name)
            }
            Self::Stale { newer, write } => {
                write!(f, "{} took a stale write: {newer}, then {write}", write.name)
            }
            Self::WronglyRefused { write } => {
                write!(f, "{} refused a write that nothing forbids: {write}", write.name)
            }
            Self::Changed { hold, token } => {
                write!(f, "{} answered one owner twice: {hold}, and token {token}", hold.name)
            }
        }
    }
}
