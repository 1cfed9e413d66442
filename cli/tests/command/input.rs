//! Bad input stops at the start, and the message says what is allowed.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_conformance::{Verdict, ensure};
use rustix::process::Signal;

use crate::common::{
    Heart, Told, bare, first_line, leasehold, run, send, shared, status, told, told_by, with,
};

/// A server that is never asked.
const UNASKED: &str = "redis://127.0.0.1:1";

async fn with_url(url: &str, words: &[&str]) -> Told {
    let mut command = leasehold(url);
    command.args(words);
    told(command).await
}

pub(crate) async fn bad_usage_is_64_and_says_what_is_allowed() -> Verdict {
    let long = "x".repeat(513);
    let label = "x".repeat(129);
    for (words, says) in [
        (&["run", "job"][..], "COMMAND"),
        (&["run", "job", "sleep", "1"], "put `--` before the command"),
        (&["run", "--max-hold", "0s", "job", "--", "true"], "--max-hold 0s: allowed are 1 s to"),
        (&["run", "--min-hold", "31days", "job", "--", "true"], "--min-hold 31days: allowed are"),
        (&["run", "--label", "a\nb", "job", "--", "true"], "the label has a control character;"),
        (&["run", "--label", &label, "job", "--", "true"], "the label has 129 bytes;"),
        (&["run", "", "--", "true"], "512 bytes"),
        (&["run", &long, "--", "true"], "512 bytes"),
        (&["run", "a\nb", "--", "true"], "control"),
        (&["run", "--ttl", "soon", "job", "--", "true"], "30s"),
        (&["run", "--ttl", "30", "job", "--", "true"], "30s"),
        (&["run", "--ttl", "0s", "job", "--", "true"], "1 s to 30 days"),
        (&["run", "--ttl", "999ms", "job", "--", "true"], "1 s to 30 days"),
        (&["run", "--ttl", "31days", "job", "--", "true"], "1 s to 30 days"),
        (&["run", "--ttl", "500000000years", "job", "--", "true"], "1 s to 30 days"),
        (&["run", "--ttl", "999999999999999999years", "job", "--", "true"], "30s"),
        (&["run", "--wait=-1s", "job", "--", "true"], "30s"),
        (&["run", "--wait", "1s", "--no-wait", "job", "--", "true"], "--no-wait"),
        (&["run", "--kill-after", "16s", "job", "--", "true"], "half of the TTL"),
        (&["run", "--max-hold", "1s", "--kill-after", "600ms", "job", "--", "true"], "half of"),
        (&["run", "--max-hold", "1s", "--min-hold", "2s", "job", "--", "true"], "over max-hold"),
        (&["list", "a\nb"], "control"),
        (&["run", "--min-hold", "31days", "job", "--", "true"], "30 days"),
        (&["run", "--label", &label, "job", "--", "true"], "128 bytes"),
        (&["run", "--guarantee", "sure", "job", "--", "true"], "correctness"),
        (&["status"], "NAME"),
        (&["evict", "job"], "--token"),
        (&["evict", "job", "--token", "9007199254740993"], "9007199254740991"),
        (&["evict", "job", "--token", "first"], "--token"),
        (&["dance"], "dance"),
        (&["check", "--url", UNASKED, "--config", "x"], "--config"),
    ] {
        let told = with_url(UNASKED, words).await;
        ensure!(told.code == Some(64), "{words:?}: {told:?}");
        ensure!(told.err.contains(says) && told.out.is_empty(), "no {says} in {told:?}");
    }
    Ok(())
}

pub(crate) async fn bad_configuration_is_78_and_says_what_is_allowed() -> Verdict {
    let server = shared().await?;
    let known = "guarantee, scope, ttl, wait";
    for (url, says) in [
        ("no url", "redis://HOST:PORT"),
        ("memory:", "one process only"),
        ("mysql://127.0.0.1", "redis"),
        ("localhost:6379", "such as redis://localhost:6379"),
        ("redis://127.0.0.1:1/?ttll=3s", known),
        ("redis://127.0.0.1:1/?ttl=soon", "30s"),
        ("redis://127.0.0.1:1/?ttl=20ms", "1 s to 30 days"),
        ("redis://127.0.0.1:1/?guarantee=sure", "correctness"),
    ] {
        let told = with_url(url, &["run", "job", "--", "true"]).await;
        ensure!(told.code == Some(78) && told.err.contains(says), "{url}: {told:?}");
        ensure!(told.err.contains("LEASEHOLD_URL: "), "its source is not named: {told:?}");
    }
    let words = ["run", "--guarantee", "correctness", "job", "--", "true"];
    let refused = with_url(server.url(), &words).await;
    ensure!(refused.code == Some(78) && refused.err.contains("efficiency"), "{refused:?}");
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("leasehold.toml");
    let path = file.to_str().unwrap();
    for (text, says) in [
        ("url = 3", "line 1"),
        ("url = \"redis://h\"\nttll = \"3s\"", "ttll"),
        ("url = \"redis://h\"\nttll = \"3s\"", "kill_after"),
        ("url = \"redis://h\"\nttl = \"soon\"", "30s"),
        ("url = \"redis://h\"\nttl = 30", "line 2"),
        ("url = \"redis://h\"\nttl = 30", "a duration such as 500ms, 30s"),
        ("url = \"redis://h\"\nmax_hold = \"0s\"", "max_hold = \"0s\": allowed are 1 s to 30"),
        ("url = \"redis://h\"\nttl = \"10ms\"", "1 s to 30 days"),
        ("ttl = \"30s\"", "url"),
        ("url = ", "line 1"),
    ] {
        std::fs::write(&file, text)?;
        let mut command = bare();
        command.args(["run", "--config", path, "job", "--", "true"]);
        let told = told(command).await;
        ensure!(told.code == Some(78) && told.err.contains(says), "{text}: {told:?}");
        ensure!(told.err.contains(path), "the file is not named: {told:?}");
    }
    let mut command = bare();
    command.args(["run", "--config", "/no/such/file", "job", "--", "true"]);
    let told = told(command).await;
    ensure!(told.code == Some(78) && told.err.contains("/no/such/file"), "{told:?}");
    Ok(())
}

