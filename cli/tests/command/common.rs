//! Starting the built command, and waiting for what it does.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use leasehold_conformance::servers::{self, Redis, Server};
use leasehold_conformance::{Failure, Verdict, ensure};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

/// Far longer than anything takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// The server that all tests share, under a prefix that is random for each caller: the locks of
/// other tests, and of earlier runs on a server that outlives them, are not seen.
pub(crate) async fn shared() -> Result<Shared, servers::Error> {
    let server = Redis::shared().await?;
    let prefix = format!("cli-{:016x}", RandomState::new().hash_one(()));
    Ok(Shared { url: with(server.url(), &format!("prefix={prefix}")), prefix, server })
}

pub(crate) struct Shared {
    server: &'static Server,
    prefix: String,
    url: String,
}

impl Shared {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// What the keys begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// A URL with one more key.
pub(crate) fn with(url: &str, key: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{key}")
}

/// The built command, with a clean environment and this server.
pub(crate) fn leasehold(url: &str) -> Command {
    let mut command = bare();
    command.env("LEASEHOLD_URL", url);
    command
}

/// The built command, without a server.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LEASEHOLD_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `leasehold run`, with these words behind it.
pub(crate) fn run(url: &str, words: &[&str]) -> Command {
    let mut command = leasehold(url);
    command.arg("run").args(words);
    command
}

/// The same, begun by another program that becomes or starts what its last argument names.
pub(crate) fn run_by(program: &[&str], url: &str, words: &[&str]) -> Command {
    let ours = run(url, words);
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(ours.get_program()).args(ours.get_args());
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Whether a program can be started by these words; without it a test has nothing to show.
pub(crate) fn works_here(words: &[&str], what: &str) -> Verdict {
    let tried = Command::new(words[0]).args(&words[1..]).arg("true").output();
    let tried = tried.map_err(|error| Failure::missing(words[0], error))?;
    if tried.status.success() {
        return Ok(());
    }
    Err(Failure::missing(what, String::from_utf8_lossy(&tried.stderr).trim()))
}

/// What a finished command told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Told {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs to its end.
pub(crate) async fn told(mut command: Command) -> Told {
    told_by(command.spawn().unwrap()).await
}

/// Waits for the end of a started one.
pub(crate) async fn told_by(child: Child) -> Told {
    let waited = tokio::task::spawn_blocking(move || child.wait_with_output());
    let Output { status, stdout, stderr } = waited.await.unwrap().unwrap();
    Told {
        code: status.code(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

pub(crate) async fn status(url: &str, name: &str) -> Value {
    let mut command = leasehold(url);
    command.args(["status", name, "--json"]);
    told(command).await.json()
}

/// Waits until a look says so.
pub(crate) async fn until(what: &str, look: impl FnMut() -> bool) -> Verdict {
    within(LONG, what, look).await
}

pub(crate) async fn within(limit: Duration, what: &str, mut look: impl FnMut() -> bool) -> Verdict {
    let start = Instant::now();
    while !look() {
        if start.elapsed() > limit {
            return Err(Failure::failed(format!("after {limit:?} still not so: {what}")));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// A command for the shell that tells that it lives: it appends to a file every 10 ms, and does not
/// end by SIGTERM, which it notes.
pub(crate) struct Heart {
    folder: TempDir,
}

impl Heart {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Arguments for `run`, behind the name.
    pub(crate) fn beats(&self) -> [String; 4] {
        let script = format!(
            "trap 'echo >> {}' TERM; while :; do date +%s.%N >> {}; sleep 0.01; done",
            self.file("term").display(),
            self.file("beat").display(),
        );
        ["--".into(), "sh".into(), "-c".into(), script]
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    pub(crate) async fn has_begun(&self) -> Verdict {
        until("the command runs", || self.last().is_some()).await
    }

    /// When it last beat, by the wall clock.
    pub(crate) fn last(&self) -> Option<f64> {
        // The last line may be half written.
        let beats = std::fs::read_to_string(self.file("beat")).ok()?;
        beats.rsplit_once('\n')?.0.lines().last()?.parse().ok()
    }

    /// Whether a process of this heart lives.
    pub(crate) fn beating(&self) -> bool {
        lives(self.folder.path().to_str().unwrap())
    }

    /// Kills its processes.
    pub(crate) fn end(&self) {
        let text = self.folder.path().to_str().unwrap();
        for (pid, arguments) in processes() {
            if arguments.contains(text) && !is_ours(pid) {
                let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// A test that fails leaves nothing behind, whoever should have ended it.
impl Drop for Heart {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Whether any living process has this text among its arguments, and is none of `leasehold`'s own.
pub(crate) fn lives(text: &str) -> bool {
    processes().iter().any(|(pid, arguments)| arguments.contains(text) && !is_ours(*pid))
}

/// Whether a process is `leasehold`, or its supervisor.
pub(crate) fn is_ours(pid: u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    program == Path::new(env!("CARGO_BIN_EXE_leasehold"))
}

/// All living processes, with their arguments in one text.
pub(crate) fn processes() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| {
        // Empty for a process that has ended and was not reaped.
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&arguments).replace('\0', " ")))
    })
    .collect()
}

/// The child of a process that is the supervisor.
pub(crate) async fn supervisor_of(child: &Child) -> Result<Pid, Failure> {
    let parent = Pid::from_child(child);
    let supervisor = || children_of(parent).into_iter().find(|pid| is_ours(number(*pid)));
    until("there is a supervisor", || supervisor().is_some()).await?;
    supervisor().ok_or_else(|| Failure::failed("the supervisor has ended"))
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_pid().try_into().unwrap()
}

pub(crate) fn children_of(parent: Pid) -> Vec<Pid> {
    let number = parent.as_raw_pid();
    let children = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

pub(crate) fn send(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
}

/// Reads a line, and nothing behind it.
pub(crate) fn first_line(from: &mut impl Read) -> String {
    read_to(from, "\n").trim_end().to_owned()
}

/// Reads up to this text, or to the end.
pub(crate) fn read_to(from: &mut impl Read, text: &str) -> String {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(text.as_bytes()) && from.read(&mut byte).unwrap() == 1 {
        seen.push(byte[0]);
    }
    String::from_utf8(seen).unwrap()
}

/// A small program in C beside these tests, built into a folder of its own.
pub(crate) fn built(name: &str) -> Result<(TempDir, PathBuf), Failure> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join(name);
    let source = format!("{}/tests/command/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("cc").args(["-pthread", "-o"]).arg(&program).arg(&source).output();
    let built = built.map_err(|error| Failure::missing("cc", error))?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok((folder, program))
}
