//! The worker processes.

use std::path::Path;
use std::process::Stdio;

use futures_util::future::try_join_all;
use leasehold_conformance::Failure;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::line::{Slice, Turn};
use crate::worker::{Answer, Ask, WORKER};

/// One worker. It ends with its standard input, also if this process is killed.
pub(crate) struct Worker {
    _child: Child,
    ask: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(program: &Path, url: &str) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.env(WORKER, url).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let ask = child.stdin.take().expect("piped above");
        let answers = BufReader::new(child.stdout.take().expect("piped above")).lines();
        Ok(Self { _child: child, ask, answers })
    }

    pub(crate) async fn ask(&mut self, ask: &Ask) -> Result<Answer, Failure> {
        let mut text = serde_json::to_vec(ask)?;
        text.push(b'\n');
        self.ask.write_all(&text).await?;
        let line = self.answers.next_line().await?;
        let line = line.ok_or_else(|| Failure::failed("a worker ended"))?;
        match serde_json::from_str(&line)? {
            Answer::Failed(why) => Err(Failure::failed(why)),
            answer => Ok(answer),
        }
    }
}

/// Spreads the waiters of a slice evenly over workers.
pub(crate) async fn in_line(
    workers: &mut [Worker],
    waiters: usize,
    slice: &Slice,
) -> Result<Vec<Turn>, Failure> {
    let count = workers.len().min(waiters);
    let asked = workers.iter_mut().take(count).enumerate().map(|(at, worker)| {
        let (first, next) = (waiters * at / count, waiters * (at + 1) / count);
        let share = Slice { first, waiters: next - first, ..slice.clone() };
        async move { worker.ask(&Ask::Line(share)).await }
    });
    let mut turns = Vec::new();
    for answer in try_join_all(asked).await? {
        match answer {
            Answer::Turns(more) => turns.extend(more),
            other => return Err(Failure::failed(format!("a worker answered {other:?}"))),
        }
    }
    Ok(turns)
}
