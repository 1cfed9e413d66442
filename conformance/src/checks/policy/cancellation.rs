//! Every public future of the facade, dropped at each of its polls, while the store answers ok,
//! with an error, late or never. Whatever happens, the name is cleaned up before its TTL is over.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold::{Guard, Locks};
use leasehold_api::{Backend, ErrorKind, Instant, Waking};

use super::super::steps::{now, release, take};
use super::steps::falls_free;
use crate::bench::Bench;
use crate::cancel::{Polled, drop_after, drop_woken};
use crate::scripted::{Delay, Effect, Landing, Scripted, Step, Verb};
use crate::table::checks;
use crate::verdict::{Failure, Verdict};

checks! { Cancellation:
    f7_dropped_try_leaves_nothing [policy], "8.1, D4.5", "try_acquire of a free name, dropped at each poll, over every kind of answer";
    f7_dropped_acquire_leaves_nothing [policy], "8.1, D4.5", "acquire of a free name, likewise";
    f8_dropped_wait_leaves_nothing [policy], "8.1, D4.5, 6.6", "acquire of a held name, likewise";
    f8_dropped_wait_behind_a_guard_leaves_nothing [policy], "8.1, D4.5, 7.4", "acquire behind a guard of the same client that hands over, likewise";
    f9_c55_dropped_release_is_finished [policy], "8.1, D3.2", "release, likewise";
    f9_c55_dropped_release_with_a_waiter_is_finished [policy], "8.1, D3.2, 7.4", "release while another task waits, likewise; the waiter is served";
    dropped_use_leaves_the_guard_held [policy], "8.1", "lost and run, dropped, leave the guard as it was";
    dropped_close_is_finished [policy], "8.1, D4.5", "close, likewise";
}

const MOST_POLLS: usize = 40;
/// The lock's TTL, in those of the bench.
const TTLS: u32 = 3;

/// One kind of answer for the first call of some verbs.
fn answers(bench: &Bench) -> Vec<Step> {
    let delay = || Delay::For(bench.ttl().get() / 5);
    let long = || Delay::For(bench.ttl().get() / 2);
    vec![
        Step::Ok,
        Step::Error(ErrorKind::Unreachable, Effect::Not),
        Step::Error(ErrorKind::Indeterminate, Effect::Not),
        Step::Error(ErrorKind::Indeterminate, Effect::Done),
        Step::Error(ErrorKind::Refused, Effect::Not),
        Step::Late(delay(), Landing::Before),
        Step::Late(delay(), Landing::After),
        Step::Late(delay(), Landing::Surely),
        Step::Late(long(), Landing::Surely),
        Step::Never(Effect::Not),
        Step::Never(Effect::Done),
    ]
}

/// What one run works with: a facade of its own, and a client beside it.
struct Run<'a> {
    bench: &'a Bench,
    scripted: Scripted,
    locks: Locks,
    beside: Arc<dyn Backend>,
    name: leasehold_api::LockName,
    step: Step,
    start: Instant,
    polls: usize,
    woken: bool,
}

impl Run<'_> {
    fn lock(&self) -> Result<leasehold::Lock, Failure> {
        self.bench.lock(&self.locks, &self.name, TTLS)
    }

    fn script(&self, verbs: &[Verb]) {
        for verb in verbs {
            self.scripted.next(*verb, [self.step.clone()]);
        }
    }

    /// Drops a future after its last poll, or when it is woken once more.
    async fn dropped<T>(&self, future: impl Future<Output = T>) -> Polled<T> {
        match self.woken {
            false => drop_after(self.polls, future).await,
            true => drop_woken(self.polls, future).await,
        }
    }

    /// The name is freed by a clean-up, before the TTL would free it: the first may wait for a
    /// third of the TTL, and what landed after it is freed by the second, a third later.
    async fn is_freed(&self) -> Verdict {
        let client = &*self.beside;
        let ttl = self.bench.ttls(TTLS).get();
        let mut cleaned = self.start.saturating_add(ttl * 4 / 5);
        if client.profile().waking == Waking::Time {
            // A waiter that was to get it asks once more within a third of the TTL.
            cleaned = cleaned.saturating_add(ttl / 3);
        }
        falls_free(self.bench, client, &self.name, cleaned)
            .await
            .map_err(|failure| Failure::failed(format!("{self:?}: {}", failure.why())))
    }
}

impl std::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let then = if self.woken { ", when woken" } else { "" };
        write!(f, "{:?}, dropped after {} polls{then}", self.step, self.polls)
    }
}

type Ends<'a> = Pin<Box<dyn Future<Output = Result<bool, Failure>> + Send + 'a>>;

/// Runs `one` for every kind of answer and every number of polls, until a run says that its
/// future ended.
async fn at_each_poll(bench: &Bench, one: for<'a> fn(&'a Run<'_>) -> Ends<'a>) -> Verdict {
    let [inner, beside] = bench.clients().await?;
    let kinds = answers(bench).into_iter().flat_map(|step| [(step.clone(), false), (step, true)]);
    let kinds = kinds.map(|(step, woken)| {
        let (inner, beside) = (inner.clone(), beside.clone());
        async move {
            for polls in 0..MOST_POLLS {
                let scripted = Scripted::new(inner.clone());
                let locks = Locks::with_backend(Arc::new(scripted.clone()));
                let (step, name, beside) = (step.clone(), bench.name(), beside.clone());
                let start = now(&*beside);
                let run = Run { bench, scripted, locks, beside, name, step, start, polls, woken };
                if one(&run).await? {
                    return Ok(());
                }
            }
            Err(Failure::failed(format!("{step:?}: no end after {MOST_POLLS} polls")))
        }
    });
    // Each is polled only when it is woken itself: the polls are counted.
    let mut kinds: FuturesUnordered<_> = kinds.collect();
    while let Some(ended) = kinds.next().await {
        ended?;
    }
    Ok(())
}

