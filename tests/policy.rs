//! The caller's view of the policy, on paused time over the memory driver. The conformance suite
//! has the checks that count for every driver; here stands what needs no second driver.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{ErrorKind, Locks, Loss};
use leasehold_memory::Memory;
use tokio::time::{Instant, advance, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn two_clients() -> (Locks, Locks) {
    let store = Memory::new();
    (Locks::with_backend(Arc::new(store.clone())), Locks::with_backend(Arc::new(store)))
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_kept_alive_far_beyond_its_ttl_and_free_at_once_after_release() {
    let (a, b) = two_clients();
    let guard = a.lock("n").unwrap().ttl(SECOND).acquire().await.unwrap();
    for _ in 0..50 {
        sleep(Duration::from_millis(100)).await;
        assert!(guard.is_held());
        assert!(guard.remaining() > Duration::from_millis(500));
        assert!(b.lock("n").unwrap().try_acquire().await.unwrap().is_none());
    }
    let token = guard.token().unwrap();
    guard.release().await.unwrap();
    let next = b.lock("n").unwrap().try_acquire().await.unwrap().unwrap();
    assert!(next.token().unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_names_the_holder() {
    let (a, b) = two_clients();
    let guard = a.lock("n").unwrap().label("nightly").acquire().await.unwrap();
    let start = Instant::now();
    let error = b.lock("n").unwrap().acquire_within(3 * SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAcquired);
    assert_eq!(error.holder().unwrap().owner, guard.owner());
    assert!(error.to_string().contains("nightly"), "{error}");
    let waited = start.elapsed();
    assert!(waited >= 3 * SECOND && waited < 3 * SECOND + Duration::from_millis(20), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_the_waiter_of_another_client_at_once() {
    let (a, b) = two_clients();
    let guard = a.lock("n").unwrap().acquire().await.unwrap();
    let waiter = tokio::spawn(async move { b.lock("n")?.acquire().await });
    sleep(SECOND).await;
    let start = Instant::now();
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_millis(5));
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn local_waiters_get_the_lock_in_their_order_and_let_others_in_after_16() {
    let (a, b) = two_clients();
    let guard = a.lock("n").unwrap().acquire().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for i in 0..20 {
        let (lock, order) = (a.lock("n").unwrap(), order.clone());
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(i);
            guard.release().await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    let (lock, seen) = (b.lock("n").unwrap(), order.clone());
    tasks.push(tokio::spawn(async move {
        let guard = lock.acquire().await.unwrap();
        seen.lock().unwrap().push(100);
        guard.release().await.unwrap();
    }));
    sleep(SECOND).await;
    guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock().unwrap().clone();
    let local: Vec<_> = order.iter().copied().filter(|i| *i < 100).collect();
    assert_eq!(local, (0..20).collect::<Vec<_>>());
    assert_eq!(order.iter().position(|i| *i == 100), Some(16), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn run_stops_the_work_when_the_lock_is_evicted_and_says_why() {
    let (a, b) = two_clients();
    let guard = a.lock("n").unwrap().ttl(SECOND).acquire().await.unwrap();
    let token = guard.token().unwrap();
    assert!(b.backend().evict(guard.name(), token).await.unwrap());
    let start = Instant::now();
    let error = guard.run(std::future::pending::<()>()).await.unwrap_err();
    assert_eq!((error.kind(), error.loss()), (ErrorKind::Lost, Some(Loss::Gone)));
    assert!(start.elapsed() <= SECOND / 3 + Duration::from_millis(5));
    assert!(guard.lost_token().is_cancelled());
    let error = guard.release().await.unwrap_err();
    assert_eq!((error.kind(), error.loss()), (ErrorKind::Lost, Some(Loss::Gone)));
}

#[tokio::test(start_paused = true)]
async fn c156_dropped_guards_and_dropped_waits_leave_nothing() {
    let (a, b) = two_clients();
    drop(a.lock("n").unwrap().acquire().await.unwrap());
    let guard = b.lock("n").unwrap().acquire_within(SECOND).await.unwrap();
    let waiting = a.lock("n").unwrap();
    for _ in 0..10 {
        timeout(SECOND, waiting.acquire()).await.unwrap_err();
    }
    guard.release().await.unwrap();
    let start = Instant::now();
    drop(b.lock("n").unwrap().try_acquire().await.unwrap().unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn close_ends_guards_waits_and_later_calls() {
    let (a, b) = two_clients();
    let guard = a.lock("n").unwrap().acquire().await.unwrap();
    std::mem::forget(a.lock("forgotten").unwrap().acquire().await.unwrap());
    let other = b.lock("m").unwrap().acquire().await.unwrap();
    let lock = a.lock("m").unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(SECOND).await;
    a.close().await.unwrap();
    assert_eq!(guard.lost().await, Loss::Closed);
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    for name in ["n", "forgotten"] {
        drop(b.lock(name).unwrap().try_acquire().await.unwrap().unwrap());
    }
    assert_eq!(a.lock("n").unwrap_err().kind(), ErrorKind::Closed);
    a.close().await.unwrap();
    assert!(other.is_held());
}

#[tokio::test(start_paused = true)]
async fn f5_starved_executor_does_not_keep_a_lost_lock() {
    let (a, _b) = two_clients();
    let guard = a.lock("n").unwrap().ttl(SECOND).acquire().await.unwrap();
    // No task has run when the first look comes: the clock alone decides.
    advance(2 * SECOND).await;
    assert!(!guard.is_held());
    assert_eq!(guard.token().unwrap_err().loss(), Some(Loss::Deadline));
    assert_eq!(guard.remaining(), Duration::ZERO);
    sleep(SECOND).await;
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn f68_zero_and_endless_waits_neither_hang_nor_overflow() {
    let (a, b) = two_clients();
    let guard = a.lock("n").unwrap().acquire_within(Duration::ZERO).await.unwrap();
    let start = Instant::now();
    for locks in [&a, &b] {
        let error = locks.lock("n").unwrap().acquire_within(Duration::ZERO).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAcquired);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    let (endless, unbounded) = (a.lock("n").unwrap(), b.lock("n").unwrap());
    let endless = tokio::spawn(async move { endless.acquire_within(Duration::MAX).await });
    let unbounded = tokio::spawn(async move { unbounded.acquire_unbounded().await });
    sleep(1000 * SECOND).await;
    guard.release().await.unwrap();
    drop(endless.await.unwrap().unwrap());
    drop(unbounded.await.unwrap().unwrap());
}

#[test]
fn c157_guards_and_clients_outlive_their_runtime_without_a_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (locks, guard) = runtime.block_on(async {
        let locks = leasehold::connect("memory:outlive?ttl=200ms").await.unwrap();
        let guard = locks.lock("n").unwrap().acquire().await.unwrap();
        (locks, guard)
    });
    drop(runtime);
    assert!(guard.is_held());
    drop(guard);
    drop(locks);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let locks = leasehold::connect("memory:outlive").await.unwrap();
        drop(locks.lock("n").unwrap().acquire_within(SECOND).await.unwrap());
    });
}

#[tokio::test(start_paused = true)]
async fn debug_is_short_and_about_the_thing_itself() {
    let (a, _b) = two_clients();
    let lock = a.lock("n").unwrap();
    let guard = lock.acquire().await.unwrap();
    for text in [format!("{guard:?}"), format!("{lock:?}"), format!("{a:?}")] {
        assert!(text.len() < 300, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn f84_task_that_waits_for_itself_is_told_so() {
    let (a, _b) = two_clients();
    let guard = a.lock("n").unwrap().acquire().await.unwrap();
    let error = a.lock("n").unwrap().acquire_within(SECOND).await.unwrap_err();
    assert!(error.to_string().contains("another guard of this client"), "{error}");
    assert!(error.to_string().ends_with("; a lock is not re-entrant"), "{error}");
    let holder = error.holder().unwrap();
    assert_eq!(holder.owner, guard.owner());
    assert!(holder.remaining.unwrap() > SECOND);
    assert_eq!(error.lock(), Some(guard.name()));
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_this_client_is_told_as_one_of_another() {
    let (a, _b) = two_clients();
    let lock = a.lock("n").unwrap().label("web-3");
    let guard = lock.acquire().await.unwrap();
    let other = a.lock("n").unwrap();
    let waits = tokio::spawn(async move { other.acquire_within(SECOND).await });
    let error = waits.await.unwrap().unwrap_err();
    let holder = error.holder().unwrap();
    let metadata = holder.metadata.as_ref().unwrap();
    assert_eq!((holder.owner, metadata.pid), (guard.owner(), std::process::id()));
    assert_eq!(metadata.label.as_ref().unwrap().as_str(), "web-3");
    assert!(error.to_string().contains("label web-3"), "{error}");
    assert!(!error.to_string().contains("re-entrant"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn only_a_task_that_waits_for_itself_hears_of_reentrancy() {
    let (a, _b) = two_clients();
    let error = tokio::spawn(async move {
        let _guard = a.lock("n").unwrap().acquire().await.unwrap();
        a.lock("n").unwrap().acquire_within(SECOND).await.unwrap_err()
    });
    let error = error.await.unwrap().to_string();
    assert!(error.ends_with("this task held it itself; a lock is not re-entrant"), "{error}");
}

#[test]
#[should_panic(expected = "timer")]
fn a_runtime_without_time_is_told_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { drop(Locks::with_backend(Arc::new(Memory::new()))) });
}

#[test]
fn c57_guards_are_send_and_sync_and_not_clone() {
    fn shared<T: Send + Sync>() {}
    shared::<leasehold::Guard>();
    shared::<leasehold::Lock>();
    shared::<Locks>();
}

#[tokio::test(start_paused = true)]
async fn a_close_waits_for_the_release_at_the_end_of_a_max_hold() {
    let (a, b) = two_clients();
    let guard = a.lock("n").unwrap().ttl(30 * SECOND).max_hold(SECOND).acquire().await.unwrap();
    assert_eq!(guard.lost().await, Loss::MaxHold);
    a.close().await.unwrap();
    let next = b.lock("n").unwrap().try_acquire().await.unwrap();
    assert!(next.is_some(), "it was closed with its release still to come");
}
