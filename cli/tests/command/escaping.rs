//! What is hard to find or to end is gone when the lock may be, too.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use leasehold_conformance::servers::Redis;
use leasehold_conformance::{Failure, Verdict, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::common::{
    Heart, built, children_of, now, run, run_by, send, shared, status, supervisor_of, told,
    told_by, until, works_here,
};

/// A built `escaping.c`, which says what it does, and its heart.
pub(crate) struct Escaping {
    heart: Heart,
    program: PathBuf,
    kind: &'static str,
    _folder: TempDir,
}

impl Escaping {
    fn new(kind: &'static str) -> Result<Self, Failure> {
        let (folder, program) = built("escaping")?;
        let heart = Heart::new();
        // Another user may run it.
        for path in [folder.path(), &heart.file(".")] {
            std::fs::set_permissions(path, Permissions::from_mode(0o777))?;
        }
        Ok(Self { heart, program, kind, _folder: folder })
    }

    /// Arguments for `run`, behind the name.
    fn words(&self) -> [String; 5] {
        let (program, folder) = (self.program.display(), self.heart.file("."));
        let folder = folder.display().to_string();
        ["--".into(), program.to_string(), self.kind.into(), folder, "end".into()]
    }

    async fn started(&self, mut command: Command) -> Result<Child, Failure> {
        let child = command.args(self.words()).spawn()?;
        self.heart.has_begun().await?;
        Ok(child)
    }

    /// What started it ends by itself.
    fn end(&self) -> Verdict {
        Ok(std::fs::write(self.heart.file("end"), "")?)
    }

    /// It beat last before this time, and beats no more.
    async fn ended_before(&self, time: f64) -> Verdict {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let last = self.heart.last().unwrap();
        ensure!(last < time, "{}: it beat {} s too late", self.kind, last - time);
        Ok(())
    }
}

/// However `leasehold` or its command ends, another that gets the lock is alone.
async fn is_ended_in_time(kind: &'static str, before: &[&str]) -> Verdict {
    let server = shared().await?;
    for event in ["leasehold killed", "supervisor killed", "command ended"] {
        let escaping = Escaping::new(kind)?;
        let name = format!("{kind} {event}");
        let words = ["--ttl", "2s", "--kill-after", "0s", &name];
        let command = match before {
            [] => run(server.url(), &words),
            before => run_by(before, server.url(), &words),
        };
        let child = escaping.started(command).await?;
        let code = match event {
            "leasehold killed" => {
                send(&child, Signal::KILL);
                None
            }
            "supervisor killed" => {
                rustix::process::kill_process(supervisor_of(&child).await?, Signal::KILL)?;
                Some(70)
            }
            _ => {
                escaping.end()?;
                Some(3)
            }
        };
        let wait = ["--wait", "15s", &name, "--", "date", "+%s.%N"];
        let other = told(run(server.url(), &wait)).await;
        ensure!(other.code == Some(0), "{name}: {other:?}");
        escaping.ended_before(other.out.trim().parse::<f64>()?).await?;
        let told = told_by(child).await;
        ensure!(told.code == code, "{name}: {told:?}");
    }
    Ok(())
}

/// `/proc` shows it as a zombie.
pub(crate) async fn a_process_whose_first_thread_has_ended_is_ended_too() -> Verdict {
    is_ended_in_time("threaded", &[]).await
}

pub(crate) async fn a_process_that_forks_itself_away_is_ended_too() -> Verdict {
    is_ended_in_time("hopper", &[]).await
}

pub(crate) async fn three_hundred_nested_sessions_are_ended_too() -> Verdict {
    is_ended_in_time("nested", &[]).await
}

/// Children that end are not kept for their parent then, unless it wants them.
pub(crate) async fn where_the_caller_ignores_sigchld_all_is_ended_too() -> Verdict {
    let ignoring = ["env", "--ignore-signal=CHLD"];
    works_here(&ignoring, "env --ignore-signal")?;
    is_ended_in_time("hopper", &ignoring).await
}

/// A process that may not be traced, as of `ssh-agent`, is not to be seen there.
pub(crate) async fn a_process_that_proc_hides_is_ended_too() -> Verdict {
    for hidepid in ["1", "2", "4"] {
        let script = format!(
            "mount -t proc -o hidepid={hidepid} proc /proc && exec setpriv --reuid=65534 \
             --regid=65534 --clear-groups --inh-caps=+dac_read_search \
             --ambient-caps=+dac_read_search \"$@\""
        );
        let hiding = ["unshare", "--mount", "sh", "-c", &script, "sh"];
        works_here(&hiding, "hidepid")?;
        is_ended_in_time("hidden", &hiding).await?;
    }
    Ok(())
}

/// It is what was forked last that must be found.
pub(crate) async fn what_forks_itself_away_is_ended_by_the_deadline() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    // Not at full speed where nobody reaps: it would use up the machine's process numbers.
    for (stopped, kind) in
        [("leasehold", "hopper"), ("server", "hopper"), ("server and supervisor", "slow hopper")]
    {
        let escaping = Escaping::new(kind)?;
        let words = ["--ttl", "3s", "--kill-after", "0s", stopped];
        let child = escaping.started(run(server.url(), &words)).await?;
        let supervisor = supervisor_of(&child).await?;
        match stopped {
            "leasehold" => send(&child, Signal::STOP),
            "server" => server.pause().await?,
            _ => {
                rustix::process::kill_process(supervisor, Signal::STOP)?;
                server.pause().await?;
            }
        }
        // Renewals may have been answered until it stood still.
        let stopped_at = now();
        tokio::time::sleep(Duration::from_secs(3)).await;
        escaping.ended_before(stopped_at + 3.0).await?;
        if stopped == "leasehold" {
            send(&child, Signal::CONT);
        }
        let told = told_by(child).await;
        ensure!(told.code == Some(76), "{stopped}: {told:?}");
        server.resume().await?;
    }
    Ok(())
}

