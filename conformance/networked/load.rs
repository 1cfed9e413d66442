//! A server that goes and comes under a process that works.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_conformance::{Verdict, ensure, rounds};
use tokio::task::JoinSet;

use crate::child::Child;
use crate::driver;
use crate::roles::{self, Words};

const WORKERS: usize = 8;

pub(crate) async fn c162_stops_and_starts_under_load_panic_nowhere() -> Verdict {
    let server = driver::own().await?;
    let mut child = Child::start("load", &[&server.url()])?;
    let mut done = child.number("done", "done").await?;
    for stop in 0..rounds(8, 100) {
        server.stop().await?;
        server.start().await?;
        let before = done;
        // It goes on: each answer waits for more work to be done.
        done = child.number("done", "done").await?;
        ensure!(done > before, "stop {stop}: {done} locks were taken, and {before} before");
    }
    let done = child.number("end", "done").await?;
    ensure!(done as usize > WORKERS, "{done}");
    child.ends_well().await
}

/// The process: takes and gives back locks, and ends with 101 if anything panics anywhere.
pub(crate) async fn play(mut words: Words) -> Verdict {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        exit(101);
    }));
    let locks = roles::connect(&words.next()?).await?;
    let (done, end) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut workers = JoinSet::new();
    for n in 0..WORKERS {
        let lock = locks.lock(&format!("load-{}", n % 3))?.ttl(driver::SHORT);
        let (done, end) = (done.clone(), end.clone());
        workers.spawn(async move {
            while !end.load(Ordering::SeqCst) {
                // Errors are what a server that is down gives; the next round goes on.
                if let Ok(guard) = lock.acquire_within(Duration::from_secs(10)).await {
                    let _ = guard.release().await;
                    done.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }
    let mut orders = roles::orders();
    while let Some(order) = orders.recv().await {
        let before = done.load(Ordering::SeqCst);
        while done.load(Ordering::SeqCst) < before + WORKERS as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if order == "end" {
            end.store(true, Ordering::SeqCst);
            while workers.join_next().await.is_some() {}
            locks.close().await?;
        }
        println!("done {}", done.load(Ordering::SeqCst));
    }
    Ok(())
}
