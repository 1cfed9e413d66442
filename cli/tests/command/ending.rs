//! The command is gone when the lock may be, whatever happens to whom.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use leasehold_conformance::proxy::{Framing, Proxy};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Verdict, ensure};
use rustix::process::Signal;

use crate::common::{
    Heart, Told, first_line, leasehold, now, read_to, run, send, shared, status, supervisor_of,
    told, told_by, until, within,
};

/// A command under a lock with a TTL of 2 s.
pub(crate) async fn beating(
    url: &str,
    name: &str,
    heart: &Heart,
) -> Result<Child, leasehold_conformance::Failure> {
    let child = run(url, &["--ttl", "2s", name]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    Ok(child)
}

/// Another takes the lock: the first command was gone before.
pub(crate) async fn next(url: &str, name: &str, heart: &Heart) -> Verdict {
    let next = told(run(url, &["--wait", "20s", name, "--", "date", "+%s.%N"])).await;
    ensure!(next.code == Some(0), "{next:?}");
    let (last, next) = (heart.last().unwrap(), next.out.trim().parse::<f64>()?);
    ensure!(last < next, "it beat at {last}, the next command began at {next}");
    ensure!(!heart.beating(), "it lives");
    Ok(())
}

pub(crate) fn lost(told: &Told) -> Verdict {
    ensure!(told.code == Some(76) && told.err.contains("leasehold: "), "{told:?}");
    Ok(())
}

pub(crate) async fn f1_c10_c135_a_killed_leasehold_leaves_no_command_and_a_free_lock() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = beating(server.url(), "killed", &heart).await?;
    send(&child, Signal::KILL);
    let killed = now();
    next(server.url(), "killed", &heart).await?;
    let waited = now() - killed;
    // The TTL is 2 s: after two of them it is late.
    ensure!(waited < 4.0, "the lock was free after {waited} s");
    told_by(child).await;
    Ok(())
}

pub(crate) async fn f2_c9_a_stopped_leasehold_ends_its_command_and_is_76_when_continued() -> Verdict
{
    let server = shared().await?;
    let heart = Heart::new();
    let child = beating(server.url(), "stopped", &heart).await?;
    send(&child, Signal::STOP);
    next(server.url(), "stopped", &heart).await?;
    ensure!(heart.exists("term"), "it got no SIGTERM first");
    // The lock is somebody else's when it goes on.
    let other = Heart::new();
    let second = beating(server.url(), "stopped", &other).await?;
    let before = status(server.url(), "stopped").await;
    send(&child, Signal::CONT);
    lost(&told_by(child).await)?;
    let after = status(server.url(), "stopped").await;
    ensure!(before["token"] == after["token"] && after["held"] == true, "{before} and {after}");
    send(&second, Signal::KILL);
    told_by(second).await;
    Ok(())
}

pub(crate) async fn f20_c6_c127_a_frozen_server_ends_the_command_in_time() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let heart = Heart::new();
    let child = beating(server.url(), "frozen", &heart).await?;
    server.pause().await?;
    let frozen = now();
    until("the command is gone", || !heart.beating()).await?;
    ensure!(heart.exists("term"), "it got no SIGTERM first");
    let lived = heart.last().unwrap() - frozen;
    ensure!(lived < 2.0, "it lived for {lived} s, its TTL is 2 s");
    lost(&told_by(child).await)?;
    server.resume().await?;
    next(server.url(), "frozen", &heart).await
}

pub(crate) async fn f22_c52_cut_connections_do_not_end_the_command() -> Verdict {
    let server = shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let child =
        run(&proxy.url(server.url()), &["--ttl", "2s", "cut", "--", "sleep", "4"]).spawn()?;
    let ended = told_by(child);
    let cuts = async {
        loop {
            tokio::time::sleep(Duration::from_millis(400)).await;
            proxy.reset();
        }
    };
    let told = tokio::select! {
        told = ended => told,
        () = cuts => unreachable!("it cuts for ever"),
    };
    ensure!(told.code == Some(0) && told.err.is_empty(), "{told:?}");
    ensure!(proxy.counts().accepted > 3, "nothing was cut: {:?}", proxy.counts());
    Ok(())
}

