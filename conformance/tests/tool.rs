//! The program `leasehold-conformance`, on the histories that are kept.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const OVERLAP: &str = "bad/second-holder-within-the-first.jsonl";

fn kept(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/histories").join(name)
}

fn tool() -> Command {
    Command::new(env!("CARGO_BIN_EXE_leasehold-conformance"))
}

/// What it says of a history on its standard input.
fn of(verb: &[&str], history: &str) -> Output {
    let mut child = tool();
    child.args(verb).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(history.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_good_history_is_0_and_silent() {
    let told = tool().arg("check").arg(kept("good/one-after-the-other.jsonl")).output().unwrap();
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert!(told.stdout.is_empty() && told.stderr.is_empty(), "{told:?}");
}

#[test]
fn a_bad_history_is_1_with_a_line_for_each_finding() {
    let told = tool().arg("check").arg(kept(OVERLAP)).output().unwrap();
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    assert!(text(&told.stdout).contains(" is held twice: client "), "{told:?}");
}

#[test]
fn what_is_no_history_is_65_and_names_the_line() {
    let good = r#"{"at":1,"client":0,"name":"n","owner":"a","event":"claim"}"#;
    let told = of(&["check", "-"], &format!("{good}\n\n{{\"at\":2}}\n"));
    assert_eq!(told.status.code(), Some(65), "{told:?}");
    assert!(text(&told.stderr).contains("-: line 3: missing field"), "{told:?}");
}

#[test]
fn wrong_usage_is_64_and_a_missing_file_is_74() {
    assert_eq!(tool().output().unwrap().status.code(), Some(64));
    let told = tool().args(["check", "/nowhere/at-all"]).output().unwrap();
    assert_eq!(told.status.code(), Some(74));
    assert!(text(&told.stderr).contains("/nowhere/at-all: "), "{told:?}");
}

#[test]
fn a_page_shows_holds_tokens_faults_overlaps_and_stale_writes() {
    let history = r#"
{"at":0,"client":1,"name":"a<b","owner":"one","event":"claim"}
{"at":1000000,"client":1,"name":"a<b","owner":"one","event":"granted","token":4711,"until":900000000}
{"at":400000000,"event":"fault","fault":"kill -9 & restart"}
{"at":500000000,"client":2,"name":"a<b","owner":"two","event":"claim"}
{"at":510000000,"client":2,"name":"a<b","owner":"two","event":"granted","token":4712,"until":999000000}
{"at":520000000,"client":2,"name":"a<b","owner":"two","event":"write","token":4712}
{"at":530000000,"client":2,"name":"a<b","owner":"two","event":"written"}
{"at":540000000,"client":1,"name":"a<b","owner":"one","event":"write","token":4711}
{"at":550000000,"client":1,"name":"a<b","owner":"one","event":"written"}
{"at":950000000,"client":2,"name":"a<b","owner":"two","event":"lost"}
"#;
    let told = of(&["draw", "-", "-"], history);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    let page = text(&told.stdout);
    let count = |part: &str| page.matches(part).count();
    assert_eq!(count("<svg "), 1);
    assert_eq!((count("class=\"lane\""), count("class=\"hold\"")), (2, 2), "{page}");
    // On both lanes.
    assert_eq!(count("class=\"overlap\""), 2);
    assert_eq!((count("class=\"write\""), count("class=\"stale\"")), (1, 1));
    assert_eq!((count("class=\"fault\""), count("class=\"lost\"")), (1, 1));
    assert!(count(">4711</text>") == 1 && count(">4712</text>") == 1, "{page}");
    assert!(page.contains("<h2>a&lt;b</h2>") && page.contains("kill -9 &amp; restart"));
    assert!(!page.contains("http"), "it needs something else");
}
