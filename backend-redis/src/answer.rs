//! What the scripts answer.

use std::time::Duration;

use leasehold_api::{Holder, Loss, Token};
use redis::Value;

use crate::error::Failure;
use crate::record::{self, Record};

pub(crate) const UNREADABLE: Failure = Failure::Answer("the server's answer can't be read");

/// A granted claim.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) token: Token,
    /// What is left of it, where it was granted before.
    pub(crate) left: Option<Duration>,
}

/// The answer of `acquire.lua`.
#[derive(Debug)]
pub(crate) enum Acquired {
    Granted(Granted),
    Held { holder: Option<Holder>, free_in: Option<Duration> },
}

/// The answer of `hand_over.lua`.
#[derive(Debug)]
pub(crate) enum HandedOver {
    Granted(Granted),
    NotMine(Loss),
    Yielded,
}

pub(crate) fn acquired(value: Value) -> Result<Acquired, Failure> {
    if let Some(token) = parse(&value) {
        return Ok(Acquired::Granted(Granted { token, left: None }));
    }
    let items = items(value)?;
    match (items.first().and_then(number), &*items) {
        (Some(1), _) => granted_before(&items).map(Acquired::Granted),
        (Some(0), [_, Value::BulkString(text), left]) => {
            let left = number(left).ok_or(UNREADABLE)?;
            let free_in = record::remaining(left);
            let holder = match record::read(text, left) {
                Record::Held(holder) => Some(holder),
                Record::Closed | Record::Foreign => None,
            };
            Ok(Acquired::Held { holder, free_in })
        }
        _ => Err(UNREADABLE),
    }
}

pub(crate) fn handed_over(value: Value) -> Result<HandedOver, Failure> {
    if let Some(token) = parse(&value) {
        return Ok(HandedOver::Granted(Granted { token, left: None }));
    }
    let items = items(value)?;
    match items.first().and_then(number) {
        Some(1) => granted_before(&items).map(HandedOver::Granted),
        Some(2) => Ok(HandedOver::Yielded),
        Some(0) => Ok(HandedOver::NotMine(Loss::Gone)),
        Some(-1) => Ok(HandedOver::NotMine(Loss::TakenOver)),
        _ => Err(UNREADABLE),
    }
}

/// A counter, where there is one.
pub(crate) fn token(value: Value) -> Result<Option<Token>, Failure> {
    match value {
        Value::Nil => Ok(None),
        value => parse(&value).map(Some).ok_or(UNREADABLE),
    }
}

pub(crate) fn items(value: Value) -> Result<Vec<Value>, Failure> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(UNREADABLE),
    }
}

pub(crate) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

fn granted_before(items: &[Value]) -> Result<Granted, Failure> {
    let token = items.get(1).and_then(parse).ok_or(UNREADABLE)?;
    // A record without expiry (a naive client's doing) is mine for the claim's TTL at least.
    let left = items.get(2).and_then(number).and_then(record::remaining);
    Ok(Granted { token, left })
}

fn parse(value: &Value) -> Option<Token> {
    match value {
        Value::BulkString(text) => Token::new(std::str::from_utf8(text).ok()?.parse().ok()?).ok(),
        _ => None,
    }
}
