//! A line of waiters for one name: who had it, and from when until when.

use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold::Locks;
use leasehold_conformance::{Failure, ensure};
use serde::{Deserialize, Serialize};

use crate::figures::{jain, now, quantile};
use crate::raw::Token;

/// No wait in a line takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a process is to do in a slice.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Slice {
    pub(crate) by: By,
    pub(crate) name: String,
    /// Who waits in this process, by number.
    pub(crate) first: usize,
    pub(crate) waiters: usize,
    /// How many wait in all processes together.
    pub(crate) among: usize,
    /// The token before the first one, where the store counts tokens.
    pub(crate) since: u64,
    /// By the clock that all processes share.
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
}

/// What goes from hand to hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum By {
    /// A lock.
    Lock,
    /// The raw limit: a token.
    Token,
}

/// One waiter's turn.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Turn {
    token: u64,
    waiter: usize,
    from: Duration,
    /// When it began to let go.
    until: Duration,
}

/// Waits in line with a lock, again and again until the slice is over.
pub(crate) async fn by_lock(locks: &Locks, slice: &Slice) -> Result<Vec<Turn>, Failure> {
    let waiting = (slice.first..slice.first + slice.waiters).map(|waiter| {
        let (locks, slice) = (locks.clone(), slice.clone());
        tokio::spawn(async move {
            sleep_until(slice.begin).await;
            let lock = locks.lock(&slice.name)?;
            let mut turns = Vec::new();
            while now() < slice.end {
                let guard = lock.acquire_within(PATIENCE).await?;
                let (token, from) = (guard.token()?.get(), now());
                turns.push(Turn { token, waiter, from, until: now() });
                guard.release().await?;
            }
            Ok(turns)
        })
    });
    gather(try_join_all(waiting).await?)
}

/// Waits in line for a token, likewise.
pub(crate) async fn by_token(url: &str, slice: &Slice) -> Result<Vec<Turn>, Failure> {
    let tokens = Token::of(url, slice).await?;
    let waiting = (slice.first..).zip(tokens).map(|(waiter, mut hand)| {
        let slice = slice.clone();
        tokio::spawn(async move {
            sleep_until(slice.begin).await;
            let mut turns = Vec::new();
            let mut token = hand.pop().await?;
            loop {
                let from = now();
                turns.push(Turn { token, waiter, from, until: now() });
                if from >= slice.end {
                    hand.push(token).await?;
                    return Ok(turns);
                }
                token = hand.push_and_pop(token).await?;
            }
        })
    });
    gather(try_join_all(waiting).await?)
}

fn gather(waiters: Vec<Result<Vec<Turn>, Failure>>) -> Result<Vec<Turn>, Failure> {
    let turns: Vec<Vec<Turn>> = waiters.into_iter().collect::<Result<_, _>>()?;
    Ok(turns.into_iter().flatten().collect())
}

async fn sleep_until(begin: Duration) {
    tokio::time::sleep(begin.saturating_sub(now())).await;
}

/// What all processes of a slice saw together.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// All turns, also those that ended after the slice.
    pub(crate) turns: u64,
    /// Hand-overs a second within the slice.
    pub(crate) speed: f64,
    /// From one's letting go to the next one's having it.
    pub(crate) gaps: Vec<Duration>,
    /// Turns of each waiter within the slice.
    pub(crate) shares: Vec<u64>,
}

impl Line {
    /// Puts the turns in order, and sees that no two overlap.
    pub(crate) fn of(mut turns: Vec<Turn>, waiters: usize, slice: &Slice) -> Result<Self, Failure> {
        turns.sort_unstable_by_key(|turn| turn.token);
        let mut line = Self { turns: turns.len() as u64, ..Self::default() };
        line.shares = vec![0; waiters];
        for pair in turns.windows(2) {
            let [one, next] = [pair[0], pair[1]];
            ensure!(one.token < next.token && one.until <= next.from, "{one:?} and {next:?}");
            if next.from < slice.end {
                line.gaps.push(next.from - one.until);
                line.shares[next.waiter] += 1;
            }
        }
        line.speed = line.gaps.len() as f64 / (slice.end - slice.begin).as_secs_f64();
        Ok(line)
    }

    /// Adds another slice's turns and gaps.
    pub(crate) fn add(&mut self, other: Self) {
        self.turns += other.turns;
        self.gaps.extend(other.gaps);
        self.shares.resize(other.shares.len(), 0);
        for (sum, share) in self.shares.iter_mut().zip(other.shares) {
            *sum += share;
        }
    }

    pub(crate) fn fairness(&self) -> f64 {
        jain(&self.shares)
    }

    /// The gap that so large a part of all does not exceed.
    pub(crate) fn gap(&mut self, part: f64) -> Duration {
        quantile(&mut self.gaps, part)
    }
}
