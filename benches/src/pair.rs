//! An uncontended pair: acquire and release of a name that nobody else wants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use leasehold::Locks;
use leasehold_conformance::Failure;

use crate::figures::processor;
use crate::raw::Raw;

/// What one slice did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) pairs: u64,
    /// Pairs a second.
    pub(crate) speed: f64,
    /// Processor time of this client a pair, in seconds.
    pub(crate) processor: f64,
}

/// The lock's slice: each task with a name of its own.
pub(crate) async fn by_lock(
    locks: &Locks,
    tasks: usize,
    length: Duration,
) -> Result<Rate, Failure> {
    slice(tasks, length, |task, until| {
        let (locks, name) = (locks.clone(), name(task));
        async move {
            let mut pairs = 0;
            while Instant::now() < until {
                locks.lock(&name)?.acquire().await?.release().await?;
                pairs += 1;
            }
            Ok(pairs)
        }
    })
    .await
}

/// The raw limit's slice.
pub(crate) async fn by_raw(
    raw: &Arc<Raw>,
    tasks: usize,
    length: Duration,
) -> Result<Rate, Failure> {
    slice(tasks, length, |task, until| {
        let (raw, mut lock) = (raw.clone(), raw.lock(task, &name(task)));
        async move {
            let mut pairs = 0;
            while Instant::now() < until {
                raw.pair(&mut lock).await?;
                pairs += 1;
            }
            Ok(pairs)
        }
    })
    .await
}

fn name(task: usize) -> String {
    format!("order:{task:04}")
}

/// Runs tasks until the slice is over.
async fn slice<F>(
    tasks: usize,
    length: Duration,
    task: impl Fn(usize, Instant) -> F,
) -> Result<Rate, Failure>
where
    F: Future<Output = Result<u64, Failure>> + Send + 'static,
{
    let (began, used) = (Instant::now(), processor());
    let running = (0..tasks).map(|number| tokio::spawn(task(number, began + length)));
    let mut pairs = 0;
    for done in try_join_all(running).await? {
        pairs += done?;
    }
    let (took, used) = (began.elapsed().as_secs_f64(), (processor() - used).as_secs_f64());
    Ok(Rate { pairs, speed: pairs as f64 / took, processor: used / pairs.max(1) as f64 })
}
