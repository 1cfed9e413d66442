//! The main job, with no server: `cargo run --example quickstart`.
//!
//! Two workers want the same order at the same time. One gets the lock and works under it; the
//! other waits, and then sees a higher fencing token. In the end a worker whose lock was taken
//! away is stopped.
#![expect(clippy::print_stdout, reason = "it is a demonstration")]

use std::time::Duration;

use leasehold::{Error, Locks};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let locks = leasehold::connect("memory:quickstart").await?;

    println!("Two workers, one order:");
    let (first, second) = tokio::join!(charge(&locks, "first"), charge(&locks, "second"));
    let (first, second) = (first?, second?);
    println!("  tokens {first} and {second}: the later holder has the higher one");

    println!("A worker whose lock an operator takes away:");
    let guard = locks.lock("order:1001")?.ttl(Duration::from_millis(300)).acquire().await?;
    locks.backend().evict(guard.name(), guard.token()?).await?;
    match guard.run(tokio::time::sleep(Duration::from_secs(60))).await {
        Ok(()) => println!("  it was not told"),
        Err(error) => println!("  it was stopped: {error}"),
    }

    locks.close().await
}

/// Charges the order under its lock, and answers the token that the write would carry.
async fn charge(locks: &Locks, worker: &str) -> Result<u64, Error> {
    let guard = locks
        .lock("order:1001")?
        .ttl(Duration::from_secs(30))
        .label(worker)
        .acquire_within(Duration::from_secs(3))
        .await?;
    let token = guard.token()?;
    println!("  the {worker} worker holds {} with token {token}", guard.name());
    // Stopped the moment the lock is lost; the store that is written to checks the token.
    guard.run(tokio::time::sleep(Duration::from_millis(50))).await?;
    guard.release().await?;
    println!("  the {worker} worker is done");
    Ok(token.get())
}
