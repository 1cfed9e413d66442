//! A command under its lock, when all goes well.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use leasehold_conformance::{Verdict, ensure};

use crate::common::{
    Heart, LONG, first_line, leasehold, now, run, run_by, shared, status, told, told_by,
};

pub(crate) async fn the_command_has_our_streams_and_status() -> Verdict {
    let server = shared().await?;
    let script = "cat; echo to stderr >&2; exit 7";
    let mut child =
        run(server.url(), &["streams", "--", "sh", "-c", script]).stdin(Stdio::piped()).spawn()?;
    child.stdin.take().unwrap().write_all(b"to stdin\n")?;
    let told = told_by(child).await;
    ensure!(told.code == Some(7), "{told:?}");
    // Nothing of ours on either stream.
    ensure!(told.out == "to stdin\n" && told.err == "to stderr\n", "{told:?}");
    ensure!(status(server.url(), "streams").await["held"] == false, "it is still held");
    Ok(())
}

pub(crate) async fn the_command_knows_name_token_and_owner() -> Verdict {
    let server = shared().await?;
    let show =
        "echo $LEASEHOLD_NAME; echo $LEASEHOLD_TOKEN; echo $LEASEHOLD_OWNER; echo go; sleep 600";
    let mut child = run(server.url(), &["known name", "--", "sh", "-c", show]).spawn()?;
    let mut out = child.stdout.take().unwrap();
    let mut lines = Vec::new();
    for _ in 0..4 {
        lines.push(first_line(&mut out));
    }
    let seen = status(server.url(), "known name").await;
    crate::common::send(&child, rustix::process::Signal::TERM);
    told_by(child).await;
    ensure!(lines[0] == "known name", "{lines:?}");
    ensure!(lines[1].parse::<u64>().ok() == seen["token"].as_u64(), "{lines:?} and {seen}");
    ensure!(lines[2] == seen["owner"].as_str().unwrap(), "{lines:?} and {seen}");
    Ok(())
}

/// `status`, `list` and a second `run` see what `run` locks.
pub(crate) async fn c60_every_way_to_the_lock_uses_one_name() -> Verdict {
    let server = shared().await?;
    let name = "c60/{a}:ü";
    let heart = Heart::new();
    let child = run(server.url(), &[name]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    ensure!(status(server.url(), name).await["held"] == true, "status does not see it");
    let mut list = leasehold(server.url());
    list.args(["list", "c60/", "--json"]);
    let list = told(list).await.json();
    ensure!(list.as_array().unwrap().len() == 1 && list[0]["name"] == name, "{list}");
    let second = told(run(server.url(), &["--no-wait", name, "--", "true"])).await;
    ensure!(second.code == Some(75), "{second:?}");
    crate::common::send(&child, rustix::process::Signal::KILL);
    told_by(child).await;
    Ok(())
}

pub(crate) async fn a_signal_that_ends_the_command_is_told_as_shells_do() -> Verdict {
    let server = shared().await?;
    for (signal, code) in [("KILL", 137), ("USR1", 138), ("SEGV", 139)] {
        let script = format!("kill -{signal} $$");
        let told = told(run(server.url(), &["signalled", "--", "sh", "-c", &script])).await;
        ensure!(told.code == Some(code) && told.err.is_empty(), "{signal}: {told:?}");
    }
    Ok(())
}

pub(crate) async fn what_can_not_be_run_is_126_and_127_and_frees_the_lock() -> Verdict {
    let server = shared().await?;
    for (program, code) in [("/no/such/program", 127), ("/", 126), ("/etc/passwd", 126)] {
        let told = told(run(server.url(), &["unrunnable", "--", program])).await;
        ensure!(told.code == Some(code) && told.err.contains(program), "{told:?}");
        ensure!(status(server.url(), "unrunnable").await["held"] == false, "it is still held");
    }
    Ok(())
}

pub(crate) async fn what_the_command_left_behind_is_ended_before_the_release() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let beats = heart.beats();
    // In the background, deaf to SIGTERM, and out of the group.
    let script = format!(
        "setsid sh -c \"$0\" & while ! [ -e {} ]; do sleep 0.01; done; exit 3",
        heart.file("beat").display()
    );
    let start = Instant::now();
    let child =
        run(server.url(), &["--ttl", "4s", "--kill-after", "300ms", "left", "--", "sh", "-c"])
            .args([&script, &beats[3]])
            .spawn()?;
    // Whoever gets the lock next finds nothing of it.
    heart.has_begun().await?;
    let next = told(run(server.url(), &["left", "--", "sh", "-c", "date +%s.%N"])).await;
    let told = told_by(child).await;
    ensure!(told.code == Some(3), "{told:?}");
    ensure!(heart.exists("term"), "it got no SIGTERM first");
    ensure!(!heart.beating(), "it lives");
    let (last, next) = (heart.last().unwrap(), next.out.trim().parse::<f64>()?);
    ensure!(last < next, "it beat at {last}, the next command began at {next}");
    ensure!(start.elapsed() < LONG, "it took {:?}", start.elapsed());
    Ok(())
}

