//! A shell that acts when this process ends, however it ends.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a shell may take to end after its pipe was closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A child shell that reads from a pipe whose other end only this process has, so that its end of
/// file tells of the end of this value, by `drop`, by a panic, by SIGKILL.
#[derive(Debug)]
pub(super) struct Leash {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Leash {
    /// Runs the script with these arguments, in a process group of its own: Ctrl-C on a terminal
    /// ends the test, and the shell learns of it by the pipe.
    pub(super) fn new<I, S>(script: &str, arguments: I) -> io::Result<Self>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<std::ffi::OsStr>,
    {
        use std::os::unix::process::CommandExt;

        let mut shell = Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg("leasehold-leash")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    /// What the shell prints. Once.
    pub(super) fn output(&mut self) -> ChildStdout {
        self.shell.stdout.take().expect("the output is piped, and taken once")
    }

    /// Tells the shell that there is nothing left to do.
    #[cfg(feature = "containers")]
    pub(super) fn let_go(&mut self) {
        use std::io::Write;

        if let Some(mut pipe) = self.pipe.take() {
            // A shell that is gone has nothing left to do either.
            let _ = pipe.write_all(b"done\n");
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let started = Instant::now();
        while matches!(self.shell.try_wait(), Ok(None)) {
            if started.elapsed() > PATIENCE {
                eprintln!("the shell {} still cleans up", self.shell.id());
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
