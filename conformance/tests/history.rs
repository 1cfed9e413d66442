//! The history checker on histories made by hand and on those that once failed, good and bad.

#![expect(clippy::unwrap_used, reason = "its helpers are part of the tests")]

use std::path::{Path, PathBuf};

use leasehold_conformance::history::{Event, Finding, History, What};

/// `(at, client, what)` of one name; each client has one owner a letter.
fn history(events: &[(u64, &str, What)]) -> History {
    let event = |(at, owner, what): &(u64, &str, What)| Event {
        at: *at,
        client: usize::from(owner.as_bytes()[0]),
        name: "n".into(),
        owner: (*owner).into(),
        what: what.clone(),
    };
    History::new(events.iter().map(event).collect())
}

fn granted(token: u64, until: u64) -> What {
    What::Granted { token, until }
}

fn only(history: &History) -> Finding {
    let mut findings = history.check();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.remove(0)
}

#[test]
fn one_after_the_other_is_good() {
    let good = history(&[
        (0, "a", What::Claim),
        (1, "a", granted(5, 100)),
        (2, "b", What::Claim),
        (3, "b", What::Held),
        (50, "a", What::Release),
        (51, "b", What::Claim),
        (52, "b", granted(6, 150)),
        (60, "b", What::Renewal),
        (61, "b", What::Renewed { until: 160 }),
        // b crashes, and c comes after its deadline.
        (170, "c", What::Claim),
        (171, "c", granted(9, 300)),
    ]);
    assert_eq!(good.check(), []);
    assert!(good.verdict("good").is_ok());
}

#[test]
fn two_names_do_not_touch() {
    let mut both = history(&[(0, "a", What::Claim), (1, "a", granted(5, 100))]);
    let mut other = history(&[(2, "b", What::Claim), (3, "b", granted(5, 100))]);
    let mut events = both.events().to_vec();
    events.extend(other.events().iter().cloned().map(|event| Event { name: "m".into(), ..event }));
    both = History::new(events);
    assert_eq!(both.check(), []);
    other = History::default();
    assert_eq!(other.check(), []);
}

#[test]
fn a_second_holder_within_the_first_is_found() {
    let bad = history(&[
        (0, "a", What::Claim),
        (1, "a", granted(5, 100)),
        (40, "b", What::Claim),
        (41, "b", granted(6, 140)),
        (50, "a", What::Release),
    ]);
    let Finding::Overlap { first, second } = only(&bad) else { panic!("no overlap") };
    assert_eq!((first.from, first.until, second.from, second.until), (1, 50, 41, 140));
}

#[test]
fn a_short_hold_does_not_hide_a_longer_one_before_it() {
    let bad =
        history(&[(1, "a", granted(5, 100)), (10, "b", granted(6, 20)), (30, "c", granted(7, 40))]);
    let overlaps = bad.check();
    assert_eq!(overlaps.len(), 2, "{overlaps:#?}");
    for overlap in overlaps {
        let Finding::Overlap { first, .. } = overlap else { panic!("{overlap}") };
        assert_eq!(first.owner, "a");
    }
}

#[test]
fn holds_are_cut_at_a_loss_and_at_the_deadline() {
    let lost =
        history(&[(1, "a", granted(5, 100)), (30, "a", What::Lost), (31, "b", granted(6, 130))]);
    assert_eq!(lost.check(), []);
    let late = history(&[(1, "a", granted(5, 100)), (100, "b", granted(6, 200))]);
    assert_eq!(late.check(), []);
}

#[test]
fn a_renewal_past_the_deadline_brings_nothing_back() {
    let good = history(&[
        (1, "a", granted(5, 100)),
        (110, "a", What::Renewed { until: 300 }),
        (120, "b", granted(6, 220)),
    ]);
    assert_eq!(good.check(), []);
    let bad = history(&[
        (1, "a", granted(5, 100)),
        (90, "a", What::Renewed { until: 300 }),
        (120, "b", granted(6, 220)),
    ]);
    assert!(matches!(only(&bad), Finding::Overlap { .. }));
}

#[test]
fn an_unanswered_request_ends_nothing() {
    let bad = history(&[
        (1, "a", granted(5, 100)),
        (10, "a", What::Renewal),
        (20, "a", What::Unknown),
        (30, "b", granted(6, 130)),
    ]);
    assert!(matches!(only(&bad), Finding::Overlap { .. }));
    let good = history(&[
        (0, "a", What::Claim),
        (10, "a", What::Unknown),
        (11, "b", What::Claim),
        (12, "b", granted(6, 130)),
    ]);
    assert_eq!(good.check(), []);
}

#[test]
fn a_repeated_token_is_found() {
    let bad =
        history(&[(1, "a", granted(5, 100)), (10, "a", What::Release), (11, "b", granted(5, 110))]);
    assert!(matches!(only(&bad), Finding::Repeated { .. }));
}

#[test]
fn a_token_that_falls_is_found_once() {
    let bad = history(&[
        (0, "a", What::Claim),
        (1, "a", granted(5, 100)),
        (10, "a", What::Release),
        (11, "b", What::Claim),
        (12, "b", granted(4, 110)),
    ]);
    assert!(matches!(only(&bad), Finding::Fell { .. }));
}

#[test]
fn a_token_that_falls_between_overlapping_claims_is_found_by_the_order_of_holding() {
    let bad = history(&[
        (0, "a", What::Claim),
        (1, "b", What::Claim),
        (2, "a", granted(5, 100)),
        (10, "a", What::Release),
        (12, "b", granted(4, 110)),
    ]);
    assert!(matches!(only(&bad), Finding::Fell { .. }));
}

