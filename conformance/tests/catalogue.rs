//! `docs/faults.md` says of each fault and case which tests show it, or why none does.
//!
//! `LEASEHOLD_WRITE_FAULTS=1` writes it anew.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use leasehold_conformance::catalogue::{Excuse, Kind, Number, Row, numbers_in, row, rows};
use leasehold_conformance::table;

/// Where numbered tests stand beside the suite.
const TESTS: [&str; 8] = [
    "tests",
    "backend-memory/src",
    "backend-redis/src",
    "backend-redis/tests",
    "backend-etcd/src",
    "backend-etcd/tests",
    "cli/src",
    "cli/tests",
];

/// The tests that show each number.
type Shown = BTreeMap<Number, Vec<String>>;

#[test]
fn docs_say_what_shows_each_number_or_why_nothing_does() {
    let shown = shown();
    let wrong: Vec<_> = rows().filter_map(|row| fault_of(row, &shown)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let path = workspace().join("docs/faults.md");
    let page = page(&shown);
    if std::env::var_os("LEASEHOLD_WRITE_FAULTS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/faults.md is old: LEASEHOLD_WRITE_FAULTS=1 writes it anew");
}

/// What is wrong with a row, if anything.
fn fault_of(row: &Row, shown: &Shown) -> Option<String> {
    let number = row.number();
    match (shown.get(&number), row.excuse()) {
        (None, None) => Some(format!("{number} has neither a test nor an excuse: {}", row.what())),
        (Some(tests), Some(_)) => Some(format!("{number} is excused, and shown by {tests:?}")),
        _ => None,
    }
}

fn shown() -> Shown {
    let mut tests: Vec<(String, String)> =
        table().iter().map(|check| (check.name().to_owned(), check.id())).collect();
    for root in TESTS {
        for path in sources(&workspace().join(root)) {
            let source = std::fs::read_to_string(&path).unwrap();
            let place = path.strip_prefix(workspace()).unwrap().with_extension("");
            for name in functions(&source) {
                tests.push((name.to_owned(), format!("{}::{name}", place.display())));
            }
        }
    }
    let mut shown = Shown::new();
    for (name, id) in tests {
        for number in numbers_in(&name) {
            assert!(row(number).is_some(), "{id} names {number}, which there is not");
            shown.entry(number).or_default().push(id.clone());
        }
    }
    shown
}

/// The Rust sources below a directory, which need not be there.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The names of the functions in a source that are not in comments or strings of many lines.
fn functions(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let line = line.trim_start();
        let before = line.find("fn ").filter(|at| {
            line[..*at]
                .split_whitespace()
                .all(|word| matches!(word, "async" | "const" | "pub" | "pub(crate)" | "pub(super)"))
        })?;
        let name = &line[before + 3..];
        name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next()
    })
}

fn page(shown: &Shown) -> String {
    let mut page = String::from(
        "# Faults and cases\n\n\
         What a lock has to stand, by number, and the tests that show it: `group::name` is a check \
         of the\nconformance suite, which runs over every driver; else the file is named. This \
         page is made by\n`LEASEHOLD_WRITE_FAULTS=1 cargo test -p leasehold-conformance --test \
         catalogue`, and that test fails\nwhen a number has neither a test nor an excuse. What a \
         subject made of each number stands at the end\nof its conformance report.\n\n\
         | | faults | cases |\n| --- | --- | --- |\n",
    );
    let kinds = [Kind::Fault, Kind::Case];
    let count = |counts: &dyn Fn(&Row) -> bool| {
        kinds.map(|kind| rows().filter(|row| row.number().kind() == kind && counts(row)).count())
    };
    let mut line = |what: &str, [faults, cases]: [usize; 2]| {
        let _ = writeln!(page, "| {what} | {faults} | {cases} |");
    };
    line("shown by tests", count(&|row| row.excuse().is_none()));
    for kind in Excuse::KINDS {
        line(kind, count(&|row| row.excuse().is_some_and(|excuse| excuse.kind() == kind)));
    }
    line("all", count(&|_| true));
    for (kind, title) in kinds.into_iter().zip(["Faults", "Cases"]) {
        let _ = write!(page, "\n## {title}\n\n| number | what | shown by |\n| --- | --- | --- |\n");
        for row in rows().filter(|row| row.number().kind() == kind) {
            let by = match (row.excuse(), shown.get(&row.number())) {
                (Some(excuse), _) => excuse.to_string(),
                (None, Some(tests)) => {
                    let tests: Vec<_> = tests.iter().map(|test| format!("`{test}`")).collect();
                    tests.join(", ")
                }
                (None, None) => "**nothing**".to_owned(),
            };
            let _ = writeln!(page, "| {} | {} | {by} |", row.number(), row.what());
        }
    }
    page
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}
