//! A process that does as the bench tells it: a line of JSON asks, a line answers.

use std::time::{Duration, Instant};

use leasehold::{Guard, Locks};
use leasehold_conformance::{Failure, Verdict};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout};

use crate::hold::{self, Leases};
use crate::line::{self, By, Slice, Turn};

/// Set for a process of this kind, to the server's URL.
pub const WORKER: &str = "LEASEHOLD_BENCH_WORKER";

/// What a worker is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Line(Slice),
    /// Hold so many locks by guard, with this TTL.
    Hold(usize, Duration),
    /// Release them, and take as many leases.
    Lease(usize),
    /// Renew these in rounds without a pause between, for so long.
    Renew(By, Duration),
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Turns(Vec<Turn>),
    /// Resident bytes a lock.
    Held(usize),
    Leased,
    /// How long each round took.
    Rounds(Vec<Duration>),
    Failed(String),
}

/// Does what the lines of standard input ask, until they end.
///
/// # Errors
///
/// If there is no server, or the other end speaks another language.
///
/// # Cancel safety
///
/// What it holds is released by its drop.
pub async fn work() -> Verdict {
    let url = std::env::var(WORKER)?;
    let locks = leasehold::connect(&url).await?;
    let mut holding = Holding::default();
    let mut asked = BufReader::new(stdin()).lines();
    while let Some(line) = asked.next_line().await? {
        let done = answer(&url, &locks, &mut holding, serde_json::from_str(&line)?).await;
        let answer = done.unwrap_or_else(|failure| Answer::Failed(failure.why().to_owned()));
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        stdout().write_all(&text).await?;
        stdout().flush().await?;
    }
    Ok(())
}

/// What a worker has at the moment.
#[derive(Default)]
struct Holding {
    guards: Vec<Guard>,
    leases: Option<Leases>,
}

async fn answer(
    url: &str,
    locks: &Locks,
    holding: &mut Holding,
    ask: Ask,
) -> Result<Answer, Failure> {
    Ok(match ask {
        Ask::Line(slice) if slice.by == By::Lock => {
            Answer::Turns(line::by_lock(locks, &slice).await?)
        }
        Ask::Line(slice) => Answer::Turns(line::by_token(url, &slice).await?),
        Ask::Hold(count, ttl) => {
            let (guards, bytes) = hold::guards(locks, count, ttl).await?;
            holding.guards = guards;
            Answer::Held(bytes)
        }
        Ask::Lease(count) => {
            hold::let_go(std::mem::take(&mut holding.guards)).await?;
            holding.leases = Some(Leases::take(url, locks, count).await?);
            Answer::Leased
        }
        Ask::Renew(by, length) => {
            let leases = holding.leases.as_ref();
            let leases = leases.ok_or_else(|| Failure::failed("nothing is leased"))?;
            let until = Instant::now() + length;
            let mut rounds = Vec::new();
            while rounds.is_empty() || Instant::now() < until {
                let began = Instant::now();
                leases.renew(by).await?;
                rounds.push(began.elapsed());
            }
            Answer::Rounds(rounds)
        }
    })
}