/// Its end would be awaited for some 14 s.
pub(crate) async fn a_signal_ends_the_wait_for_a_release() -> Verdict {
    let server = shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let mut command = run(&proxy.url(server.url()), &["unreleased", "--", "sh", "-c"]);
    command.arg("echo up; read line; exit 3").stdin(Stdio::piped());
    let mut child = command.env("LEASEHOLD_LOG", "trace").spawn()?;
    ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
    proxy.blackhole();
    drop(child.stdin.take());
    read_to(child.stderr.as_mut().unwrap(), "release is sent");
    let start = Instant::now();
    send(&child, Signal::TERM);
    let told = told_by(child).await;
    let took = start.elapsed();
    ensure!(told.code == Some(3) && told.err.contains("because of signal 15; "), "{told:?}");
    ensure!(took < Duration::from_secs(7), "it took {took:?}");
    Ok(())
}

pub(crate) async fn f25_a_server_that_restarts_with_its_data_does_not_end_the_command() -> Verdict {
    let server = Redis::new().controlled().append_only().start().await?;
    let words = ["--ttl", "8s", "restarted", "--", "sh", "-c", "echo up; sleep 5"];
    let mut child = run(server.url(), &words).spawn()?;
    ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
    let token = status(server.url(), "restarted").await["token"].clone();
    ensure!(token.is_u64(), "it is not held: {token}");
    server.restart().await?;
    ensure!(status(server.url(), "restarted").await["token"] == token, "it is another's");
    let told = told_by(child).await;
    ensure!(told.code == Some(0), "{told:?}");
    Ok(())
}

pub(crate) async fn f26_c142_a_server_that_lost_its_data_ends_the_command() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let heart = Heart::new();
    let child = beating(server.url(), "emptied", &heart).await?;
    server.restart_empty().await?;
    until("the command is gone", || !heart.beating()).await?;
    lost(&told_by(child).await)
}

pub(crate) async fn f73_c19_an_evicted_lock_ends_the_command() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = beating(server.url(), "evicted", &heart).await?;
    let token = status(server.url(), "evicted").await["token"].to_string();
    let mut evict = leasehold(server.url());
    evict.args(["evict", "evicted", "--token", &token]);
    let told = told(evict).await;
    ensure!(told.code == Some(0), "{told:?}");
    // By its next renewal, a third of the TTL later.
    within(Duration::from_secs(4), "the command is gone", || !heart.beating()).await?;
    lost(&told_by(child).await)
}

pub(crate) async fn f74_c148_an_overwritten_lock_ends_the_command_and_is_left_alone() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = beating(server.url(), "overwritten", &heart).await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let keys = truth.keys(server.prefix()).await?;
    let key = keys.keys().find(|key| key.ends_with(b"overwritten")).unwrap();
    truth.set(key, b"an operator's", None).await?;
    within(Duration::from_secs(4), "the command is gone", || !heart.beating()).await?;
    lost(&told_by(child).await)?;
    let entry = truth.entry(key).await?.unwrap();
    ensure!(entry.value.text() == Some("an operator's"), "it was overwritten back: {entry:?}");
    truth.delete(key).await?;
    Ok(())
}

pub(crate) async fn sigterm_is_passed_on_and_the_lock_is_free_at_once() -> Verdict {
    let server = shared().await?;
    let script = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done";
    let mut child =
        run(server.url(), &["--ttl", "60s", "politely", "--", "sh", "-c", script]).spawn()?;
    let mut out = child.stdout.take().unwrap();
    ensure!(first_line(&mut out) == "up", "it did not come up");
    send(&child, Signal::TERM);
    let told = told_by(child).await;
    ensure!(told.code == Some(5), "{told:?}");
    ensure!(first_line(&mut out) == "bye", "it got no SIGTERM");
    let next =
        crate::common::told(run(server.url(), &["--no-wait", "politely", "--", "true"])).await;
    ensure!(next.code == Some(0), "it is not free: {next:?}");
    Ok(())
}

