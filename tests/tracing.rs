//! What is told to `tracing` is what `docs/tracing.md` says, no more, no less, and no flood.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Lock, Locks, Loss};
use leasehold_conformance::Time;
use leasehold_conformance::scripted::{Delay, Effect, Gate, Landing, Scripted, Step, Verb};
use leasehold_conformance::told::{Documented, Event, Told, Value};
use leasehold_memory::Memory;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const DOCUMENT: &str = include_str!("../docs/tracing.md");

/// A client that does as it is told, one that does as it should, and a lock of each. The TTL is a
/// second.
struct Pair {
    scripted: Scripted,
    ours: Locks,
    theirs: Locks,
    lock: Lock,
    other: Lock,
}

impl Pair {
    fn new() -> Self {
        let store = Memory::new();
        let scripted = Scripted::new(Arc::new(store.clone()));
        let ours = Locks::with_backend(Arc::new(scripted.clone()));
        let theirs = Locks::with_backend(Arc::new(store));
        let lock = |locks: &Locks| locks.lock("n").unwrap().ttl(SECOND);
        Self { lock: lock(&ours), other: lock(&theirs), scripted, ours, theirs }
    }
}

fn paused() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Runs on paused time, and answers what was told.
fn told_in(work: impl Future<Output = ()>) -> Told {
    let told = Told::new();
    let _collected = tracing::subscriber::set_default(told.clone());
    paused().block_on(work);
    told
}

fn count(told: &Told, level: &str, says: &str) -> usize {
    let is = |event: &&Event| event.says == says && event.level.as_str() == level;
    told.events("leasehold").iter().filter(is).count()
}

fn unreachable() -> Step {
    Step::Error(ErrorKind::Unreachable, Effect::Not)
}

#[test]
fn every_documented_event_and_span_is_told_and_no_other() {
    let told = told_in(async {
        acquired_after_failures_and_released().await;
        waited_in_vain_and_dropped().await;
        handed_over_and_yielded().await;
        waited_for_itself().await;
        each_loss().await;
        clean_ups().await;
        closed_early().await;
    });
    let _collected = tracing::subscriber::set_default(told.clone());
    outlived_its_runtime();
    for (what, told) in [("event", told.events("leasehold")), ("span", told.spans("leasehold"))] {
        let documented = Documented::read(DOCUMENT, "leasehold", what);
        assert!(documented.denies(&told).is_empty(), "{:#?}", documented.denies(&told));
        assert!(documented.misses(&told).is_empty(), "{:#?}", documented.misses(&told));
    }
}

#[test]
fn each_field_is_explained() {
    let (_, fields) = DOCUMENT.split_once("\n## Fields\n").unwrap();
    let (fields, _) = fields.split_once("\n## ").unwrap();
    let explained: Vec<_> = fields.lines().filter_map(|line| line.split('|').nth(1)).collect();
    for (target, what) in [
        ("leasehold", "event"),
        ("leasehold", "span"),
        ("leasehold_redis", "event"),
        ("leasehold_etcd", "event"),
    ] {
        let documented = Documented::read(DOCUMENT, target, what);
        assert!(!documented.rows().is_empty(), "{target}: no {what}");
        for field in documented.rows().iter().flat_map(|row| &row.fields | &row.optional) {
            let name = format!("`{field}`");
            assert!(explained.iter().any(|names| names.contains(&name)), "{field}");
        }
    }
}

async fn acquired_after_failures_and_released() {
    let Pair { scripted, lock, .. } = Pair::new();
    scripted.next(Verb::Acquire, [unreachable(), unreachable()]);
    lock.acquire().await.unwrap().release().await.unwrap();
    let min_hold = lock.clone().min_hold(SECOND);
    min_hold.acquire().await.unwrap().release().await.unwrap();
    sleep(SECOND).await;
    scripted.next(
        Verb::Acquire,
        [Step::Late(Delay::Frozen(2 * SECOND, Time::Paused), Landing::Before)],
    );
    assert_eq!(lock.try_acquire().await.unwrap_err().kind(), ErrorKind::TooLate);
    sleep(2 * SECOND).await;
    scripted.next(Verb::Acquire, [const { Step::Never(Effect::Done) }; 4]);
    lock.acquire().await.unwrap().release().await.unwrap();
}

async fn waited_in_vain_and_dropped() {
    let Pair { lock, other, .. } = Pair::new();
    let guard = other.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(lock.acquire_within(SECOND).await.unwrap_err().kind(), ErrorKind::NotAcquired);
    timeout(SECOND, lock.acquire()).await.unwrap_err();
    guard.release().await.unwrap();
}

