//! On a terminal. `script` (of util-linux) makes one.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use leasehold_conformance::{Failure, Verdict, ensure};
use rustix::process::Signal;

use crate::common::{Heart, read_to, run, send, shared, told_by, until};

const CTRL_Z: &[u8] = b"\x1a";

/// Runs a shell's script on a terminal of its own.
pub(crate) fn on_a_terminal(url: &str, shell: &str) -> Result<Child, Failure> {
    on_a_terminal_with(url, shell, "")
}

/// The same, with a file that the script knows as `$file`: no process has it among its arguments
/// but those that the script gives it to.
fn on_a_terminal_with(url: &str, shell: &str, file: &str) -> Result<Child, Failure> {
    let program = env!("CARGO_BIN_EXE_leasehold");
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--return", "--command", shell, "/dev/null"]);
    script
        .env("file", file)
        .env("LEASEHOLD_URL", url)
        .env("leasehold", program)
        .env("SHELL", "/bin/bash");
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    script.spawn().map_err(|error| Failure::failed(format!("no `script` of util-linux: {error}")))
}

pub(crate) async fn the_command_has_the_foreground_and_gives_it_back() -> Verdict {
    let server = shared().await?;
    // tpgid is the foreground group of the terminal.
    let show = "ps -o tpgid= -o pgid= -p $$";
    let shell = format!("$leasehold run tty -- sh -c '{show}'; {show}; read line; echo read $line");
    let mut child = on_a_terminal(server.url(), &shell)?;
    child.stdin.as_mut().unwrap().write_all(b"typed\n")?;
    let told = told_by(child).await;
    let lines: Vec<Vec<&str>> =
        told.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let pairs: Vec<_> =
        lines.iter().filter(|l| l.len() == 2 && l[0].parse::<u32>().is_ok()).collect();
    ensure!(pairs.len() == 2 && pairs.iter().all(|pair| pair[0] == pair[1]), "{told:?}");
    ensure!(pairs[0] != pairs[1], "the command has no group of its own: {told:?}");
    ensure!(lines.iter().any(|line| *line == ["read", "typed"]), "{told:?}");
    Ok(())
}

pub(crate) async fn a_command_stopped_by_ctrl_z_goes_on_with_fg() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let beat = heart.file("beat");
    // It ends once it is told to by a line, which it can read in the foreground only.
    let job = format!("echo > {}; read line; echo the job read $line", beat.display());
    let shell = format!(
        "set -m; $leasehold run ctrl-z -- sh -c '{job}'; echo stopped with $?; \
         read word; fg >/dev/null; echo ended with $?"
    );
    let mut child = on_a_terminal(
        server.url(),
        &format!("bash -c \"{shell}\"").replace("$?", "\\$?").replace("$line", "\\$line"),
    )?;
    until("it is in the foreground", || foreground_of("the job read")).await?;
    let mut input = child.stdin.take().unwrap();
    input.write_all(CTRL_Z)?;
    let mut out = child.stdout.take().unwrap();
    let mut seen = read_to(&mut out, "stopped with");
    input.write_all(b"on\n")?;
    until("it is in the foreground again", || foreground_of("the job read")).await?;
    input.write_all(b"hello\n")?;
    seen += &read_to(&mut out, "ended with 0");
    ensure!(seen.contains("the job read hello"), "{seen}");
    ensure!(seen.contains("leasehold: stopped; unless continued within"), "{seen}");
    drop(input);
    told_by(child).await;
    Ok(())
}

pub(crate) async fn what_ctrl_z_stopped_past_the_ttl_is_76_with_fg() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let script = heart.file("script");
    std::fs::write(&script, &heart.beats()[3])?;
    // By bash: a dash that is stopped between vfork and exec waits for ever to be stopped.
    let shell = "bash -c 'set -m; $leasehold run --ttl 2s too-long -- bash $file; \
                 echo stopped with $?; read word; fg >/dev/null; echo ended with $?'";
    let script = script.to_str().unwrap();
    let mut child = on_a_terminal_with(server.url(), shell, script)?;
    until("it is in the foreground", || foreground_of(script)).await?;
    heart.has_begun().await?;
    let mut input = child.stdin.take().unwrap();
    input.write_all(CTRL_Z)?;
    let mut out = child.stdout.take().unwrap();
    let stopped = read_to(&mut out, "stopped with 148");
    ensure!(stopped.ends_with("stopped with 148"), "{stopped}");
    // Its lock is another's before it goes on; and what had it was gone before.
    let words = ["--wait", "20s", "too-long", "--", "date", "+%s.%N"];
    let next = told_by(run(server.url(), &words).spawn()?).await;
    let (last, next) = (heart.last().unwrap(), next.out.trim().parse::<f64>()?);
    ensure!(last < next, "it beat at {last}, the next command began at {next}");
    ensure!(!heart.beating(), "it lives");
    input.write_all(b"on\n")?;
    let ended = read_to(&mut out, "ended with 76");
    ensure!(ended.contains("lost the lock") && ended.ends_with("ended with 76"), "{ended}");
    drop(input);
    told_by(child).await;
    Ok(())
}

