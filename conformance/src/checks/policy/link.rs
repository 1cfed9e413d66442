//! Every public future of the facade that asks the store, dropped at each of its polls, while the
//! link to the store holds or swallows what passes. Once the link is healthy again, nothing stays
//! locked past its TTL.

use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold::{Guard, Lock, Locks};
use leasehold_api::{Backend, ErrorKind, Lease, LockName};

use super::super::steps::{now, take};
use super::steps::falls_free;
use crate::bench::Bench;
use crate::cancel::{Polled, count_polls, drop_after};
use crate::effort::rounds;
use crate::subject::Link;
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Cancellation:
    f7_dropped_over_held_answers_leaves_nothing [policy, private], "8.1, D4.5", "each public future, dropped at each poll, over a link that holds all answers";
    f7_dropped_over_lost_answers_leaves_nothing [policy, private], "8.1, D4.5", "likewise over a link that swallows all answers";
    dropped_over_held_requests_leaves_nothing [policy, private], "8.1, D4.5", "likewise over a link that holds all requests, which then land late";
    dropped_over_a_black_hole_leaves_nothing [policy, private], "8.1, D4.5", "likewise over a link that swallows everything";
}

/// No future needs more polls to end, over whatever link.
const MOST_POLLS: usize = 60;
/// What never ends by itself is dropped after up to so many: once round its loop and on.
const POLLS_OF_THE_ENDLESS: usize = 8;
/// The locks' TTL, in those of the bench.
const TTLS: u32 = 3;

/// The public futures that ask the store, or work under what it granted.
#[derive(Debug, Clone, Copy)]
enum What {
    Try,
    Acquire,
    /// Waits without limit: it is only ever dropped.
    Unbounded,
    /// Somebody beside holds the name.
    Wait,
    WaitBehind,
    Run,
    Release,
    ReleaseBefore,
    Close,
}

const ALL: [What; 9] = [
    What::Try,
    What::Acquire,
    What::Unbounded,
    What::Wait,
    What::WaitBehind,
    What::Run,
    What::Release,
    What::ReleaseBefore,
    What::Close,
];

/// One such future, and what there is before the link turns bad.
struct Call {
    what: What,
    locks: Locks,
    lock: Lock,
    guard: Option<Guard>,
    /// What somebody beside holds.
    beside: Option<Lease>,
}

impl Call {
    async fn prepare(bench: &Bench, what: What, name: &LockName) -> Result<Self, Failure> {
        let locks = Locks::with_backend(bench.store().connect_by_link().await?);
        let lock = bench.lock(&locks, name, TTLS)?.wait(bench.ttl().get());
        let guard = match what {
            What::Try | What::Acquire | What::Unbounded | What::Wait => None,
            _ => Some(lock.acquire().await?),
        };
        let beside = match what {
            What::Wait => {
                let beside = bench.client().await?;
                Some(take(&*beside, &bench.long_claim(name, 60)).await?)
            }
            _ => None,
        };
        Ok(Self { what, locks, lock, guard, beside })
    }

    /// Polls the future at most so often, and drops it then. Answers how many polls it needed to
    /// end, if it did.
    async fn run(self, polls: usize) -> Option<usize> {
        let Self { what, locks, lock, guard, .. } = self;
        let held = || guard.expect("one was acquired");
        match what {
            What::Try => polled(polls, lock.try_acquire()).await,
            What::Acquire | What::Wait => polled(polls, lock.acquire()).await,
            What::Unbounded => polled(polls, lock.acquire_unbounded()).await,
            What::WaitBehind => {
                let guard = held();
                let releases = async {
                    tokio::task::yield_now().await;
                    let _ = guard.release().await; // the link decides what it says
                };
                tokio::join!(polled(polls, lock.acquire()), releases).0
            }
            What::Run => {
                let guard = held();
                polled(polls, guard.run(std::future::pending::<()>())).await
            }
            What::Release => polled(polls, held().release()).await,
            What::ReleaseBefore => {
                let guard = held();
                let releases = async {
                    tokio::task::yield_now().await;
                    polled(polls, guard.release()).await
                };
                tokio::join!(lock.acquire(), releases).1
            }
            What::Close => {
                let _guard = held();
                polled(polls, locks.close()).await
            }
        }
    }
}

async fn polled<T>(polls: usize, future: impl Future<Output = T>) -> Option<usize> {
    match drop_after(polls, count_polls(future)).await {
        Polled::Ended((needed, _)) => Some(needed),
        Polled::Dropped => None,
    }
}

