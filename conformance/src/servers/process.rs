//! A server as a child process.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::sync::watch;

use super::leash::Leash;
use super::recipe::{Place, Recipe};

/// How long SIGTERM may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server's command, its directory, and its process while there is one.
#[derive(Debug)]
pub(super) struct Process {
    // Before the directory: the process goes first.
    run: Option<Run>,
    program: PathBuf,
    arguments: Vec<String>,
    directory: TempDir,
}

impl Process {
    /// Makes everything but the process.
    ///
    /// # Errors
    ///
    /// With words for the user if the directory cannot be made.
    pub(super) fn new(recipe: &dyn Recipe, ports: Vec<u16>) -> Result<Self, String> {
        let prefix = format!("leasehold-{}-", recipe.kind());
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir();
        let directory = directory.map_err(|error| format!("no temporary directory: {error}"))?;
        let path = directory.path();
        fs::create_dir(data(path)).map_err(|error| error.to_string())?;
        for (name, text) in recipe.files() {
            fs::write(path.join(name), text).map_err(|error| error.to_string())?;
        }
        let arguments = recipe.arguments(&Place {
            bind: "127.0.0.1",
            ports,
            data: data(path).display().to_string(),
            files: path.display().to_string(),
        });
        let mut program =
            find(recipe.program()).ok_or_else(|| format!("no {} in PATH", recipe.program()))?;
        let mut words = Vec::new();
        if !recipe.environment().is_empty() {
            // For the server alone, and not for its supervising shell.
            let environment = recipe.environment().into_iter();
            words.extend(environment.map(|(name, value)| format!("{name}={value}")));
            words.push(program.display().to_string());
            program = find("env").ok_or("no env in PATH")?;
        }
        words.extend(arguments);
        Ok(Self { run: None, program, arguments: words, directory })
    }

    /// Where the server's files are.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Starts the process; it need not serve yet.
    pub(super) async fn start(&mut self) -> Result<(), String> {
        if self.running() {
            return Ok(());
        }
        self.run = None;
        let run = Run::new(self.directory.path(), &self.program, &self.arguments);
        let mut run = run.map_err(|error| format!("no process: {error}"))?;
        run.pid().await?;
        self.run = Some(run);
        Ok(())
    }

    /// Asks it to end and waits until it has.
    pub(super) async fn stop(&mut self) -> Result<(), String> {
        self.signal(Signal::TERM)?;
        // A stopped process takes the first signal when it goes on.
        self.signal(Signal::CONT)?;
        match tokio::time::timeout(PATIENCE, self.ended()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(format!("it did not end within {PATIENCE:?} of SIGTERM")),
        }
    }

    /// Kills it and waits until it is gone.
    pub(super) async fn kill(&mut self) -> Result<(), String> {
        self.signal(Signal::KILL)?;
        self.ended().await;
        Ok(())
    }

    /// Stops it where it stands.
    pub(super) fn pause(&self) -> Result<(), String> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub(super) fn resume(&self) -> Result<(), String> {
        self.signal(Signal::CONT)
    }

    /// Replaces its data by what this directory holds, or by nothing. Only while it does not run.
    pub(super) fn replace(&self, by: Option<&TempDir>) -> Result<(), String> {
        let data = data(self.directory.path());
        fs::remove_dir_all(&data)
            .and_then(|()| by.map_or_else(|| fs::create_dir(&data), |by| copy(by.path(), &data)))
            .map_err(|error| format!("its data cannot be replaced: {error}"))
    }

    /// Whether it runs (or is paused).
    pub(super) fn running(&self) -> bool {
        self.run.as_ref().is_some_and(|run| matches!(*run.phase.borrow(), Phase::Running(_)))
    }

    /// What it printed so far, over all its runs.
    pub(super) fn log(&self) -> String {
        let text = fs::read(self.directory.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let Some(run) = &self.run else { return Ok(()) };
        let Phase::Running(pid) = *run.phase.borrow() else { return Ok(()) };
        match kill_process(pid, signal) {
            // It ended, and the shell's word is on its way.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(format!("{signal:?} was not sent: {error}")),
        }
    }

    async fn ended(&mut self) {
        if let Some(run) = &mut self.run {
            // An error would say that the thread is gone, and it goes only after the shell.
            let _ = run.phase.wait_for(|phase| matches!(phase, Phase::Ended)).await;
            self.run = None;
        }
    }
}

/// One process under its supervising shell.
#[derive(Debug)]
struct Run {
    phase: watch::Receiver<Phase>,
    _leash: Leash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Running(Pid),
    Ended,
}

impl Run {
    fn new(directory: &Path, program: &Path, arguments: &[String]) -> std::io::Result<Self> {
        let words = [directory.as_os_str(), program.as_os_str()];
        let words = words.into_iter().chain(arguments.iter().map(AsRef::as_ref));
        let mut leash = Leash::new(include_str!("supervise.sh"), words)?;
        let (told, phase) = watch::channel(Phase::Starting);
        let output = leash.output();
        // A thread, not a task: a server outlives the runtime of the test that started it.
        thread::Builder::new()
            .name("leasehold-supervise".into())
            .spawn(move || follow(output, &told))?;
        Ok(Self { phase, _leash: leash })
    }

    async fn pid(&mut self) -> Result<(), String> {
        let begun = self.phase.wait_for(|phase| !matches!(phase, Phase::Starting)).await;
        begun.map(drop).map_err(|_| "the supervising shell did not start".into())
    }
}

/// Passes on the process id that the shell prints, and that its output ends.
///
/// It ends with the shell, after the server and after the shell has seen that the directory is
/// still wanted; only then may the pipe be closed.
fn follow(output: impl Read, told: &watch::Sender<Phase>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(pid) = line.parse().ok().and_then(Pid::from_raw) {
            told.send_replace(Phase::Running(pid));
        }
    }
    told.send_replace(Phase::Ended);
}

fn data(directory: &Path) -> PathBuf {
    directory.join("data")
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    // With its permissions: some servers refuse a directory that others may read.
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

/// The program's path, by `PATH`.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|path| path.join(program)).find(|path| path.is_file())
}