/// It may use the terminal before it was given the foreground, and is stopped for it: no Ctrl-Z.
pub(crate) async fn a_command_that_uses_the_terminal_at_once_goes_on() -> Verdict {
    const ROUNDS: usize = 20;
    let server = shared().await?;
    let shell = format!(
        "for i in $(seq {ROUNDS}); do \
         $leasehold run eager -- sh -c 'stty sane; read line; echo read $line'; \
         done; echo all done"
    );
    let mut child = on_a_terminal(server.url(), &shell)?;
    let mut input = child.stdin.take().unwrap();
    let mut out = child.stdout.take().unwrap();
    for round in 0..ROUNDS {
        input.write_all(format!("{round}\n").as_bytes())?;
        let seen = read_to(&mut out, &format!("read {round}"));
        ensure!(!seen.contains("stopped"), "{seen}");
    }
    ensure!(read_to(&mut out, "all done").contains("all done"), "it did not come to its end");
    drop(input);
    told_by(child).await;
    Ok(())
}

/// Its other parts need the terminal too.
pub(crate) async fn in_a_pipeline_the_foreground_stays_with_the_job() -> Verdict {
    let server = shared().await?;
    let shell = "$leasehold run piped -- sh -c 'echo from the command; sleep 0.2' | \
                 sh -c 'read line; read typed </dev/tty; echo \"$line, $typed\"'; echo all done";
    let mut child = on_a_terminal(server.url(), shell)?;
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"typed\n")?;
    let seen = read_to(child.stdout.as_mut().unwrap(), "all done");
    ensure!(seen.contains("from the command, typed"), "{seen}");
    drop(input);
    told_by(child).await;
    Ok(())
}

pub(crate) async fn a_background_job_leaves_the_foreground_to_its_script() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let beat = heart.file("beat");
    let shell = format!(
        "$leasehold run behind -- sh -c 'echo 1 > {0}; sleep 0.5' & \
         while ! [ -e {0} ]; do sleep 0.01; done; sleep 0.1; read line; echo read $line; wait",
        beat.display()
    );
    let mut child = on_a_terminal(server.url(), &shell)?;
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"typed\n")?;
    let seen = read_to(child.stdout.as_mut().unwrap(), "read typed");
    ensure!(seen.contains("read typed"), "{seen}");
    drop(input);
    told_by(child).await;
    Ok(())
}

pub(crate) async fn ctrl_c_ends_the_script_that_runs_us() -> Verdict {
    const CTRL_C: &[u8] = b"\x03";
    let server = shared().await?;
    let shell = "bash -c 'for i in 1 2 3; do \
                 $leasehold run ctrl-c -- sh -c \"echo round $i; exec sleep 600\"; done'; \
                 echo after $?";
    let mut child = on_a_terminal(server.url(), shell)?;
    let mut out = child.stdout.take().unwrap();
    let mut seen = read_to(&mut out, "round 1");
    until("it is in the foreground", || foreground_of("sleep 600")).await?;
    let mut input = child.stdin.take().unwrap();
    input.write_all(CTRL_C)?;
    drop(input);
    seen += &read_to(&mut out, "after");
    ensure!(!seen.contains("round 2"), "{seen}");
    told_by(child).await;
    let next = told_by(run(server.url(), &["--no-wait", "ctrl-c", "--", "true"]).spawn()?).await;
    ensure!(next.code == Some(0), "it is not free: {next:?}");
    Ok(())
}

/// Whether the process group of the process with this text has its terminal's foreground.
fn foreground_of(text: &str) -> bool {
    crate::common::processes()
        .iter()
        .filter(|(_, args)| {
            ["sh -c", "bash /", "sleep"].iter().any(|begin| args.starts_with(begin))
                && args.contains(text)
        })
        .any(|(pid, _)| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let rest: Vec<&str> =
                stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            rest.len() > 5 && rest[2] == rest[5]
        })
}

pub(crate) async fn a_waiting_command_says_for_whom() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let holder =
        run(server.url(), &["--label", "the first", "said"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let mut waiter = on_a_terminal(server.url(), "$leasehold run said -- echo got it")?;
    let mut out = waiter.stdout.take().unwrap();
    let seen = read_to(&mut out, "token");
    let pid = format!("pid {}", holder.id());
    ensure!(seen.contains("waiting for `said`, held by") && seen.contains(&pid), "{seen}");
    ensure!(seen.contains("the first"), "{seen}");
    send(&holder, Signal::TERM);
    send(&holder, Signal::KILL);
    told_by(holder).await;
    until("the first is gone", || !heart.beating()).await?;
    waiter.kill()?;
    waiter.wait()?;
    Ok(())
}
