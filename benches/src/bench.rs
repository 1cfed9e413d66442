//! Limit and lock in turns, on one server.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_conformance::Failure;

use crate::figures::{now, processors, quantile};
use crate::fleet::{Worker, in_line};
use crate::line::{self, By, Line, Slice};
use crate::pair::{self, Rate};
use crate::plan::Plan;
use crate::raw::Raw;
use crate::report::{HandOver, Held, Pair, Ratio, Report};
use crate::under::{Kind, Under};
use crate::worker::{Answer, Ask};

/// Until all workers have begun: they open the limit's connections first.
const LEAD: Duration = Duration::from_millis(100);

/// Measures on a server of this kind, with `program` (this crate's) for the worker processes.
///
/// # Errors
///
/// If there is no server, a lock fails, or two turns overlap.
///
/// # Cancel safety
///
/// Dropping it ends its server and its workers.
pub async fn measure(kind: Kind, plan: &Plan, program: &Path) -> Result<Report, Failure> {
    let bench = Bench::new(kind, plan).await?;
    let busy = processors()?;
    let mut pairs = Vec::new();
    for &tasks in &plan.tasks {
        pairs.push(bench.pair(tasks).await?);
    }
    let mut local = Vec::new();
    for &waiters in &plan.waiters {
        local.push(bench.hand_over(waiters, &mut []).await?);
    }
    let start = |_| Worker::start(program, bench.under.url());
    let mut workers: Vec<Worker> = (0..plan.processes).map(start).collect::<Result<_, _>>()?;
    let mut processes = Vec::new();
    for &waiters in &plan.waiters {
        processes.push(bench.hand_over(waiters, &mut workers).await?);
    }
    drop(workers);
    let held = bench.held(Worker::start(program, bench.under.url())?).await?;
    let (all, stolen) = processors()?;
    let stolen = (stolen - busy.1) as f64 / (all - busy.0).max(1) as f64;
    let version = bench.under.version().await?;
    Ok(Report { kind, version, stolen, pairs, local, over: plan.processes, processes, held })
}

/// Uncontended pairs of the lock, or of the raw limit, for a profiler to look at.
///
/// # Errors
///
/// If there is no server, or a lock fails.
///
/// # Cancel safety
///
/// Dropping it ends its server.
pub async fn only_pairs(
    kind: Kind,
    lock: bool,
    tasks: usize,
    length: Duration,
) -> Result<String, Failure> {
    let plan = Plan::full();
    let bench = Bench::new(kind, &plan).await?;
    let rate = if lock {
        pair::by_lock(&bench.locks, tasks, length).await?
    } else {
        pair::by_raw(&bench.raw, tasks, length).await?
    };
    let micros = rate.processor * 1e6;
    Ok(format!(
        "{} pairs, {:.0} a second, {micros:.1} us of processor each",
        rate.pairs, rate.speed
    ))
}

struct Bench<'a> {
    plan: &'a Plan,
    under: Under,
    locks: Locks,
    raw: Arc<Raw>,
}

impl<'a> Bench<'a> {
    async fn new(kind: Kind, plan: &'a Plan) -> Result<Self, Failure> {
        let under = Under::start(kind).await?;
        let locks = leasehold::connect(under.url()).await?;
        let raw = Arc::new(Raw::new(under.url()).await?);
        Ok(Self { plan, under, locks, raw })
    }

    async fn pair(&self, tasks: usize) -> Result<Pair, Failure> {
        let (mut limit, mut lock) = (Vec::new(), Vec::new());
        let (mut pairs, mut requests) = (0, 0);
        for round in 0..=self.plan.rounds {
            let by_raw = pair::by_raw(&self.raw, tasks, self.plan.slice).await?;
            let before = self.under.requests().await?;
            let by_lock = pair::by_lock(&self.locks, tasks, self.plan.slice).await?;
            requests += self.under.requests().await? - before;
            pairs += by_lock.pairs;
            // The first round warms up.
            if round > 0 {
                limit.push(by_raw);
                lock.push(by_lock);
            }
        }
        let all = |rates: &[Rate], of: fn(&Rate) -> f64| rates.iter().map(of).collect::<Vec<_>>();
        let speed = |rate: &Rate| rate.speed;
        let processor = |rate: &Rate| rate.processor;
        Ok(Pair {
            tasks,
            speed: Ratio::of(&all(&limit, speed), &all(&lock, speed)),
            processor: Ratio::of(&all(&limit, processor), &all(&lock, processor)),
            requests: requests as f64 / pairs as f64,
        })
    }

