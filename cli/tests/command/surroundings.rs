//! Where `leasehold` may do less than usual, or is not alone.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use leasehold_conformance::{Failure, Verdict, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

use crate::common::{
    Heart, LONG, built, children_of, leasehold, run, run_by, shared, status, supervisor_of, told,
    told_by, until, works_here,
};
use crate::terminal::on_a_terminal;

/// A heart of a user whose processes `leasehold` may not signal.
struct Untouchable(Heart);

impl Untouchable {
    /// Who `leasehold` is, and who the heart.
    const USERS: [&str; 2] = ["--reuid=65534", "--reuid=65533"];

    fn new() -> Result<Self, Failure> {
        let heart = Heart::new();
        // It is not the owner.
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(heart.file("."), all)?;
        Ok(Self(heart))
    }

    /// `leasehold run`, as a user without any right over others, except to become one. In the
    /// script, `"$0" "$@"` is the heart.
    fn run(&self, url: &str, words: &[&str], script: &str) -> Result<Command, Failure> {
        let may = "-all,+setuid,+dac_read_search"; // the latter to find the built program
        let mut becoming = vec!["setpriv", Self::USERS[0], "--regid=65534", "--clear-groups"];
        becoming.extend(["--inh-caps", may, "--ambient-caps", may, "--bounding-set", may]);
        works_here(&becoming, "root")?;
        let mut command = run_by(&becoming, url, words);
        command.args(["--", "sh", "-c", script]);
        command.args(["setpriv", Self::USERS[1], "--inh-caps=-all", "sh", "-c"]);
        command.arg(&self.0.beats()[3]);
        Ok(command)
    }
}

/// The lock is kept while the heart beats, past its TTL and past the 5 s after which `leasehold`
/// gives up once it is lost; and then it ends.
async fn is_kept(url: &str, name: &str, heart: &Untouchable) -> Verdict {
    let other = told(run(url, &["--wait", "7s", name, "--", "true"])).await;
    ensure!(other.code == Some(75), "another got it: {other:?}");
    ensure!(heart.0.beating(), "it could be ended: the test shows nothing");
    heart.0.end();
    Ok(())
}

pub(crate) async fn a_lock_is_kept_while_what_can_not_be_killed_runs_on() -> Verdict {
    let server = shared().await?;
    let heart = Untouchable::new()?;
    let child = heart.run(server.url(), &["--ttl", "2s", "kept"], "\"$0\" \"$@\"")?.spawn()?;
    heart.0.has_begun().await?;
    // What it supervised is `leasehold`'s to end.
    rustix::process::kill_process(supervisor_of(&child).await?, Signal::KILL)?;
    is_kept(server.url(), "kept", &heart).await?;
    let told = told_by(child).await;
    ensure!(told.code == Some(70) && told.err.contains("supervising process"), "{told:?}");
    ensure!(status(server.url(), "kept").await["held"] == false, "it is still held");
    Ok(())
}

pub(crate) async fn a_lock_is_kept_while_what_the_command_left_can_not_be_killed() -> Verdict {
    let server = shared().await?;
    let heart = Untouchable::new()?;
    let script = format!(
        "\"$0\" \"$@\" & while ! [ -e {} ]; do sleep 0.01; done; exit 3",
        heart.0.file("beat").display()
    );
    let words = ["--ttl", "2s", "--kill-after", "100ms", "left over"];
    let child = heart.run(server.url(), &words, &script)?.spawn()?;
    heart.0.has_begun().await?;
    is_kept(server.url(), "left over", &heart).await?;
    let told = told_by(child).await;
    ensure!(told.code == Some(3), "{told:?}");
    ensure!(status(server.url(), "left over").await["held"] == false, "it is still held");
    Ok(())
}