pub(crate) async fn c102_c130_a_command_of_five_ttls_keeps_its_lock() -> Verdict {
    let server = shared().await?;
    let script = "echo up; sleep 5";
    let words = ["--ttl", "1s", "five ttls", "--", "sh", "-c", script];
    let mut child = run(server.url(), &words).spawn()?;
    ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
    let other = told(run(server.url(), &["--wait", "4500ms", "five ttls", "--", "true"])).await;
    ensure!(other.code == Some(75), "another got it: {other:?}");
    let told = told_by(child).await;
    ensure!(told.code == Some(0) && told.err.is_empty(), "{told:?}");
    Ok(())
}

pub(crate) async fn c103_wait_and_ttl_are_not_mixed_up() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = run(server.url(), &["--wait", "100ms", "--ttl", "60s", "mixed"])
        .args(heart.beats())
        .spawn()?;
    heart.has_begun().await?;
    let left = status(server.url(), "mixed").await["remaining_ms"].as_u64().unwrap();
    ensure!((20_000..=60_000).contains(&left), "{left} ms are left of 60 s");
    let start = Instant::now();
    let other =
        told(run(server.url(), &["--wait", "100ms", "--ttl", "60s", "mixed", "--", "true"])).await;
    ensure!(other.code == Some(75) && start.elapsed() < Duration::from_secs(10), "{other:?}");
    crate::common::send(&child, rustix::process::Signal::KILL);
    told_by(child).await;
    Ok(())
}

pub(crate) async fn min_hold_keeps_the_name_closed_after_a_short_command() -> Verdict {
    let server = shared().await?;
    let first = told(run(server.url(), &["--min-hold", "60s", "short job", "--", "true"])).await;
    ensure!(first.code == Some(0), "{first:?}");
    let second = told(run(server.url(), &["--no-wait", "short job", "--", "true"])).await;
    ensure!(second.code == Some(75), "{second:?}");
    ensure!(status(server.url(), "short job").await["held"] == false, "somebody holds it");
    Ok(())
}

pub(crate) async fn f13_c18_max_hold_ends_the_command() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child =
        run(server.url(), &["--ttl", "4s", "--kill-after", "400ms", "--max-hold", "1s", "endless"])
            .args(heart.beats())
            .spawn()?;
    heart.has_begun().await?;
    let begun = now();
    let next = told(run(server.url(), &["endless", "--", "date", "+%s.%N"])).await;
    let next = next.out.trim().parse::<f64>()?;
    ensure!(heart.last().unwrap() < next, "the two overlap");
    // The TTL, at which it would be free too, is 4 s.
    ensure!(next - begun < 2.5, "it was free only after {} s", next - begun);
    ensure!(!heart.beating() && heart.exists("term"), "it was not ended as it should be");
    let told = told_by(child).await;
    ensure!(told.code == Some(76), "{told:?}");
    Ok(())
}

/// `nohup leasehold run ...` is what it looks like.
pub(crate) async fn ignored_signals_stay_ignored_for_the_command() -> Verdict {
    let server = shared().await?;
    for name in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"] {
        let shell = format!("trap '' {name}; exec \"$0\" \"$@\"");
        let script = format!("kill -{name} $PPID $$; echo lives");
        let words = ["nohup", "--", "sh", "-c", &script];
        let told = told(run_by(&["sh", "-c", &shell], server.url(), &words)).await;
        ensure!(told.code == Some(0) && told.out == "lives\n", "{name}: {told:?}");
    }
    Ok(())
}
