//! Faults that need no store, or another runtime than a check has. Their numbers are those of
//! `docs/faults.md`.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Backend, Error, ErrorKind, LockName, Locks, Loss, Operation, Profile, Token};
use leasehold_api::{
    Acquired, Claim, Clock, Grant, Lease, Names, Released, Renewal, Ticket, TokioClock, Validity,
    async_trait,
};
use leasehold_memory::Memory;
use tokio::runtime::{Builder, Runtime};

const SECOND: Duration = Duration::from_secs(1);

/// What a driver answers to every renewal.
#[derive(Debug, Clone, Copy)]
enum Answers {
    /// Good, but nothing remains.
    Spent,
    Gone,
    Error(ErrorKind),
    Silence,
}

/// A driver that grants everything, and renews as it is told.
#[derive(Debug)]
struct Renewing {
    answers: Answers,
    profile: Profile,
    renewals: AtomicUsize,
}

#[async_trait]
impl Backend for Renewing {
    async fn acquire(&self, claim: &Claim) -> Result<Acquired, Error> {
        let validity = Validity { remaining: claim.ttl.get(), from: TokioClock.now() };
        Ok(Acquired::Granted(Grant { token: Token::new(1).unwrap(), validity }))
    }
    async fn renew(&self, _: &Lease) -> Result<Renewal, Error> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        match self.answers {
            Answers::Spent => {
                let from = TokioClock.now();
                Ok(Renewal::Renewed(Validity { remaining: Duration::ZERO, from }))
            }
            Answers::Gone => Ok(Renewal::NotMine(Loss::Gone)),
            Answers::Error(kind) => Err(Error::new(kind, Operation::Renew, "as it was told")),
            Answers::Silence => std::future::pending().await,
        }
    }
    async fn release(&self, _: &Ticket, _: Option<Duration>) -> Result<Released, Error> {
        Ok(Released { outcome: Ok(()), settled: true })
    }
    async fn fencing_token(&self, _: &LockName) -> Result<Option<Token>, Error> {
        Ok(None)
    }
    async fn raise_tokens(&self, _: Names<'_>, _: Token) -> Result<(), Error> {
        Ok(())
    }
    fn profile(&self) -> &Profile {
        &self.profile
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TokioClock)
    }
}

#[tokio::test(start_paused = true)]
async fn c118_spent_gone_failing_and_silent_renewals_are_a_loss_in_time() {
    for answers in [
        Answers::Spent,
        Answers::Gone,
        Answers::Error(ErrorKind::Unreachable),
        Answers::Error(ErrorKind::Unclassified),
        Answers::Silence,
    ] {
        let profile = Profile::new("renewing");
        let driver = Arc::new(Renewing { answers, profile, renewals: AtomicUsize::new(0) });
        let locks = Locks::with_backend(driver.clone());
        let start = tokio::time::Instant::now();
        let guard = locks.lock("n").unwrap().ttl(SECOND).acquire().await.unwrap();
        let loss = guard.lost().await;
        let took = start.elapsed();
        assert!(took < SECOND, "{answers:?}: lost after {took:?}");
        assert!(!guard.is_held() && guard.token().is_err(), "{answers:?}");
        if matches!(answers, Answers::Gone) {
            assert_eq!(loss, Loss::Gone);
            assert!(took <= SECOND / 2, "{answers:?}: lost after {took:?}");
        }
        let renewals = driver.renewals.load(Ordering::Relaxed);
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(driver.renewals.load(Ordering::Relaxed), renewals, "{answers:?}");
        assert!(!guard.is_held(), "{answers:?}");
    }
}

fn runtimes() -> [Runtime; 2] {
    let one = Builder::new_current_thread().enable_all().build().unwrap();
    let many = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    [one, many]
}

#[test]
fn c133_nothing_of_a_client_keeps_its_runtime_after_the_last_release() {
    for runtime in runtimes() {
        let locks = runtime.block_on(async {
            let locks = Locks::with_backend(Arc::new(Memory::new()));
            let guard = locks.lock("n").unwrap().ttl(30 * SECOND).acquire().await.unwrap();
            guard.release().await.unwrap();
            locks
        });
        let start = Instant::now();
        // It waits for every task that can't be stopped.
        drop(runtime);
        assert!(start.elapsed() < SECOND, "the runtime took {:?} to end", start.elapsed());
        drop(locks);
    }
}

#[test]
fn c157_guards_of_tasks_that_end_with_their_runtime_do_not_panic() {
    for runtime in runtimes() {
        let store = Memory::new();
        runtime.block_on(async {
            let locks = Locks::with_backend(Arc::new(store.clone()));
            let (held, all_held) = tokio::sync::oneshot::channel();
            let first = locks.clone();
            tokio::spawn(async move {
                let lock = first.lock("n").unwrap().ttl(SECOND / 5);
                let guard = lock.acquire().await.unwrap();
                held.send(()).unwrap();
                guard.run(std::future::pending::<()>()).await
            });
            all_held.await.unwrap();
            // One waits when the runtime ends.
            tokio::spawn(async move { locks.lock("n").unwrap().acquire_unbounded().await });
            tokio::task::yield_now().await;
        });
        let start = Instant::now();
        drop(runtime);
        assert!(start.elapsed() < SECOND, "the runtime took {:?} to end", start.elapsed());
        let [runtime, _] = runtimes();
        runtime.block_on(async {
            let locks = Locks::with_backend(Arc::new(store));
            drop(locks.lock("n").unwrap().acquire_within(2 * SECOND).await.unwrap());
        });
    }
}

#[test]
fn c159_client_is_dropped_within_runtimes_of_both_kinds_at_once() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let locks = Locks::with_backend(Arc::new(Memory::new()));
            let guard = locks.lock("n").unwrap().acquire().await.unwrap();
            let lost = guard.lost_token();
            // In the client's own news: a task that the loss wakes has the last handles.
            let told = tokio::spawn({
                let closing = locks.clone();
                async move {
                    lost.cancelled().await;
                    let start = Instant::now();
                    drop((closing, guard));
                    start.elapsed()
                }
            });
            locks.close().await.unwrap();
            drop(locks);
            let took = told.await.unwrap();
            assert!(took < Duration::from_millis(100), "dropping a client took {took:?}");
        });
    }
}