#[test]
fn a_token_that_falls_after_a_grant_too_late_to_believe_in_is_found_by_real_time() {
    let bad = history(&[
        (0, "a", What::Claim),
        (200, "a", granted(5, 100)),
        (201, "b", What::Claim),
        (202, "b", granted(4, 300)),
    ]);
    assert!(matches!(only(&bad), Finding::Fell { .. }));
}

#[test]
fn an_owner_with_two_tokens_is_found() {
    let bad = history(&[(1, "a", granted(5, 100)), (2, "a", granted(6, 100))]);
    assert!(matches!(only(&bad), Finding::Changed { token: 6, .. }));
}

fn write(token: u64) -> What {
    What::Write { token }
}

#[test]
fn writes_in_the_order_of_their_tokens_are_good() {
    let good = history(&[
        (1, "a", write(5)),
        (2, "a", What::Written),
        (3, "b", write(6)),
        // Sent before the next one was answered: it may have come first.
        (4, "a", write(5)),
        (5, "b", What::Written),
        (6, "a", What::Written),
        (7, "a", write(5)),
        (8, "a", What::Refused),
        (9, "b", write(6)),
        (10, "b", What::Written),
    ]);
    assert_eq!(good.check(), []);
}

#[test]
fn a_stale_write_is_found() {
    let bad = history(&[
        (1, "b", write(6)),
        (2, "b", What::Written),
        (3, "a", write(5)),
        (4, "a", What::Written),
    ]);
    let Finding::Stale { newer, write } = only(&bad) else { panic!("no stale write") };
    assert_eq!((newer.token, write.token), (6, 5));
}

#[test]
fn a_stale_write_far_behind_the_newer_one_is_found() {
    let bad = history(&[
        (1, "c", write(7)),
        (2, "c", What::Written),
        (3, "b", write(6)),
        (4, "b", What::Refused),
        (5, "a", write(5)),
        (6, "a", What::Written),
    ]);
    assert!(matches!(only(&bad), Finding::Stale { .. }));
}

#[test]
fn a_write_refused_for_nothing_is_found() {
    let bad = history(&[(1, "a", write(5)), (2, "a", What::Refused), (3, "b", write(6))]);
    assert!(matches!(only(&bad), Finding::WronglyRefused { .. }));
    // One of the same token is no reason.
    let bad = history(&[
        (1, "a", write(5)),
        (2, "a", What::Written),
        (3, "a", write(5)),
        (4, "a", What::Refused),
    ]);
    assert!(matches!(only(&bad), Finding::WronglyRefused { .. }));
}

#[test]
fn an_unanswered_write_may_be_why_another_was_refused() {
    let good = history(&[(1, "b", write(6)), (2, "a", write(5)), (3, "a", What::Refused)]);
    assert_eq!(good.check(), []);
}

#[test]
fn a_write_that_must_come_later_is_no_reason_to_refuse() {
    // 7 was accepted only after 6 was, which began after 5 was refused.
    let bad = history(&[
        (1, "c", write(7)),
        (2, "a", write(5)),
        (3, "a", What::Refused),
        (4, "b", write(6)),
        (5, "b", What::Written),
        (6, "c", What::Written),
    ]);
    assert!(matches!(only(&bad), Finding::WronglyRefused { .. }));
}

#[test]
fn histories_survive_json_lines() {
    let written = history(&[
        (0, "a", What::Claim),
        (1, "a", granted((1 << 53) - 1, u64::MAX)),
        (2, "a", What::Renewal),
        (3, "a", What::Renewed { until: 7 }),
        (4, "a", What::Held),
        (5, "a", What::Lost),
        (6, "a", What::Release),
        (7, "a", What::Unknown),
        (8, "a", write(5)),
        (9, "a", What::Written),
        (10, "a", What::Refused),
        (11, "a", What::Fault { fault: "kill -9".into() }),
    ]);
    let text = written.to_json_lines();
    assert_eq!(text.lines().count(), 12);
    let fault = r#"{"at":11,"event":"fault","fault":"kill -9"}"#;
    assert_eq!(History::from_json_lines(fault).unwrap().events()[0].client, 0);
    assert_eq!(History::from_json_lines(&text).unwrap(), written);
    assert!(History::from_json_lines("{}").is_err());
}

#[test]
fn a_bad_history_is_kept_and_its_path_told() {
    let bad = history(&[(1, "a", granted(5, 100)), (10, "b", granted(6, 20))]);
    let failure = bad.verdict("by-hand").unwrap_err();
    let path = failure.why().split("kept in ").nth(1).unwrap().split("):").next().unwrap();
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(History::from_json_lines(&kept).unwrap(), bad);
    let page = Path::new(path).with_extension("html");
    assert!(std::fs::read_to_string(&page).unwrap().contains("class=\"overlap\""));
    std::fs::remove_file(path).unwrap();
    std::fs::remove_file(page).unwrap();
}

/// The histories kept in this folder, of which there are some.
fn kept(folder: &str) -> Vec<(PathBuf, History)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories").join(folder);
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = paths
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let history = History::from_json_lines(&text);
            let history = history.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path, history)
        })
        .collect();
    assert!(!kept.is_empty());
    kept
}

#[test]
fn kept_histories_that_are_good_pass() {
    for (path, history) in kept("good") {
        assert_eq!(history.check(), [], "{}", path.display());
    }
}

#[test]
fn kept_histories_that_are_bad_are_found() {
    for (path, history) in kept("bad") {
        assert!(!history.check().is_empty(), "{} passes", path.display());
    }
}
