//! Every public future of the facade that asks the store, dropped at each of its polls, while the
//! link to the store holds or swallows what passes. Once the link is healthy again, nothing stays
//! locked past its TTL.

use std::pin::Pin;

use futures_util::stream::{FuturesUnordered, TryStreamExt};
use leasehold::{Guard, Lock, Locks};
use leasehold_api::{Lease, LockName};

use super::super::steps::{now, release, take};
use super::steps::falls_free;
use crate::bench::Bench;
use crate::cancel::drop_after;
use crate::subject::Link;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Cancellation:
    dropped_over_held_answers_leaves_nothing [policy, private], "8.1, D4.5", "each public future, dropped at each poll, over a link that holds all answers";
    dropped_over_lost_answers_leaves_nothing [policy, private], "8.1, D4.5", "likewise over a link that swallows all answers";
    dropped_over_held_requests_leaves_nothing [policy, private], "8.1, D4.5", "likewise over a link that holds all requests, which then land late";
    dropped_over_a_black_hole_leaves_nothing [policy, private], "8.1, D4.5", "likewise over a link that swallows everything";
}

const MOST_POLLS: usize = 5;
/// The locks' TTL, in those of the bench.
const TTLS: u32 = 3;

/// A public future, and what there is before the link turns bad.
enum Call {
    Try(Lock),
    Acquire(Lock),
    /// Somebody beside holds the name.
    Wait(Lock, Lease),
    WaitBehind(Lock, Guard),
    Release(Guard),
    ReleaseBefore(Guard, Lock),
    Close(Locks, Guard),
}

const CALLS: [&str; 7] =
    ["try", "acquire", "wait", "wait behind", "release", "release before", "close"];

impl Call {
    async fn prepare(bench: &Bench, what: &str, name: &LockName) -> Result<Self, Failure> {
        let locks = Locks::with_backend(bench.store().connect_by_link().await?);
        let lock = bench.lock(&locks, name, TTLS)?.wait(bench.ttl().get());
        Ok(match what {
            "try" => Self::Try(lock),
            "acquire" => Self::Acquire(lock),
            "wait" => {
                let beside = bench.client().await?;
                Self::Wait(lock, take(&*beside, &bench.long_claim(name, 60)).await?)
            }
            "wait behind" => Self::WaitBehind(lock.clone(), lock.acquire().await?),
            "release" => Self::Release(lock.acquire().await?),
            "release before" => Self::ReleaseBefore(lock.acquire().await?, lock),
            "close" => Self::Close(locks, lock.acquire().await?),
            other => return Err(Failure::failed(format!("no such call: {other}"))),
        })
    }

    /// Runs the future for so many polls. Answers what somebody beside still holds.
    async fn drop_after(self, polls: usize) -> Option<Lease> {
        match self {
            Self::Try(lock) => drop(drop_after(polls, lock.try_acquire()).await),
            Self::Acquire(lock) => drop(drop_after(polls, lock.acquire()).await),
            Self::Wait(lock, lease) => {
                drop(drop_after(polls, lock.acquire()).await);
                return Some(lease);
            }
            Self::WaitBehind(lock, guard) => {
                let releases = async {
                    tokio::task::yield_now().await;
                    let _ = guard.release().await; // the link decides what it says
                };
                drop(tokio::join!(drop_after(polls, lock.acquire()), releases));
            }
            Self::Release(guard) => drop(drop_after(polls, guard.release()).await),
            Self::ReleaseBefore(guard, lock) => {
                let waits = async {
                    tokio::task::yield_now().await;
                    drop_after(polls, guard.release()).await
                };
                drop(tokio::join!(lock.acquire(), waits));
            }
            Self::Close(locks, guard) => {
                drop(drop_after(polls, locks.close()).await);
                drop(guard);
            }
        }
        None
    }
}

type Run<'a> = Pin<Box<dyn Future<Output = Result<Option<Lease>, Failure>> + Send + 'a>>;

async fn over(bench: &Bench, link: Link) -> Verdict {
    let beside = bench.client().await?;
    let mut names = Vec::new();
    let mut runs: FuturesUnordered<Run<'_>> = FuturesUnordered::new();
    for what in CALLS {
        for polls in 0..=MOST_POLLS {
            let name = bench.name();
            let call = Call::prepare(bench, what, &name).await?;
            runs.push(Box::pin(async move { Ok(call.drop_after(polls).await) }));
            names.push((name, what, polls));
        }
    }
    bench.store().link(link).await?;
    let mut besides = Vec::new();
    while let Some(lease) = runs.try_next().await? {
        besides.extend(lease);
    }
    bench.store().link(Link::Healthy).await?;
    // A claim that was held on its way lands now, and lives for one TTL at most.
    let latest = now(&*beside).saturating_add(bench.ttls(TTLS).get());
    for lease in besides {
        release(&*beside, &lease.ticket()).await?;
    }
    for (name, what, polls) in names {
        falls_free(bench, &*beside, &name, latest).await.map_err(|failure| {
            let why = failure.why();
            Failure::failed(format!("{what}, dropped after {polls} polls over {link:?}: {why}"))
        })?;
    }
    Ok(())
}

async fn dropped_over_held_answers_leaves_nothing(bench: &Bench) -> Verdict {
    over(bench, Link::AnswersHeld).await
}

async fn dropped_over_lost_answers_leaves_nothing(bench: &Bench) -> Verdict {
    over(bench, Link::AnswersLost).await
}

async fn dropped_over_held_requests_leaves_nothing(bench: &Bench) -> Verdict {
    over(bench, Link::RequestsHeld).await
}

async fn dropped_over_a_black_hole_leaves_nothing(bench: &Bench) -> Verdict {
    over(bench, Link::Blackholed).await
}