/// It is continued, so that it tells how the command ended.
pub(crate) async fn a_stopped_supervisor_does_not_keep_the_lock_of_an_ended_command() -> Verdict {
    let server = shared().await?;
    let escaping = Escaping::new("daemon")?;
    let child = escaping.started(run(server.url(), &["--ttl", "60s", "silent"])).await?;
    rustix::process::kill_process(supervisor_of(&child).await?, Signal::STOP)?;
    // While the command runs, that is nothing.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    ensure!(status(server.url(), "silent").await["pid"] == child.id(), "it lost its lock");
    escaping.end()?;
    let ended = now();
    let told = told_by(child).await;
    ensure!(told.code == Some(3), "{told:?}");
    ensure!(now() - ended < 10.0, "it took {} s", now() - ended);
    escaping.ended_before(now()).await?;
    ensure!(status(server.url(), "silent").await["held"] == false, "it is still held");
    Ok(())
}

/// What it tells is more than the channel takes, and the end comes last.
pub(crate) async fn an_end_behind_many_stops_is_told() -> Verdict {
    let server = shared().await?;
    let child = run(server.url(), &["--ttl", "60s", "stops", "--", "sleep", "600"]).spawn()?;
    let supervisor = supervisor_of(&child).await?;
    until("the command runs", || !children_of(supervisor).is_empty()).await?;
    let leader = children_of(supervisor)[0];
    send(&child, Signal::STOP);
    for _ in 0..1000 {
        for signal in [Signal::STOP, Signal::CONT] {
            rustix::process::kill_process(leader, signal)?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    rustix::process::kill_process(leader, Signal::KILL)?;
    until("the command is gone", || !children_of(supervisor).contains(&leader)).await?;
    tokio::time::sleep(Duration::from_millis(200)).await; // for the end to be told
    send(&child, Signal::CONT);
    let told = told_by(child).await;
    ensure!(told.code == Some(128 + 9), "{told:?}");
    Ok(())
}
