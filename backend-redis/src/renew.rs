//! Renewals, in batches.

use futures_util::stream::{self, StreamExt};
use leasehold_api::{Error, Lease, Loss, Operation, Renewal, Validity};
use redis::Value;

use crate::answer;
use crate::error::{Effect, Failure, of_script};
use crate::keys::Keys;
use crate::link::{Answer, Link};
use crate::record::Head;
use crate::scripts::RENEW;

/// How many leases a script renews. The server does nothing else meanwhile (some 0.4 ms).
const BATCH: usize = 256;
/// How many scripts are under way: enough to hide the round trip, few enough for others to pass.
const AT_ONCE: usize = 4;

/// Renews leases, in batches that fail each for itself; each counts from its own start.
pub(crate) async fn renew_all(
    link: &Link,
    keys: &Keys,
    leases: &[Lease],
) -> Vec<Result<Renewal, Error>> {
    let batches: Vec<_> = leases.chunks(BATCH).map(|batch| renew(link, keys, batch)).collect();
    let mut renewals = Vec::with_capacity(leases.len());
    let mut answered = stream::iter(batches).buffered(AT_ONCE);
    while let Some(batch) = answered.next().await {
        renewals.extend(batch);
    }
    renewals
}

/// Renews leases that one script may touch (in a cluster: those of one tag).
async fn renew(link: &Link, keys: &Keys, leases: &[Lease]) -> Vec<Result<Renewal, Error>> {
    let failed = |failure: Failure| failure.into_error(Operation::Renew, Effect::Changes);
    match send(link, keys, leases).await {
        Ok(renewals) => renewals,
        Err(failure) => leases.iter().map(|_| Err(failed(failure.clone()))).collect(),
    }
}

async fn send(
    link: &Link,
    keys: &Keys,
    leases: &[Lease],
) -> Result<Vec<Result<Renewal, Error>>, Failure> {
    let mut call = RENEW.call_for_many(leases.len(), 3, 128);
    for lease in leases {
        call.part(keys.record(&lease.name));
    }
    for Lease { owner, token, ttl, .. } in leases {
        call.part(Head { owner: *owner, token: Some(*token) }).part(ttl.as_millis());
    }
    let Answer { value, from, .. } = link.script(&call, |_| ()).await?;
    let answers = answer::items(value)?;
    if answers.len() != leases.len() {
        return Err(answer::UNREADABLE);
    }
    let renewal = |(answer, lease): (Value, &Lease)| match answer {
        Value::Int(1) => Ok(Renewal::Renewed(Validity { remaining: lease.ttl.get(), from })),
        Value::Int(0) => Ok(Renewal::NotMine(Loss::Gone)),
        Value::Int(-1) => Ok(Renewal::NotMine(Loss::TakenOver)),
        Value::BulkString(text) => {
            Err(of_script(&String::from_utf8_lossy(&text), Operation::Renew))
        }
        _ => Err(answer::UNREADABLE.into_error(Operation::Renew, Effect::Changes)),
    };
    Ok(answers.into_iter().zip(leases).map(renewal).collect())
}