/// Then there is nothing left to wait for.
pub(crate) async fn what_can_not_be_killed_after_a_loss_is_76_and_said() -> Verdict {
    let server = shared().await?;
    let heart = Untouchable::new()?;
    // It outlives `leasehold`, and must not hold its streams.
    let quiet = "exec \"$0\" \"$@\" > /dev/null 2>&1";
    let child = heart.run(server.url(), &["--ttl", "2s", "hopeless"], quiet)?.spawn()?;
    heart.0.has_begun().await?;
    let token = status(server.url(), "hopeless").await["token"].to_string();
    let mut evict = leasehold(server.url());
    evict.args(["evict", "hopeless", "--token", &token]);
    told(evict).await;
    let told = tokio::time::timeout(LONG, told_by(child)).await?;
    ensure!(told.code == Some(76) && told.err.contains("may still run"), "{told:?}");
    ensure!(heart.0.beating(), "it could be ended: the test shows nothing");
    Ok(())
}

/// There, numbers of processes mean others.
pub(crate) async fn the_proc_of_another_pid_namespace_is_70_and_runs_nothing() -> Verdict {
    let server = shared().await?;
    let elsewhere = ["unshare", "--pid", "--fork"];
    works_here(&elsewhere, "pid namespace")?;
    let command = run_by(&elsewhere, server.url(), &["elsewhere", "--", "echo", "it runs"]);
    let told = told(command).await;
    ensure!(told.code == Some(70) && told.out.is_empty(), "{told:?}");
    for says in ["/proc", "pid namespace"] {
        ensure!(told.err.contains(says), "no {says} in {told:?}");
    }
    Ok(())
}

/// As in a container that something was started in from outside: neither the session nor the group
/// of `leasehold` has a number there.
pub(crate) async fn a_session_from_outside_the_pid_namespace_changes_nothing() -> Verdict {
    let server = shared().await?;
    let inside = ["unshare", "--pid", "--fork", "--mount-proc"];
    works_here(&inside, "pid namespace")?;
    let script = "ps -o sid= -p $PPID; setsid sleep 600 > /dev/null 2>&1 & exit 3";
    let words = ["--kill-after", "100ms", "inside", "--", "sh", "-c", script];
    let left = told(run_by(&inside, server.url(), &words)).await;
    ensure!(left.code == Some(3) && left.err.is_empty(), "{left:?}");
    ensure!(left.out.trim() == "0", "its session has a number: the test shows nothing: {left:?}");
    let shell = "unshare --pid --fork --mount-proc $leasehold run inside -- echo it runs";
    let told = told_by(on_a_terminal(server.url(), shell)?).await;
    ensure!(told.code == Some(0) && told.out.trim() == "it runs", "{told:?}");
    Ok(())
}