pub(crate) async fn a_configuration_file_decides_what_no_flag_does() -> Verdict {
    let server = shared().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("leasehold.toml");
    let text = format!("url = \"{}\"\nttl = \"50s\"\nlabel = \"from the file\"", server.url());
    std::fs::File::create(&file)?.write_all(text.as_bytes())?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
    let program = env!("CARGO_BIN_EXE_leasehold");
    let show = format!("{program} status --json --url '{}' from-file", server.url());
    let with = async |words: &[&str]| {
        let mut command = bare();
        command.args(["run", "--config", file.to_str().unwrap()]).args(words);
        command.args(["from-file", "--", "sh", "-c", &show]);
        told(command).await.json()
    };
    let seen = with(&[]).await;
    ensure!(seen["label"] == "from the file", "{seen}");
    ensure!(seen["remaining_ms"].as_u64().unwrap() > 30_000, "{seen}");
    let seen = with(&["--ttl", "20s", "--label", "from a flag"]).await;
    ensure!(seen["label"] == "from a flag", "{seen}");
    ensure!(seen["remaining_ms"].as_u64().unwrap() <= 20_000, "{seen}");
    // The environment is asked last.
    let told = told(run(UNASKED, &["--url", server.url(), "from-file", "--", "true"])).await;
    ensure!(told.code == Some(0), "{told:?}");
    Ok(())
}

/// A `--config` with these lines besides the URL.
fn file(url: &str, lines: &str) -> Result<tempfile::NamedTempFile, std::io::Error> {
    let mut file = tempfile::NamedTempFile::new()?;
    write!(file, "url = \"{url}\"\n{lines}")?;
    Ok(file)
}

fn by_file(file: &tempfile::NamedTempFile, words: &[&str]) -> Command {
    let mut command = bare();
    command.arg("run").arg("--config").arg(file.path()).args(words);
    command
}