pub(crate) async fn each_signal_that_is_passed_on_reaches_the_command() -> Verdict {
    let server = shared().await?;
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let script = format!("trap 'exit 5' {name}; echo up; while :; do sleep 0.01; done");
        let mut child = run(server.url(), &["passed on", "--", "sh", "-c", &script]).spawn()?;
        ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
        send(&child, signal);
        let told = told_by(child).await;
        ensure!(told.code == Some(5), "{name}: {told:?}");
    }
    Ok(())
}

pub(crate) async fn signals_reach_the_whole_group() -> Verdict {
    let server = shared().await?;
    let script = "trap 'echo usr1 $0; exit 0' USR1; echo up; while :; do sleep 0.01; done";
    let both = format!("sh -c \"$0\" inner & {}", script.replace("exit 0", "wait; exit 0"));
    let mut child = run(server.url(), &["group", "--", "sh", "-c", &both, script]).spawn()?;
    let mut out = child.stdout.take().unwrap();
    ensure!(first_line(&mut out) == "up" && first_line(&mut out) == "up", "not both came up");
    send(&child, Signal::USR1);
    let told = told_by(child).await;
    ensure!(told.code == Some(0), "{told:?}");
    let lines = [first_line(&mut out), first_line(&mut out)];
    ensure!(lines.iter().all(|line| line.starts_with("usr1")), "{lines:?}");
    Ok(())
}

/// As `pkill -f leasehold` does.
pub(crate) async fn sigterm_to_all_of_our_processes_is_a_sigterm_to_the_command() -> Verdict {
    let server = shared().await?;
    let script = "trap 'sleep 0.3; exit 4' TERM; echo up; while :; do sleep 0.01; done";
    let mut child = run(server.url(), &["pkill", "--", "sh", "-c", script]).spawn()?;
    ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
    rustix::process::kill_process(supervisor_of(&child).await?, Signal::TERM)?;
    send(&child, Signal::TERM);
    let told = told_by(child).await;
    ensure!(told.code == Some(4), "{told:?}");
    Ok(())
}

pub(crate) async fn the_grace_between_sigterm_and_sigkill_is_used() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let words = ["--ttl", "3s", "--kill-after", "1s", "graceful", "--", "sh", "-c"];
    let script =
        "trap 'sleep 0.2; echo cleaned; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let mut child = run(server.url(), &words).arg(script).spawn()?;
    let mut out = child.stdout.take().unwrap();
    ensure!(first_line(&mut out) == "up", "it did not come up");
    server.pause().await?;
    let told = told_by(child).await;
    server.resume().await?;
    // It ended well, but was told to, because of the lock.
    lost(&told)?;
    ensure!(first_line(&mut out) == "cleaned", "it had no time to clean up");
    Ok(())
}

/// A renewal that comes after SIGTERM does not take back that the command must end.
pub(crate) async fn what_was_told_to_end_ends_also_if_the_server_answers_again() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let heart = Heart::new();
    let words = ["--ttl", "4s", "--kill-after", "2s", "thawed"];
    let child = run(server.url(), &words).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    server.pause().await?;
    until("it was told to end", || heart.exists("term")).await?;
    server.resume().await?;
    within(Duration::from_secs(6), "the command is gone", || !heart.beating()).await?;
    lost(&told_by(child).await)?;
    ensure!(status(server.url(), "thawed").await["held"] == false, "it is still held");
    Ok(())
}

/// The system cuts names at 15 bytes, and so within a character.
pub(crate) async fn a_process_whose_name_is_no_text_is_ended_too() -> Verdict {
    let server = shared().await?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("fourteen-bytesä");
    std::fs::copy("/bin/sleep", &program)?;
    let path = program.to_str().unwrap();
    let words = ["--ttl", "2s", "--kill-after", "200ms", "umlaut", "--", "sh", "-c"];
    let child = run(server.url(), &words).args(["\"$0\" 600 & exit 3", path]).spawn()?;
    let told = told_by(child).await;
    ensure!(told.code == Some(3), "{told:?}");
    ensure!(!crate::common::lives(path), "it lives");
    Ok(())
}