/// How long the link is bad, and the clients live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until all futures have ended or were dropped, and their clients with them.
    AllEnded,
    /// For a quarter of a TTL, in which no call is given up, and the clients live on: what they
    /// leaked they would renew for ever.
    Quarter,
}

/// What was run, dropped after how many polls, on which name.
struct Done {
    _locks: Option<Locks>,
    what: What,
    polls: usize,
    name: LockName,
    needed: Option<usize>,
    beside: Option<Lease>,
}

/// Runs all these at once while the link is in this state; then heals it, and shows that each
/// name falls free.
async fn run_over(
    bench: &Bench,
    link: Link,
    until: Until,
    calls: impl IntoIterator<Item = (What, usize)>,
) -> Result<Vec<Done>, Failure> {
    let beside = bench.client().await?;
    let mut runs = FuturesUnordered::new();
    for (what, polls) in calls {
        let name = bench.name();
        let call = Call::prepare(bench, what, &name).await?;
        runs.push(async move {
            let (beside, locks) = (call.beside.clone(), call.locks.clone());
            let needed = call.run(polls).await;
            let locks = (until == Until::Quarter).then_some(locks);
            Done { _locks: locks, what, polls, name, needed, beside }
        });
    }
    bench.store().link(link).await?;
    let mut done = Vec::new();
    if until == Until::Quarter {
        let clock = beside.clock();
        let quarter = clock.sleep_until(clock.now().saturating_add(bench.ttls(TTLS).get() / 4));
        tokio::pin!(quarter);
        loop {
            tokio::select! {
                Some(run) = runs.next() => done.push(run),
                () = &mut quarter => break,
            }
        }
        bench.store().link(Link::Healthy).await?;
    }
    while let Some(run) = runs.next().await {
        done.push(run);
    }
    bench.store().link(Link::Healthy).await?;
    // A claim that was held on its way lands now, and lives for one TTL at most.
    let latest = now(&*beside).saturating_add(bench.ttls(TTLS).get());
    for lease in done.iter().filter_map(|done| done.beside.as_ref()) {
        release(&*beside, lease).await?;
    }
    for Done { what, polls, name, .. } in &done {
        falls_free(bench, &*beside, name, latest).await.map_err(|failure| {
            let why = failure.why();
            Failure::failed(format!("{what:?}, dropped after {polls} polls over {link:?}: {why}"))
        })?;
    }
    Ok(done)
}

/// Releases it, and asks again where many clients' requests land at once and no answer comes.
async fn release(client: &dyn Backend, lease: &Lease) -> Verdict {
    for _ in 0..5 {
        match client.release(&lease.ticket(), None).await {
            Err(error) if error.kind() == ErrorKind::Indeterminate => {}
            released => return released.map(drop).map_err(Failure::from),
        }
    }
    Err(Failure::failed(format!("the release of {} is never answered", lease.name)))
}

/// First to their end, which tells how many polls each needs; then dropped after each number of
/// polls below that.
async fn over(bench: &Bench, link: Link) -> Verdict {
    for _ in 0..rounds(1, 5) {
        let endless = |what: &What| matches!(what, What::Unbounded);
        let to_the_end = ALL.into_iter().filter(|what| !endless(what));
        let ended =
            run_over(bench, link, Until::AllEnded, to_the_end.map(|what| (what, MOST_POLLS)))
                .await?;
        let mut calls: Vec<_> =
            (0..=POLLS_OF_THE_ENDLESS).map(|polls| (What::Unbounded, polls)).collect();
        for Done { what, needed, .. } in ended {
            let Some(needed) = needed else {
                let why = format!("{what:?} did not end within {MOST_POLLS} polls over {link:?}");
                return Err(Failure::failed(why));
            };
            calls.extend((0..needed).map(|polls| (what, polls)));
        }
        run_over(bench, link, Until::AllEnded, calls.clone()).await?;
        run_over(bench, link, Until::Quarter, calls).await?;
    }
    Ok(())
}

async fn f7_dropped_over_held_answers_leaves_nothing(bench: &Bench) -> Verdict {
    over(bench, Link::AnswersHeld).await
}

async fn f7_dropped_over_lost_answers_leaves_nothing(bench: &Bench) -> Verdict {
    over(bench, Link::AnswersLost).await
}

async fn dropped_over_held_requests_leaves_nothing(bench: &Bench) -> Verdict {
    over(bench, Link::RequestsHeld).await
}

async fn dropped_over_a_black_hole_leaves_nothing(bench: &Bench) -> Verdict {
    over(bench, Link::Blackholed).await
}
