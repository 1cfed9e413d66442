//! A process of this binary in one of the [roles](crate::roles), as a test holds it.

use std::fmt::Display;
use std::process::Stdio;
use std::time::Duration;

use leasehold_conformance::{Failure, Verdict, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

const ROLE: &str = "LEASEHOLD_TEST_ROLE";
/// How long a process may take over one answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The role that this process was started in, if it is not the test itself.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// A process that is told a line and answers with a line. It is killed when this is dropped.
pub(crate) struct Child {
    process: tokio::process::Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    pub(crate) fn start(role: &str, words: &[&dyn Display]) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words.iter().map(ToString::to_string));
        Self::spawn(role, command)
    }

    /// The same by a command that runs this binary.
    pub(crate) fn spawn(role: &str, mut command: Command) -> Result<Self, Failure> {
        let mut process = command
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Ok(Self { process, input, output })
    }

    pub(crate) async fn say(&mut self, line: &str) -> Verdict {
        let input = self.input.as_mut().unwrap();
        Ok(input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Its next line.
    pub(crate) async fn hear(&mut self) -> Result<String, Failure> {
        match timeout(PATIENCE, self.output.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            other => Err(Failure::failed(format!("{other:?}; it said: {}", self.errors().await))),
        }
    }

    pub(crate) async fn ask(&mut self, line: &str) -> Result<String, Failure> {
        self.say(line).await?;
        self.hear().await
    }

    /// The number in an answer like `granted 17`.
    pub(crate) async fn number(&mut self, line: &str, answer: &str) -> Result<u64, Failure> {
        let heard = self.ask(line).await?;
        match heard.split_once(' ') {
            Some((word, number)) if word == answer => Ok(number.parse()?),
            _ => Err(Failure::failed(format!("{line} was answered by {heard:?}, not {answer}"))),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> Verdict {
        let pid = self.process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).unwrap();
        Ok(kill_process(pid, signal)?)
    }

    /// By SIGKILL; and it is gone.
    pub(crate) async fn kill(&mut self) -> Verdict {
        Ok(self.process.kill().await?)
    }

    /// Lets it end, with 0 and nothing on its standard error.
    pub(crate) async fn ends_well(mut self) -> Verdict {
        drop(self.input.take());
        let status = timeout(PATIENCE, self.process.wait()).await??;
        let errors = self.errors().await;
        ensure!(status.success() && errors.is_empty(), "it ended with {status}: {errors}");
        Ok(())
    }

    async fn errors(&mut self) -> String {
        let mut text = Vec::new();
        if let Some(errors) = &mut self.process.stderr {
            // What is there by now; it may still run.
            let read = errors.read_to_end(&mut text);
            let _ = timeout(Duration::from_millis(200), read).await;
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}
