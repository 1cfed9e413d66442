//! What is said to people: why something ended, what is waited for.

use std::time::{Duration, Instant};

use leasehold_conformance::servers::{Etcd, Redis};
use leasehold_conformance::{Verdict, ensure};
use rustix::process::Signal;

use crate::common::{
    Heart, first_line, leasehold, read_to, run, run_by, send, shared, status, told, told_by, with,
};
use crate::terminal::on_a_terminal;

pub(crate) async fn the_end_of_a_max_hold_is_told_as_such() -> Verdict {
    let server = shared().await?;
    // Shorter and longer than the TTL.
    for (ttl, max) in [("4s", "1s"), ("1s", "2s")] {
        let words = ["--ttl", ttl, "--max-hold", max, "bounded", "--", "sleep", "600"];
        let told = told(run(server.url(), &words)).await;
        let says = format!("lost the lock `bounded`: --max-hold {max} was over; the command was");
        ensure!(told.code == Some(76) && told.err.contains(&says), "{told:?}");
        ensure!(!told.err.contains("fail"), "it says that renewals fail: {told:?}");
    }
    Ok(())
}

pub(crate) async fn failing_renewals_are_told_before_and_after_the_end() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let words = ["--ttl", "4s", "--kill-after", "1s", "unrenewed", "--", "sh", "-c", script];
    let mut child = run(server.url(), &words).spawn()?;
    ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
    server.pause().await?;
    let told = told_by(child).await;
    server.resume().await?;
    ensure!(told.code == Some(76), "{told:?}");
    let lines: Vec<&str> = told.err.lines().collect();
    let (warned, lost) = (lines[0], lines[lines.len() - 1]);
    let says = "leasehold: renewals of `unrenewed` fail: none was answered since 20";
    ensure!(warned.starts_with(says), "{told:?}");
    let says = "leasehold: lost the lock `unrenewed`: no renewal was answered since 20";
    ensure!(lost.starts_with(says), "{told:?}");
    Ok(())
}

pub(crate) async fn renewals_that_succeed_again_are_told() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let mut command = run(server.url(), &["--ttl", "6s", "--kill-after", "500ms", "again", "--"]);
    let mut child = command.args(["sh", "-c", "echo up; sleep 600"]).spawn()?;
    ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
    let mut err = child.stderr.take().unwrap();
    server.pause().await?;
    let failing = first_line(&mut err);
    server.resume().await?;
    ensure!(failing.contains("renewals of `again` fail"), "{failing}");
    let again = first_line(&mut err);
    ensure!(again == "leasehold: renewals of `again` succeed again", "{again}");
    send(&child, Signal::TERM);
    told_by(child).await;
    Ok(())
}

