//! What an operator asks.

use std::io::Write as _;
use std::time::{Duration, Instant};

use leasehold_conformance::{Verdict, ensure};
use rustix::process::Signal;

use crate::common::{Heart, leasehold, run, send, shared, status, told, told_by};

const FIELDS: [&str; 9] =
    ["name", "held", "owner", "token", "remaining_ms", "label", "host", "pid", "since"];

pub(crate) async fn status_tells_holder_token_and_time_left() -> Verdict {
    let server = shared().await?;
    let free = status(server.url(), "told").await;
    let fields: Vec<_> = free.as_object().unwrap().keys().map(String::as_str).collect();
    ensure!(fields.len() == 9 && FIELDS.iter().all(|field| fields.contains(field)), "{free}");
    ensure!(free["held"] == false && free["owner"].is_null() && free["token"].is_null(), "{free}");
    let heart = Heart::new();
    let child = run(server.url(), &["--ttl", "40s", "--label", "web-3", "told"])
        .args(heart.beats())
        .spawn()?;
    heart.has_begun().await?;
    let held = status(server.url(), "told").await;
    ensure!(held["held"] == true && held["name"] == "told" && held["label"] == "web-3", "{held}");
    ensure!(held["pid"] == child.id() && held["host"].is_string(), "{held}");
    ensure!(held["owner"].as_str().unwrap().len() == 32, "{held}");
    ensure!(held["token"].as_u64().unwrap() > 1_700_000_000_000_000, "{held}");
    let left = held["remaining_ms"].as_u64().unwrap();
    ensure!((10_000..=40_000).contains(&left), "{left} ms are left of 40 s");
    let since = held["since"].as_str().unwrap();
    ensure!(since.len() == 20 && since.ends_with('Z'), "{since} is not RFC 3339 in UTC");
    let mut text = leasehold(server.url());
    text.args(["status", "told"]);
    let text = told(text).await;
    for part in ["told: held by pid", "(web-3)", &held["token"].to_string(), since] {
        ensure!(text.out.contains(part), "no {part} in {text:?}");
    }
    send(&child, Signal::KILL);
    told_by(child).await;
    Ok(())
}

pub(crate) async fn list_shows_the_held_locks_of_a_prefix() -> Verdict {
    let server = shared().await?;
    let (heart, other) = (Heart::new(), Heart::new());
    let first = run(server.url(), &["list:b"]).args(heart.beats()).spawn()?;
    let second = run(server.url(), &["list:a*"]).args(other.beats()).spawn()?;
    heart.has_begun().await?;
    other.has_begun().await?;
    let list = async |words: &[&str]| {
        let mut command = leasehold(server.url());
        command.arg("list").args(words);
        told(command).await
    };
    let all = list(&["list:", "--json"]).await.json();
    let names: Vec<_> = all.as_array().unwrap().iter().map(|row| &row["name"]).collect();
    ensure!(names == ["list:a*", "list:b"], "{all}");
    ensure!(FIELDS.iter().all(|field| all[0].get(field).is_some()), "{all}");
    let some = list(&["list:b"]).await;
    ensure!(some.out.lines().count() == 1 && some.out.starts_with("list:b: held by"), "{some:?}");
    let none = list(&["list:none", "--json"]).await;
    ensure!(none.out == "[]\n" && none.code == Some(0), "{none:?}");
    for child in [first, second] {
        send(&child, Signal::KILL);
        told_by(child).await;
    }
    Ok(())
}

pub(crate) async fn evict_ends_the_lease_of_this_token_only() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let child = run(server.url(), &["--ttl", "2s", "broken"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let token = status(server.url(), "broken").await["token"].as_u64().unwrap();
    for (token, code, held) in [(token + 1, 1, true), (token, 0, false), (token, 1, false)] {
        let mut evict = leasehold(server.url());
        evict.args(["evict", "broken", "--token", &token.to_string()]);
        let told = told(evict).await;
        ensure!(told.code == Some(code), "{told:?}");
        ensure!(status(server.url(), "broken").await["held"] == held, "after {told:?}");
    }
    ensure!(told_by(child).await.code == Some(76), "its command was not told");
    Ok(())
}

pub(crate) async fn check_shows_what_the_backend_gives() -> Verdict {
    let server = shared().await?;
    let mut check = leasehold(server.url());
    check.args(["check", "--json"]);
    let seen = told(check).await.json();
    ensure!(seen["backend"] == "redis" && seen["guarantee"] == "efficiency", "{seen}");
    ensure!(seen["scope"] == "network" && seen["ttl_floor_ms"] == 10, "{seen}");
    let trip = &seen["round_trip_us"];
    let [min, median, max] = ["min", "median", "max"].map(|field| trip[field].as_u64().unwrap());
    ensure!(0 < min && min <= median && median <= max, "{seen}");
    let forgetful = seen["warnings"].as_array().unwrap().iter();
    ensure!(forgetful.clone().any(|w| w.as_str().unwrap().contains("append")), "{seen}");
    let mut check = leasehold(server.url());
    check.arg("check");
    let text = told(check).await;
    ensure!(text.out.contains("efficiency") && text.out.contains("warning"), "{text:?}");
    let mut check = leasehold(server.url());
    check.args(["check", "--guarantee", "correctness"]);
    let refused = told(check).await;
    ensure!(refused.code == Some(78) && refused.err.contains("efficiency"), "{refused:?}");
    Ok(())
}

/// Nobody hears: the work and the status are what they would be.
pub(crate) async fn a_stream_that_can_not_be_written_changes_no_status() -> Verdict {
    let server = shared().await?;
    let full = || std::fs::File::options().write(true).open("/dev/full");
    let heart = Heart::new();
    let holder = run(server.url(), &["unheard"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    for (words, code) in [
        (&["run", "--no-wait", "unheard", "--", "true"][..], 75),
        (&["run", "heard", "--", "/no/such/program"], 127),
        (&["run", "heard", "--", "sh", "-c", "exit 4"], 4),
        (&["dance"], 64),
    ] {
        let mut command = leasehold(server.url());
        command.args(words).env("LEASEHOLD_LOG", "trace").stderr(full()?);
        let told = told(command).await;
        ensure!(told.code == Some(code), "{words:?}: {told:?}");
    }
    send(&holder, Signal::KILL);
    told_by(holder).await;
    Ok(())
}

/// A terminal under Ctrl-S, or a log whose reader stands still.
pub(crate) async fn a_standard_error_that_nobody_reads_holds_nothing_up() -> Verdict {
    let server = shared().await?;
    let (reader, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&writer, true)?;
    while (&writer).write(&[0; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false)?;
    let mut command = leasehold(server.url());
    command.args(["run", "unread", "--", "sh", "-c", "exit 4"]);
    command.env("LEASEHOLD_LOG", "trace").stderr(writer);
    let began = Instant::now();
    let ended = told(command).await;
    ensure!(ended.code == Some(4), "{ended:?}");
    ensure!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    drop(reader);
    Ok(())
}

/// `leasehold list | head -0`
pub(crate) async fn a_closed_pipe_is_no_error() -> Verdict {
    let server = shared().await?;
    for words in [&["check"][..], &["completions", "bash"], &["status", "x"]] {
        let (reader, writer) = std::io::pipe()?;
        drop(reader); // before anything is written
        let mut command = leasehold(server.url());
        command.args(words).stdout(writer);
        let told = told(command).await;
        ensure!(told.code == Some(0) && told.err.is_empty(), "{told:?}");
    }
    Ok(())
}