async fn handed_over_and_yielded() {
    let Pair { lock, other, .. } = Pair::new();
    let guard = lock.acquire().await.unwrap();
    let take = |lock: &Lock| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await?.release().await })
    };
    let mut tasks: Vec<_> = (0..18).map(|_| take(&lock)).collect();
    tasks.push(take(&other));
    sleep(SECOND).await;
    guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

async fn waited_for_itself() {
    let Pair { lock, .. } = Pair::new();
    let task = tokio::spawn(async move {
        let _guard = lock.acquire().await.unwrap();
        lock.acquire_within(SECOND).await.unwrap_err()
    });
    assert_eq!(task.await.unwrap().kind(), ErrorKind::NotAcquired);
}

async fn each_loss() {
    for loss in [Loss::Deadline, Loss::Gone, Loss::TakenOver, Loss::SessionGone, Loss::MaxHold] {
        assert_eq!(lose(loss).await, loss);
    }
    let Pair { ours, theirs, lock, .. } = Pair::new();
    let guard = lock.acquire().await.unwrap();
    theirs.backend().evict(guard.name(), guard.token().unwrap()).await.unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let guard = lock.acquire().await.unwrap();
    ours.close().await.unwrap();
    assert_eq!(guard.lost().await, Loss::Closed);
}

/// Holds a lock until it is lost in this way.
async fn lose(loss: Loss) -> Loss {
    let Pair { scripted, theirs, lock, other, .. } = Pair::new();
    let guard = match loss {
        Loss::MaxHold => lock.max_hold(SECOND).acquire().await.unwrap(),
        _ => lock.acquire().await.unwrap(),
    };
    match loss {
        Loss::Deadline => scripted.always(Verb::Renew, unreachable()),
        Loss::SessionGone => scripted.lose(guard.owner(), loss),
        Loss::Gone | Loss::TakenOver => {
            theirs.backend().evict(guard.name(), guard.token().unwrap()).await.unwrap();
        }
        _ => {}
    }
    let _next = match loss {
        Loss::TakenOver => Some(other.acquire().await.unwrap()),
        _ => None,
    };
    let why = guard.lost().await;
    sleep(3 * SECOND).await;
    why
}

async fn clean_ups() {
    let Pair { scripted, lock, .. } = Pair::new();
    // Mended by and by; then refused for good; then renewals fail for a while.
    let guard = lock.acquire().await.unwrap();
    scripted.next(Verb::Release, [unreachable(), unreachable(), unreachable()]);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unreachable);
    drop(lock.acquire().await.unwrap());
    let guard = lock.acquire().await.unwrap();
    scripted.always(Verb::Release, Step::Error(ErrorKind::Refused, Effect::Not));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Refused);
    sleep(3 * SECOND).await;
    scripted.heal();
    let guard = lock.acquire().await.unwrap();
    scripted.next(Verb::Renew, [unreachable(), unreachable()]);
    sleep(3 * SECOND).await;
    guard.release().await.unwrap();
}

async fn closed_early() {
    let Pair { scripted, ours, lock, .. } = Pair::new();
    let _guard = lock.acquire().await.unwrap();
    scripted.always(Verb::Release, Step::Never(Effect::Not));
    assert_eq!(ours.close().await.unwrap_err().kind(), ErrorKind::Indeterminate);
}

fn outlived_its_runtime() {
    let runtime = paused();
    let guard = runtime.block_on(async { Pair::new().lock.acquire().await.unwrap() });
    drop(runtime);
    drop(guard);
}

#[test]
fn renewals_that_fail_are_warned_of_once_and_so_is_the_end_of_it() {
    const GUARDS: usize = 5;
    let failing = |step: Step| {
        told_in(async move {
            let Pair { scripted, ours, .. } = Pair::new();
            let mut guards = Vec::new();
            for name in 0..GUARDS {
                let lock = ours.lock(&name.to_string()).unwrap().ttl(SECOND);
                guards.push(lock.acquire().await.unwrap());
            }
            for _ in 0..2 {
                scripted.made(Verb::Renew, scripted.count(Verb::Renew) + GUARDS).await;
                scripted.always(Verb::Renew, step.clone());
                sleep(SECOND * 3 / 4).await;
                scripted.heal();
                sleep(3 * SECOND).await;
            }
            for guard in guards {
                guard.release().await.unwrap();
            }
        })
    };
    for step in [unreachable(), Step::Never(Effect::Not)] {
        let told = failing(step);
        assert_eq!(count(&told, "WARN", "renewals fail"), 2);
        assert_eq!(count(&told, "INFO", "renewals succeed again"), 2);
        assert_eq!(count(&told, "DEBUG", "a renewal fails"), 2 * GUARDS);
        assert_eq!(count(&told, "WARN", "lost"), 0);
    }
}