async fn f7_dropped_try_leaves_nothing(bench: &Bench) -> Verdict {
    at_each_poll(bench, |run| {
        Box::pin(async move {
            run.script(&[Verb::Acquire, Verb::Release]);
            let lock = run.lock()?;
            let polled = run.dropped(lock.try_acquire()).await;
            let ended = matches!(polled, Polled::Ended(_));
            drop(polled);
            run.is_freed().await?;
            Ok(ended)
        })
    })
    .await
}

async fn f7_dropped_acquire_leaves_nothing(bench: &Bench) -> Verdict {
    at_each_poll(bench, |run| {
        Box::pin(async move {
            run.script(&[Verb::Acquire, Verb::Release]);
            let lock = run.lock()?;
            let wait = run.bench.ttls(10).get();
            let polled = run.dropped(lock.acquire_within(wait)).await;
            let ended = matches!(polled, Polled::Ended(_));
            drop(polled);
            run.is_freed().await?;
            Ok(ended)
        })
    })
    .await
}

async fn f8_dropped_wait_leaves_nothing(bench: &Bench) -> Verdict {
    at_each_poll(bench, |run| {
        Box::pin(async move {
            let holder = take(&*run.beside, &run.bench.long_claim(&run.name, 60)).await?;
            let step = run.step.clone();
            // The second one: the first finds the name held, the second queues.
            run.scripted.next(Verb::Acquire, [Step::Ok, step.clone()]);
            run.scripted.next(Verb::Release, [step]);
            let lock = run.lock()?;
            let wait = run.bench.ttl().get();
            let polled = run.dropped(lock.acquire_within(wait)).await;
            let ended = matches!(polled, Polled::Ended(_));
            drop(polled);
            release(&*run.beside, &holder.ticket()).await?;
            run.is_freed().await?;
            Ok(ended)
        })
    })
    .await
}

async fn f8_dropped_wait_behind_a_guard_leaves_nothing(bench: &Bench) -> Verdict {
    at_each_poll(bench, |run| {
        Box::pin(async move {
            let guard = run.lock()?.acquire().await?;
            run.script(&[Verb::HandOver, Verb::Release]);
            let lock = run.lock()?;
            let waits = lock.acquire_within(run.bench.ttls(10).get());
            let releases = async {
                tokio::task::yield_now().await;
                guard.release().await
            };
            let (polled, _) = tokio::join!(run.dropped(waits), releases);
            let ended = matches!(polled, Polled::Ended(_));
            drop(polled);
            run.is_freed().await?;
            Ok(ended)
        })
    })
    .await
}

async fn f9_c55_dropped_release_is_finished(bench: &Bench) -> Verdict {
    at_each_poll(bench, |run| {
        Box::pin(async move {
            let guard: Guard = run.lock()?.acquire().await?;
            run.script(&[Verb::Release]);
            let polled = run.dropped(guard.release()).await;
            run.is_freed().await?;
            Ok(matches!(polled, Polled::Ended(_)))
        })
    })
    .await
}

async fn f9_c55_dropped_release_with_a_waiter_is_finished(bench: &Bench) -> Verdict {
    at_each_poll(bench, |run| {
        Box::pin(async move {
            let guard = run.lock()?.acquire().await?;
            run.script(&[Verb::HandOver, Verb::Release]);
            let lock = run.lock()?;
            let wait = run.bench.ttls(20).get();
            let waiter = tokio::spawn(async move { lock.acquire_within(wait).await });
            tokio::task::yield_now().await;
            let polled = run.dropped(guard.release()).await;
            let next = waiter
                .await?
                .map_err(|error| Failure::failed(format!("{run:?}: the waiter: {error}")))?;
            drop(next);
            run.is_freed().await?;
            Ok(matches!(polled, Polled::Ended(_)))
        })
    })
    .await
}

async fn dropped_use_leaves_the_guard_held(bench: &Bench) -> Verdict {
    let locks = bench.locks().await?;
    let client = bench.client().await?;
    let name = bench.name();
    let guard = bench.lock(&locks, &name, 4)?.acquire().await?;
    for polls in 0..4 {
        let lost = drop_after(polls, guard.lost()).await;
        crate::ensure!(lost == Polled::Dropped, "a held guard is lost: {lost:?}");
        let works = async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        };
        drop_after(polls, guard.run(works)).await;
        crate::ensure!(guard.is_held(), "a dropped use ends the guard");
        super::super::steps::pass(&*client, bench.ttls(2).get()).await;
        super::super::steps::held(&*client, &bench.claim(&name)).await?;
    }
    guard.release().await?;
    Ok(())
}

async fn dropped_close_is_finished(bench: &Bench) -> Verdict {
    at_each_poll(bench, |run| {
        Box::pin(async move {
            let guard = run.lock()?.acquire().await?;
            run.script(&[Verb::Release]);
            let polled = run.dropped(run.locks.close()).await;
            if run.polls > 0 {
                super::steps::stays_lost(&guard)?;
            }
            drop(guard);
            run.is_freed().await?;
            Ok(matches!(polled, Polled::Ended(_)))
        })
    })
    .await
}