pub(crate) async fn a_url_decides_ttl_and_wait_where_nothing_else_does() -> Verdict {
    let server = shared().await?;
    let url = with(server.url(), "ttl=50s&wait=300ms");
    let heart = Heart::new();
    let holder = run(&url, &["of the url"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let left = status(server.url(), "of the url").await["remaining_ms"].as_u64().unwrap();
    ensure!((30_001..=50_000).contains(&left), "{left} ms are left of 50 s");
    let start = Instant::now();
    let other = told(run(&url, &["of the url", "--", "true"])).await;
    ensure!(other.code == Some(75), "{other:?}");
    ensure!(start.elapsed() >= Duration::from_millis(300), "it waited {:?}", start.elapsed());
    // A file that says otherwise of its URL's locks wins.
    let file = file(&url, "ttl = \"20s\"\nwait = \"1s\"")?;
    let start = Instant::now();
    let other = told(by_file(&file, &["of the url", "--", "true"])).await;
    ensure!(other.code == Some(75), "{other:?}");
    ensure!(start.elapsed() >= Duration::from_secs(1), "it waited {:?}", start.elapsed());
    send(&holder, Signal::KILL);
    told_by(holder).await;
    let holder = by_file(&file, &["of the file"]).args(heart.beats()).spawn()?;
    let held = async || status(server.url(), "of the file").await;
    while held().await["pid"] != holder.id() {}
    let left = held().await["remaining_ms"].as_u64().unwrap();
    ensure!((1..=20_000).contains(&left), "{left} ms are left of 20 s");
    send(&holder, Signal::KILL);
    told_by(holder).await;
    Ok(())
}

pub(crate) async fn each_key_of_a_file_takes_effect() -> Verdict {
    let server = shared().await?;
    let heart = Heart::new();
    let holder = run(server.url(), &["busy"]).args(heart.beats()).spawn()?;
    heart.has_begun().await?;
    let wait = file(server.url(), "wait = \"300ms\"")?;
    let start = Instant::now();
    let waited = told(by_file(&wait, &["busy", "--", "true"])).await;
    ensure!(waited.code == Some(75), "{waited:?}");
    ensure!(start.elapsed() >= Duration::from_millis(300), "it waited {:?}", start.elapsed());
    send(&holder, Signal::KILL);
    told_by(holder).await;

    let min_hold = file(server.url(), "min_hold = \"60s\"")?;
    let first = told(by_file(&min_hold, &["short", "--", "true"])).await;
    ensure!(first.code == Some(0), "{first:?}");
    let second = told(run(server.url(), &["--no-wait", "short", "--", "true"])).await;
    ensure!(second.code == Some(75), "{second:?}");
    ensure!(status(server.url(), "short").await["held"] == false, "somebody holds it");

    // The command gets a URL of the same locks.
    let prefix = file(server.url(), "prefix = \"apart\"")?;
    let show = format!("{} status --json apart", env!("CARGO_BIN_EXE_leasehold"));
    let seen = told(by_file(&prefix, &["apart", "--", "sh", "-c", &show])).await.json();
    ensure!(seen["held"] == true, "{seen}");
    let show = format!("{show} --url '{}'", server.url());
    let seen = told(by_file(&prefix, &["apart", "--", "sh", "-c", &show])).await.json();
    ensure!(seen["held"] == false, "another prefix is another lock: {seen}");

    let guarantee = file(server.url(), "guarantee = \"correctness\"")?;
    let refused = told(by_file(&guarantee, &["sure", "--", "true"])).await;
    ensure!(refused.code == Some(78) && refused.err.contains("efficiency"), "{refused:?}");

    // SIGTERM comes 3 s after the grant, not after the 4.5 s of what is the default.
    let ending = file(server.url(), "max_hold = \"6s\"\nkill_after = \"3s\"")?;
    let script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let mut child = by_file(&ending, &["ending", "--", "sh", "-c", script]).spawn()?;
    ensure!(first_line(child.stdout.as_mut().unwrap()) == "up", "it did not come up");
    let start = Instant::now();
    let ended = told_by(child).await;
    ensure!(ended.code == Some(76), "{ended:?}");
    ensure!(start.elapsed() < Duration::from_secs(4), "it ran for {:?}", start.elapsed());
    Ok(())
}

pub(crate) async fn an_unknown_log_level_is_78_and_the_known_are_listed() -> Verdict {
    for words in [&["run", "job", "--", "true"][..], &["status", "job"], &["check"]] {
        let mut command = leasehold(UNASKED);
        command.args(words).env("LEASEHOLD_LOG", "loud");
        let told = told(command).await;
        ensure!(told.code == Some(78) && told.out.is_empty(), "{told:?}");
        for says in ["LEASEHOLD_LOG", "off", "error", "warn", "info", "debug", "trace"] {
            ensure!(told.err.contains(says), "no {says} in {told:?}");
        }
    }
    let server = shared().await?;
    // The server keeps no file, of which it warns.
    for (level, speaks) in [("", false), ("off", false), ("error", false), ("WARN", true)] {
        let mut command = run(server.url(), &["logged", "--", "true"]);
        command.env("LEASEHOLD_LOG", level);
        let told = told(command).await;
        ensure!(told.code == Some(0) && told.err.is_empty() != speaks, "{level}: {told:?}");
    }
    Ok(())
}

pub(crate) async fn a_file_without_a_url_takes_that_of_the_environment() -> Verdict {
    let server = shared().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("leasehold.toml");
    std::fs::write(&file, "label = \"from the file\"")?;
    let show = format!("{} status --json half", env!("CARGO_BIN_EXE_leasehold"));
    let mut command = leasehold(server.url());
    command.args(["run", "--config", file.to_str().unwrap(), "half", "--", "sh", "-c", &show]);
    let seen = told(command).await.json();
    ensure!(seen["label"] == "from the file", "{seen}");
    Ok(())
}

pub(crate) async fn no_server_named_is_a_usage_error_that_says_what_to_do() -> Verdict {
    for words in [&["run", "job", "--", "true"][..], &["status", "job"], &["list"], &["check"]] {
        for empty in [false, true] {
            let mut command = bare();
            command.args(words);
            if empty {
                command.env("LEASEHOLD_URL", "");
            }
            let told = told(command).await;
            ensure!(told.code == Some(64), "{told:?}");
            for says in ["LEASEHOLD_URL", "--url", "--config", "redis://"] {
                ensure!(told.err.contains(says), "no {says} in {told:?}");
            }
        }
    }
    Ok(())
}