pub(crate) async fn an_eviction_is_told_to_both_sides() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = run(server.url(), &["--ttl", "2s", "put out"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let token = status(server.url(), "put out").await["token"].to_string();
    let mut evict = leasehold(server.url());
    evict.args(["evict", "put out", "--token", &token]);
    let evicted = told(evict).await;
    ensure!(evicted.out.contains("within a third of its TTL"), "{evicted:?}");
    let told = told_by(child).await;
    ensure!(told.err.contains("it was evicted, or the server lost its data"), "{told:?}");
    Ok(())
}

/// As a full disk does, a limit on files takes only the words.
pub(crate) async fn what_may_not_be_written_down_ends_nothing() -> Verdict {
    let server = shared().await?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log").display().to_string();
    let limited = ["bash", "-c", "ulimit -f 0; exec \"$@\" 2> \"$0\"", &log];
    let words = ["--ttl", "2s", "unwritten", "--", "sh", "-c", "echo out; exec sleep 600"];
    let mut child = run_by(&limited, server.url(), &words).spawn()?;
    read_to(child.stdout.as_mut().unwrap(), "out");
    let token = status(server.url(), "unwritten").await["token"].to_string();
    let mut evict = leasehold(server.url());
    evict.args(["evict", "unwritten", "--token", &token]);
    told(evict).await;
    let told = told_by(child).await;
    ensure!(told.code == Some(76), "{told:?}");
    ensure!(std::fs::read(&log)?.is_empty(), "it was written: the test shows nothing");
    // The command is ended by it as without `leasehold`: 25 is SIGXFSZ.
    let words = ["unwritten", "--", "sh", "-c", "exec cat /proc/self/status > \"$0\"", &log];
    let told = told_by(run_by(&limited, server.url(), &words).spawn()?).await;
    ensure!(told.code == Some(128 + 25), "{told:?}");
    Ok(())
}

pub(crate) async fn both_ways_not_to_acquire_are_told_alike() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = run(server.url(), &["--label", "web-3", "alike"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let holder = format!("`alike` is held by pid {} on ", child.id());
    for (words, says) in [
        (&["--no-wait"][..], "not acquired: "),
        (&["--wait", "300ms"], "not acquired within 300ms: "),
    ] {
        let words = [words, &["alike", "--", "true"]].concat();
        let told = told(run(server.url(), &words)).await;
        ensure!(told.code == Some(75), "{told:?}");
        ensure!(told.err.starts_with(&format!("leasehold: {says}{holder}")), "{told:?}");
        for part in ["(web-3) since 20", ", token ", " s unless renewed\n"] {
            ensure!(told.err.contains(part), "no {part} in {told:?}");
        }
    }
    send(&child, Signal::KILL);
    told_by(child).await;
    Ok(())
}

/// As cli/README.md has it: cron mails whatever is printed.
pub(crate) async fn a_crontab_line_can_leave_out_that_another_host_was_first() -> Verdict {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(readme)?;
    let line = readme.split("```sh\n").find(|block| block.contains("2>&1")).unwrap_or_default();
    let line = line.split("```").next().unwrap_or_default();
    ensure!(line.contains("--no-wait --min-hold 10m nightly -- ./report.sh"), "{line}");
    let server = shared().await?;
    let folder = tempfile::tempdir()?;
    let program = env!("CARGO_BIN_EXE_leasehold");
    std::os::unix::fs::symlink(program, folder.path().join("leasehold"))?;
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    // Its own words are printed, and nothing of ours on the host that comes second.
    for prints in ["a word\n", ""] {
        let mut shell = std::process::Command::new("sh");
        let line = line.replace("./report.sh", "sh -c 'echo a word >&2'").replace("10m", "20s");
        shell.args(["-c", &line]).env("PATH", &path).env("LEASEHOLD_URL", server.url());
        let output = shell.stdin(std::process::Stdio::null()).output()?;
        let printed = [output.stdout, output.stderr].concat();
        ensure!(printed == prints.as_bytes(), "{}", String::from_utf8_lossy(&printed));
    }
    Ok(())
}

pub(crate) async fn a_lock_closed_by_a_min_hold_is_told_on_a_terminal() -> Verdict {
    let server = shared().await?;
    let first = told(run(server.url(), &["--min-hold", "3s", "shut", "--", "true"])).await;
    ensure!(first.code == Some(0), "{first:?}");
    let mut waiter = on_a_terminal(server.url(), "$leasehold run shut -- echo got it")?;
    let seen = read_to(waiter.stdout.as_mut().unwrap(), "got it");
    let says = "waiting for `shut`, which is closed by a min-hold, or held";
    ensure!(seen.matches(says).count() == 1 && seen.ends_with("got it"), "{seen}");
    waiter.wait()?;
    Ok(())
}

pub(crate) async fn an_unreachable_server_is_told_at_once_on_a_terminal() -> Verdict {
    let url = "redis://127.0.0.1:1/?connect_timeout=100ms";
    let start = Instant::now();
    let mut waiter = on_a_terminal(url, "$leasehold run --wait 2s away -- true; echo ended $?")?;
    let seen = read_to(waiter.stdout.as_mut().unwrap(), "trying again, for 2s in all");
    ensure!(start.elapsed() < Duration::from_millis(1900), "told after {:?}", start.elapsed());
    ensure!(seen.contains("127.0.0.1:1 can't be reached: Connection refused"), "{seen}");
    let rest = read_to(waiter.stdout.as_mut().unwrap(), "ended 69");
    ensure!(!rest.contains("trying") && rest.ends_with("ended 69"), "{rest}");
    waiter.wait()?;
    Ok(())
}

/// It waits for itself, without an end.
pub(crate) async fn a_run_within_itself_is_warned_of() -> Verdict {
    let server = shared().await?;
    let inner = "exec \"$0\" run --wait 1s within -- true";
    let program = env!("CARGO_BIN_EXE_leasehold");
    let words = ["within", "--", "sh", "-c", inner, program];
    let told = told(run(server.url(), &words)).await;
    ensure!(told.code == Some(75), "{told:?}");
    let says = "held by the `leasehold run` that this one runs under: a lock is not re-entrant";
    ensure!(told.err.matches(says).count() == 1, "{told:?}");
    Ok(())
}

pub(crate) async fn a_certificate_that_is_not_trusted_ends_the_run_at_once() -> Verdict {
    let (redis, etcd) = (Redis::new().tls().start().await?, Etcd::new().tls().start().await?);
    for server in [redis, etcd] {
        let start = Instant::now();
        let told = told(run(&server.tls().unwrap().url, &["trusted", "--", "true"])).await;
        ensure!(told.code == Some(78) && told.err.contains("ertificate"), "{told:?}");
        ensure!(start.elapsed() < Duration::from_secs(10), "after {:?}", start.elapsed());
    }
    Ok(())
}

pub(crate) async fn a_certificate_that_etcd_wants_and_does_not_get_is_asked_for() -> Verdict {
    let server = Etcd::new().tls_with_certificates().start().await?;
    let tls = server.tls().unwrap();
    let url = with(&tls.url, &format!("tls_ca={}", tls.ca_file.display()));
    let start = Instant::now();
    let told = told(run(&url, &["wanted", "--", "true"])).await;
    ensure!(told.code == Some(78) && told.err.contains("tls_cert, tls_key"), "{told:?}");
    ensure!(start.elapsed() < Duration::from_secs(10), "after {:?}", start.elapsed());
    Ok(())
}

pub(crate) async fn a_frozen_server_is_told_as_one() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    server.pause().await?;
    let url = with(server.url(), "connect_timeout=2500ms");
    let told = told(run(&url, &["--wait", "4s", "ice", "--", "true"])).await;
    server.resume().await?;
    ensure!(told.code == Some(69), "{told:?}");
    ensure!(told.err.contains("took the connection, but did not answer within 2s"), "{told:?}");
    Ok(())
}

pub(crate) async fn a_refusal_is_told_in_one_set_of_words() -> Verdict {
    let server = Redis::new().password("a-password").start().await?;
    let url = server.url().replace(":a-password@", "");
    let told = told(run(&url, &["word", "--", "true"])).await;
    ensure!(told.code == Some(78), "{told:?}");
    ensure!(told.err.matches("NOAUTH").count() == 1, "{told:?}");
    Ok(())
}
