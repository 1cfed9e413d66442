//! What an operator asks: who holds, and an end to it.

use std::collections::BTreeMap;

use leasehold_api::{Error, ErrorKind, Holder, LockName, Operation, Token};
use redis::{ToRedisArgs, Value};

use crate::answer;
use crate::driver::{NAME, Redis};
use crate::error::{Effect, Failure};
use crate::link::Link;
use crate::record::{self, Record};
use crate::scripts::{EVICT, INSPECT};

/// How many keys the server walks over a step of a list; it serves others between steps.
const STEP: usize = 512;

impl Redis {
    pub(crate) async fn inspect_name(&self, name: &LockName) -> Result<Option<Holder>, Error> {
        let record = self.keys.record(name);
        match records(&self.link, &[record]).await.map_err(looking)?.pop() {
            None | Some(None | Some(Record::Closed)) => Ok(None),
            Some(Some(Record::Held(holder))) => Ok(Some(holder)),
            Some(Some(Record::Foreign)) => {
                let message = "the lock's key holds something that is not leasehold's";
                let error = Error::new(ErrorKind::Refused, Operation::Inspect, message);
                Err(error.with_backend(NAME).with_code("FOREIGN"))
            }
        }
    }

    pub(crate) async fn list_names(
        &self,
        name_prefix: &str,
    ) -> Result<Vec<(LockName, Holder)>, Error> {
        let pattern = self.keys.pattern(name_prefix);
        // SCAN may answer a key twice.
        let mut found = BTreeMap::new();
        let mut cursor = "0".to_owned();
        loop {
            let wire = self.link.wire().await.map_err(listing)?;
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
            let (next, keys) = step(wire.command(&scan).await.map_err(unscanned)?)?;
            for keys in keys.chunks(STEP) {
                let records = records(&self.link, keys).await.map_err(listing)?;
                for (key, record) in keys.iter().zip(records) {
                    if let (Some(name), Some(Record::Held(holder))) = (self.keys.name(key), record)
                    {
                        found.insert(name, holder);
                    }
                }
            }
            if next == "0" {
                return Ok(found.into_iter().collect());
            }
            cursor = next;
        }
    }

    pub(crate) async fn evict_lease(&self, name: &LockName, token: Token) -> Result<bool, Error> {
        let failed = |failure: Failure| failure.into_error(Operation::Evict, Effect::Changes);
        let mut call = EVICT.call(3);
        call.part(self.keys.record(name)).part(self.keys.places(name));
        call.part(self.keys.entries(name)).part(token.get());
        let answer = self.link.script(&call, |_| ()).await.map_err(failed)?;
        match answer::number(&answer.value) {
            Some(ended) => Ok(ended == 1),
            None => Err(failed(answer::UNREADABLE)),
        }
    }
}

/// Reads records, each with what is left of it, in one step.
async fn records(link: &Link, keys: &[impl ToRedisArgs]) -> Result<Vec<Option<Record>>, Failure> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = INSPECT.call_for_many(keys.len(), 1, 64);
    call.part(keys);
    let answer = link.script(&call, |_| ()).await?;
    let items = answer::items(answer.value)?;
    let read = |pair: &[Value]| match pair {
        [Value::Nil, _] => Ok(None),
        [Value::BulkString(text), Value::Int(left)] => Ok(Some(record::read(text, *left))),
        _ => Err(answer::UNREADABLE),
    };
    items.chunks(2).map(read).collect()
}

fn step(value: Value) -> Result<(String, Vec<String>), Error> {
    let (cursor, keys) = redis::from_redis_value::<(String, Vec<Vec<u8>>)>(value)
        .map_err(|_| listing(answer::UNREADABLE))?;
    // A key that is no text is none of ours.
    Ok((cursor, keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect()))
}

fn looking(failure: Failure) -> Error {
    failure.into_error(Operation::Inspect, Effect::Reads)
}

fn listing(failure: Failure) -> Error {
    failure.into_error(Operation::List, Effect::Reads)
}

/// Locks need no SCAN, so a user may lack that alone.
fn unscanned(failure: Failure) -> Error {
    match failure {
        Failure::Call(source) if source.code() == Some("NOPERM") => {
            let message = "a list needs the command SCAN, which the user lacks (+scan)";
            let error = Error::new(ErrorKind::Auth, Operation::List, message).with_backend(NAME);
            error.with_code("NOPERM").with_source(source)
        }
        failure => listing(failure),
    }
}