/// It keeps its lock, and goes on when it is told to.
pub(crate) async fn a_command_that_somebody_stopped_keeps_its_lock() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = beating(server.url(), "paused", &heart).await?;
    let leader = crate::common::children_of(supervisor_of(&child).await?)[0];
    rustix::process::kill_process(leader, Signal::STOP)?;
    tokio::time::sleep(Duration::from_secs(3)).await; // longer than the TTL
    ensure!(status(server.url(), "paused").await["pid"] == child.id(), "it lost its lock");
    let last = heart.last();
    rustix::process::kill_process(leader, Signal::CONT)?;
    until("it goes on", || heart.last() > last).await?;
    send(&child, Signal::KILL);
    told_by(child).await;
    Ok(())
}

/// A stopped process gets SIGTERM once it goes on, and so it does.
pub(crate) async fn a_command_that_somebody_stopped_is_told_to_end_too() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let words = ["--max-hold", "3s", "--kill-after", "1s", "paused to its end"];
    let child = run(server.url(), &words).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let leader = crate::common::children_of(supervisor_of(&child).await?)[0];
    rustix::process::kill_process(leader, Signal::STOP)?;
    lost(&told_by(child).await)?;
    ensure!(heart.exists("term"), "it got no SIGTERM first");
    ensure!(!heart.beating(), "it lives");
    Ok(())
}

pub(crate) async fn processes_that_left_the_group_end_too() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let beats = heart.beats();
    // A daemon: its parent has ended, its session is its own.
    let script = "(setsid sh -c \"$0\" &) ; sleep 600";
    let child = run(server.url(), &["--ttl", "60s", "daemon", "--", "sh", "-c", script, &beats[3]])
        .spawn()?;
    heart.has_begun().await?;
    send(&child, Signal::KILL);
    within(Duration::from_secs(8), "the daemon is gone", || !heart.beating()).await?;
    told_by(child).await;
    Ok(())
}

pub(crate) async fn a_killed_supervisor_leaves_no_command() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = beating(server.url(), "unsupervised", &heart).await?;
    rustix::process::kill_process(supervisor_of(&child).await?, Signal::KILL)?;
    let told = told_by(child).await;
    ensure!(told.code == Some(70) && told.err.contains("supervising process"), "{told:?}");
    ensure!(!heart.beating(), "it lives");
    ensure!(status(server.url(), "unsupervised").await["held"] == false, "it is still held");
    Ok(())
}

pub(crate) async fn a_stopped_supervisor_does_not_keep_a_lost_command() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let heart = Heart::new();
    let child = beating(server.url(), "both", &heart).await?;
    rustix::process::kill_process(supervisor_of(&child).await?, Signal::STOP)?;
    server.pause().await?;
    let frozen = now();
    lost(&told_by(child).await)?;
    server.resume().await?;
    let lived = heart.last().unwrap() - frozen;
    ensure!(lived < 2.0 && !heart.beating(), "it lived for {lived} s, its TTL is 2 s");
    Ok(())
}

pub(crate) async fn a_command_that_keeps_forking_is_ended() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    // Each generation starts the next, in a session of its own, and ends.
    let script = format!(
        "trap '' TERM; echo > {}; setsid sh -c \"$0\" \"$0\" &",
        heart.file("beat").display()
    );
    let words = ["--ttl", "2s", "--kill-after", "200ms", "forks", "--", "sh", "-c"];
    let child = run(server.url(), &words).args([&script, &script]).spawn()?;
    until("the command runs", || heart.exists("beat")).await?;
    let told = told_by(child).await;
    ensure!(told.code == Some(0), "{told:?}");
    ensure!(!heart.beating(), "it lives");
    ensure!(status(server.url(), "forks").await["held"] == false, "it is still held");
    Ok(())
}

/// Not only by the TTL.
pub(crate) async fn the_command_of_a_killed_leasehold_is_killed_at_once() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child =
        run(server.url(), &["--ttl", "60s", "killed at once"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    send(&child, Signal::KILL);
    within(Duration::from_secs(8), "the command is gone", || !heart.beating()).await?;
    told_by(child).await;
    Ok(())
}