    /// Within this process where there are no workers.
    async fn hand_over(&self, waiters: usize, workers: &mut [Worker]) -> Result<HandOver, Failure> {
        let (mut limit, mut lock) = (Line::default(), Line::default());
        let (mut limits, mut locks) = (Vec::new(), Vec::new());
        let mut requests = 0;
        for round in 0..=self.plan.rounds {
            let by_token = self.slice(By::Token, waiters, workers).await?;
            let before = self.under.requests().await?;
            let by_lock = self.slice(By::Lock, waiters, workers).await?;
            // The first round warms up, and subscribes.
            if round > 0 {
                requests += self.under.requests().await? - before;
                limits.push(by_token.speed);
                locks.push(by_lock.speed);
                limit.add(by_token);
                lock.add(by_lock);
            }
        }
        Ok(HandOver {
            waiters,
            speed: Ratio::of(&limits, &locks),
            requests: requests as f64 / lock.turns as f64,
            fairness: (limit.fairness(), lock.fairness()),
            gap: (lock.gap(0.5), lock.gap(0.99)),
            limit_gap: limit.gap(0.99),
        })
    }

    async fn slice(&self, by: By, waiters: usize, workers: &mut [Worker]) -> Result<Line, Failure> {
        let name = "line".to_owned();
        let since = self.under.begin_line(&name).await?;
        let begin = now() + LEAD;
        let end = begin + self.plan.slice;
        let slice = Slice { by, name, first: 0, waiters, among: waiters, since, begin, end };
        let turns = match (workers.is_empty(), by) {
            (true, By::Lock) => line::by_lock(&self.locks, &slice).await?,
            (true, By::Token) => line::by_token(self.under.url(), &slice).await?,
            (false, _) => in_line(workers, waiters, &slice).await?,
        };
        Line::of(turns, waiters, &slice)
    }

    async fn held(&self, mut worker: Worker) -> Result<Held, Failure> {
        let Plan { held: locks, ttl, .. } = *self.plan;
        let before = self.under.memory().await?;
        let Answer::Held(bytes) = worker.ask(&Ask::Hold(locks, ttl)).await? else {
            return Err(Failure::failed("a worker answered something else"));
        };
        self.under.watches(locks).await?;
        let after = self.under.memory().await?;
        let grown = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        let server_bytes = grown.map(|grown| grown as usize / locks);
        // Whole rounds of the guards' own renewals.
        let window = ttl;
        let before = self.under.requests().await?;
        tokio::time::sleep(window).await;
        let requests = self.under.requests().await? - before;
        let requests_per_second = requests as f64 / window.as_secs_f64();

        worker.ask(&Ask::Lease(locks)).await?;
        self.under.watches(locks).await?;
        let mut alone = Vec::new();
        let (mut limit, mut lock) = (Rounds::default(), Rounds::default());
        for _ in 0..self.plan.rounds {
            self.acquires(&mut alone, tokio::time::sleep(self.plan.slice)).await?;
            self.rounds(&mut limit, &mut worker, By::Token).await?;
            self.rounds(&mut lock, &mut worker, By::Lock).await?;
        }
        Ok(Held {
            locks,
            ttl,
            bytes,
            server_bytes,
            round: (quantile(&mut limit.took, 0.5), quantile(&mut lock.took, 0.5)),
            requests: lock.requests as f64 / lock.took.len() as f64,
            requests_per_second,
            bystander: (
                quantile(&mut alone, 0.99),
                quantile(&mut limit.bystander, 0.99),
                quantile(&mut lock.bystander, 0.99),
            ),
        })
    }

    /// Rounds of renewals in the worker, while this process is a bystander.
    async fn rounds(&self, to: &mut Rounds, worker: &mut Worker, by: By) -> Result<(), Failure> {
        let before = self.under.requests().await?;
        let bystander = to.bystander.len();
        let ask = Ask::Renew(by, self.plan.slice);
        let answer = self.acquires(&mut to.bystander, worker.ask(&ask)).await??;
        let own = to.bystander.len() - bystander;
        to.requests += self.under.requests().await? - before - 2 * own as u64;
        let Answer::Rounds(took) = answer else {
            return Err(Failure::failed("a worker answered something else"));
        };
        to.took.extend(took);
        Ok(())
    }

    /// Acquires and releases until `done`, and notes how long each acquire took.
    async fn acquires<T>(
        &self,
        took: &mut Vec<Duration>,
        done: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let mut done = std::pin::pin!(done);
        let lock = self.locks.lock("bystander")?;
        loop {
            let began = Instant::now();
            let guard = lock.acquire().await?;
            took.push(began.elapsed());
            guard.release().await?;
            // Others have their turn: a bystander is no load.
            tokio::select! {
                answer = &mut done => return Ok(answer),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
    }
}

#[derive(Default)]
struct Rounds {
    took: Vec<Duration>,
    bystander: Vec<Duration>,
    requests: u64,
}
