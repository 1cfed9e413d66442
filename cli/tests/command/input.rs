//! Bad input stops at the start, and the message says what is allowed.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use leasehold_conformance::{Verdict, ensure};

use crate::common::{Told, bare, leasehold, run, shared, told};

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
        (&["run", "job", "true"], "--"),
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
        ("redis://127.0.0.1:1/?ttll=3s", known),
        ("redis://127.0.0.1:1/?ttl=soon", "30s"),
        ("redis://127.0.0.1:1/?ttl=20ms", "1 s to 30 days"),
        ("redis://127.0.0.1:1/?guarantee=sure", "correctness"),
    ] {
        let told = with_url(url, &["run", "job", "--", "true"]).await;
        ensure!(told.code == Some(78) && told.err.contains(says), "{url}: {told:?}");
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
