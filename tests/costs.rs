//! What ten thousand held locks cost a client: tasks, memory, statements a renewal tick.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{Backend, Error, Guard, LockName, Locks, Profile, Token};
use leasehold_api::{
    Acquired, Claim, Clock, Grant, Lease, Names, Released, Renewal, Ticket, TokioClock, Validity,
    async_trait,
};

const LOCKS: usize = 10_000;

/// A driver that keeps nothing and grants everything, and counts batches of renewals.
#[derive(Debug)]
struct Granting {
    profile: Profile,
    batches: AtomicUsize,
    renewed: AtomicUsize,
}

fn valid(ttl: Duration) -> Validity {
    Validity { remaining: ttl, from: TokioClock.now() }
}

#[async_trait]
impl Backend for Granting {
    async fn acquire(&self, claim: &Claim) -> Result<Acquired, Error> {
        let validity = valid(claim.ttl.get());
        Ok(Acquired::Granted(Grant { token: Token::new(1).unwrap(), validity }))
    }
    async fn renew(&self, lease: &Lease) -> Result<Renewal, Error> {
        Ok(Renewal::Renewed(valid(lease.ttl.get())))
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
    async fn renew_all(&self, leases: &[Lease]) -> Vec<Result<Renewal, Error>> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.renewed.fetch_add(leases.len(), Ordering::Relaxed);
        leases.iter().map(|lease| Ok(Renewal::Renewed(valid(lease.ttl.get())))).collect()
    }
}

/// Resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn f80_ten_thousand_held_locks_cost_two_tasks_a_kibibyte_each_and_a_batch_a_tick() {
    let driver = Arc::new(Granting {
        profile: Profile::new("granting"),
        batches: AtomicUsize::new(0),
        renewed: AtomicUsize::new(0),
    });
    let locks = Locks::with_backend(driver.clone());
    let names: Vec<String> = (0..LOCKS).map(|i| format!("order:{i:010}")).collect();
    let mut guards: Vec<Guard> = Vec::with_capacity(LOCKS);

    let before = resident();
    for name in &names {
        guards.push(locks.lock(name).unwrap().acquire().await.unwrap());
        // Grants at different times still fall into step.
        tokio::time::advance(Duration::from_micros(500)).await;
    }
    let each = (resident() - before) / LOCKS;
    assert!(each < 1024, "{each} bytes a held lock");
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 2);

    // Over two ticks of 10 s each lock is renewed twice, in a handful of batches.
    tokio::time::sleep(Duration::from_secs(20)).await;
    driver.batches.store(0, Ordering::Relaxed);
    driver.renewed.store(0, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (batches, renewed) =
        (driver.batches.load(Ordering::Relaxed), driver.renewed.load(Ordering::Relaxed));
    assert!((2 * LOCKS..=3 * LOCKS).contains(&renewed), "{renewed} renewals");
    assert!(batches <= 6, "{batches} batches");
    assert!(guards.iter().all(Guard::is_held));
}