#[test]
fn renewals_that_are_always_slow_are_warned_of_once() {
    let told = told_in(async {
        let Pair { scripted, lock, .. } = Pair::new();
        let guard = lock.acquire().await.unwrap();
        scripted.always(Verb::Renew, Step::Late(Delay::For(SECOND / 4), Landing::Before));
        sleep(20 * SECOND).await;
        guard.release().await.unwrap();
    });
    assert_eq!(count(&told, "WARN", "renewals fail"), 1);
    assert_eq!(count(&told, "INFO", "renewals succeed again"), 0);
}

#[test]
fn each_loss_is_told_once_with_its_reason() {
    let told = told_in(async { assert_eq!(lose(Loss::SessionGone).await, Loss::SessionGone) });
    let lost: Vec<_> = told.events("leasehold").into_iter().filter(|e| e.says == "lost").collect();
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].fields["reason"], Value::Text(Loss::SessionGone.to_string()));
}

#[test]
fn an_outage_is_no_flood_above_trace() {
    let told = told_in(async {
        let Pair { scripted, lock, .. } = Pair::new();
        let guard = lock.acquire().await.unwrap();
        for verb in [Verb::Acquire, Verb::Renew, Verb::Release] {
            scripted.always(verb, unreachable());
        }
        let waits = lock.acquire_within(600 * SECOND);
        let (waited, loss) = tokio::join!(waits, guard.lost());
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::Unreachable);
        assert_eq!(loss, Loss::Deadline);
    });
    let events = told.events("leasehold");
    let above_trace: Vec<_> =
        events.iter().filter(|event| event.level.as_str() != "TRACE").collect();
    assert!(above_trace.len() < 20, "{above_trace:#?}");
    assert!(events.len() > 500, "the outage was short: {} events", events.len());
}

#[test]
fn what_goes_well_is_told_below_info() {
    let told = told_in(async {
        handed_over_and_yielded().await;
        waited_in_vain_and_dropped().await;
    });
    let events = told.events("leasehold");
    let loud = events.iter().find(|event| !["DEBUG", "TRACE"].contains(&event.level.as_str()));
    assert!(!events.is_empty() && loud.is_none(), "{loud:?}");
}

#[test]
fn a_guard_keeps_no_span_open_and_its_token_is_recorded() {
    let told = Told::new();
    let _collected = tracing::subscriber::set_default(told.clone());
    paused().block_on(async {
        let Pair { scripted, lock, .. } = Pair::new();
        let guard = lock.acquire().await.unwrap();
        let token = Value::Number(guard.token().unwrap().get());
        assert_eq!(told.spans("leasehold").last().unwrap().fields["token"], token);
        let waiter = tokio::spawn(async move { lock.acquire().await });
        sleep(SECOND).await;
        assert_eq!(told.open_spans("leasehold"), 1, "the waiter's");
        guard.release().await.unwrap();
        let guard = waiter.await.unwrap().unwrap();
        sleep(10 * SECOND).await;
        assert_eq!(told.open_spans("leasehold"), 0);
        // A release that nobody awaits has its span in the background.
        let gate = Gate::closed();
        scripted.next(Verb::Release, [Step::Late(Delay::Until(gate.clone()), Landing::Before)]);
        drop(guard);
        scripted.made(Verb::Release, 1).await;
        assert_eq!(told.open_spans("leasehold"), 1, "the release's");
        gate.open();
        sleep(SECOND).await;
        assert_eq!(told.open_spans("leasehold"), 0);
    });
}

/// Not all that is told is ours to bound: an error is told with its sources.
#[test]
fn errors_are_told_as_errors() {
    let told = told_in(async {
        let Pair { scripted, lock, .. } = Pair::new();
        scripted.always(Verb::Acquire, Step::Error(ErrorKind::Auth, Effect::Not));
        let error: Error = lock.try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth);
    });
    let events = told.events("leasehold");
    let refused = events.iter().find(|event| event.says == "not acquired").unwrap();
    assert_eq!(
        refused.fields["error"],
        Value::Text("scripted: acquire: as it was told".to_owned())
    );
}