/// Without a free descriptor `/proc` can't be read. That is no sign that nobody is left.
pub(crate) async fn a_lock_is_kept_while_processes_can_not_be_looked_at() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = run(server.url(), &["--ttl", "2s", "blind"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let supervisor = supervisor_of(&child).await?;
    let us = Some(Pid::from_child(&child));
    let none = Rlimit { current: Some(0), maximum: getrlimit(Resource::Nofile).maximum };
    let before = prlimit(us, Resource::Nofile, none)?;
    rustix::process::kill_process(supervisor, Signal::KILL)?;
    let other = told(run(server.url(), &["--wait", "3s", "blind", "--", "true"])).await;
    ensure!(other.code == Some(75), "another got it: {other:?}");
    ensure!(heart.beating(), "it could be ended: the test shows nothing");
    prlimit(us, Resource::Nofile, before)?;
    let told = tokio::time::timeout(LONG, told_by(child)).await?;
    ensure!(told.code == Some(70) && !heart.beating(), "{told:?}");
    ensure!(status(server.url(), "blind").await["held"] == false, "it is still held");
    Ok(())
}

/// Processes are signalled by number there.
pub(crate) async fn without_pidfds_what_left_the_group_is_ended_too() -> Verdict {
    let server = shared().await?;
    let (_folder, wrapper) = built("without_pidfd")?;
    let wrapper = wrapper.display().to_string();
    works_here(&[&wrapper], "seccomp")?;
    let heart = Heart::new();
    let script = format!(
        "setsid sh -c \"$0\" & while ! [ -e {} ]; do sleep 0.01; done; exit 3",
        heart.file("beat").display()
    );
    let words = ["--ttl", "2s", "--kill-after", "200ms", "by number", "--", "sh", "-c"];
    let mut command = run_by(&[&wrapper], server.url(), &words);
    let child = command.args([&script, &heart.beats()[3]]).spawn()?;
    let told = tokio::time::timeout(LONG, told_by(child)).await?;
    ensure!(told.code == Some(3) && !heart.beating(), "{told:?}");
    ensure!(heart.exists("term"), "it got no SIGTERM first");
    Ok(())
}

/// A shell that started something in the background may become `leasehold` by `exec`.
pub(crate) async fn children_that_leasehold_had_before_are_left_alone() -> Verdict {
    let server = shared().await?;
    for kill in [false, true] {
        let (heart, child, orphan) = (Heart::new(), Heart::new(), Heart::new());
        // The orphan's parent ends meanwhile, and `leasehold`, a subreaper, becomes its parent.
        let script = format!(
            "sh -c \"$0\" > /dev/null 2>&1 & \
             (sh -c \"$1\" & while ! [ -e {} ]; do sleep 0.01; done) > /dev/null 2>&1 & \
             shift; exec \"$@\"",
            heart.file("beat").display()
        );
        let shell = ["sh", "-c", &script, &child.beats()[3], &orphan.beats()[3]];
        let ours = run_by(&shell, server.url(), &["not alone"]).args(heart.beats()).spawn()?;
        for heart in [&heart, &child, &orphan] {
            heart.has_begun().await?;
        }
        // The supervisor, the child, the orphan, and its parent, whom nobody reaps.
        let us = Pid::from_child(&ours);
        until("the orphan is ours", || children_of(us).len() == 4).await?;
        let code = if kill {
            rustix::process::kill_process(supervisor_of(&ours).await?, Signal::KILL)?;
            70
        } else {
            heart.end();
            128 + 9
        };
        let told = tokio::time::timeout(LONG, told_by(ours)).await?;
        ensure!(told.code == Some(code), "{told:?}");
        ensure!(!heart.beating(), "the command lives");
        ensure!(child.beating(), "its child was ended, kill: {kill}");
        ensure!(orphan.beating(), "the orphan was ended, kill: {kill}");
    }
    Ok(())
}

/// SIGPIPE and SIGCHLD have their defaults again; README.md says why. All else stays ignored.
pub(crate) async fn a_caller_that_ignores_sigchld_and_sigpipe_changes_nothing() -> Verdict {
    let server = shared().await?;
    // No shell: dash gives SIGCHLD its default whatever it is told.
    let caller = ["env", "--ignore-signal=CHLD", "--ignore-signal=PIPE", "--ignore-signal=ALRM"];
    works_here(&caller, "env of coreutils 8.31")?;
    let words = ["ignored", "--", "sh", "-c", "sleep 600 & exit 7"];
    let left = told(run_by(&caller, server.url(), &words)).await;
    ensure!(left.code == Some(7), "{left:?}");
    let words = ["ignored", "--", "grep", "SigIgn", "/proc/self/status"];
    let told = told(run_by(&caller, server.url(), &words)).await;
    let set = told.out.trim().rsplit('\t').next().unwrap_or_default();
    let set = u64::from_str_radix(set, 16)?;
    let ignored = |signal: Signal| set & (1 << (signal.as_raw() - 1)) != 0;
    let seen = [Signal::CHILD, Signal::PIPE, Signal::ALARM].map(ignored);
    ensure!(seen == [false, false, true], "{seen:?}: {told:?}");
    // Nobody has to reap the supervisor then, and its end is seen all the same.
    let heart = Heart::new();
    let child =
        run_by(&caller, server.url(), &["--ttl", "2s", "ignored"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    rustix::process::kill_process(supervisor_of(&child).await?, Signal::KILL)?;
    let told = tokio::time::timeout(LONG, told_by(child)).await?;
    ensure!(told.code == Some(70) && !heart.beating(), "{told:?}");
    Ok(())
}
