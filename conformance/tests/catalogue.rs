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
type Shown = BTreeMap<Number, Vec<Test>>;

/// A test as the page names it.
#[derive(Debug, Clone)]
struct Test {
    name: String,
    id: String,
    /// The package that runs it, in the workspace; the suite's checks run over every driver.
    package: Option<&'static str>,
}

impl Test {
    fn runs_over(&self, store: &str) -> bool {
        self.package.is_none_or(|package| package.strip_prefix("backend-") == Some(store))
    }
}

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
    let tests = match (shown.get(&number), row.excuse()) {
        (None, Some(_)) => return None,
        (None, None) => {
            return Some(format!("{number} has neither a test nor an excuse: {}", row.what()));
        }
        (Some(tests), Some(_)) => {
            return Some(format!("{number} is excused, and shown by {tests:?}"));
        }
        (Some(tests), None) => tests,
    };
    let lacks = |store: &&&str| !tests.iter().any(|test| test.runs_over(store));
    let lacking: Vec<_> = row.stores().iter().filter(lacks).copied().collect();
    let what = row.what();
    (!lacking.is_empty()).then(|| format!("{number} has no test over {lacking:?}: {what}"))
}

fn shown() -> Shown {
    let suite = table().into_iter().map(|check| Test {
        name: check.name().to_owned(),
        id: check.id(),
        package: None,
    });
    let mut tests: Vec<_> = suite.collect();
    for root in TESTS {
        for path in sources(&workspace().join(root)) {
            let source = std::fs::read_to_string(&path).unwrap();
            tests.extend(tests_in(root, &path, &source));
            for path in shared(&path, &source) {
                let all = tests_in(root, &path, &std::fs::read_to_string(&path).unwrap());
                // Only those in the table of the one that takes them.
                let taken = |test: &Test| source.contains(&format!("::{},", test.name));
                tests.extend(all.into_iter().filter(taken));
            }
        }
    }
    let mut shown = Shown::new();
    for test in tests {
        for number in numbers_in(&test.name) {
            assert!(row(number).is_some(), "{} names {number}, which there is not", test.id);
            shown.entry(number).or_default().push(test.clone());
        }
    }
    shown
}

fn tests_in(root: &'static str, path: &Path, source: &str) -> Vec<Test> {
    let package = root.split('/').next().unwrap();
    let place = path.strip_prefix(workspace()).unwrap().with_extension("");
    let place = place.display().to_string();
    // A source that several packages share is named with the one that runs it.
    let place = if place.starts_with(root) { place } else { format!("{package}: {place}") };
    let test = |name: &str| Test {
        name: name.to_owned(),
        id: format!("{place}::{name}"),
        package: Some(package),
    };
    functions(source).map(test).collect()
}

/// The sources that one takes from those that several packages share.
fn shared(path: &Path, source: &str) -> Vec<PathBuf> {
    let root = workspace().join("conformance/networked");
    let named = source.lines().filter_map(|line| {
        let relative = line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]")?;
        path.parent()?.join(relative).canonicalize().ok()
    });
    named.filter(|path| path.starts_with(&root)).collect()
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
         of the\nconformance suite, which runs over every driver; else the file is named, and \
         before it the package\nwhere several run it. This page is made by \
         `LEASEHOLD_WRITE_FAULTS=1 cargo test -p\nleasehold-conformance --all-features --test \
         catalogue`, and that test fails when a number has neither\na test nor an excuse, or has \
         no test over a store on which it must be shown. What a subject made of\neach number \
         stands at the end of its conformance report.\n\n\
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
                    let tests: Vec<_> = tests.iter().map(|test| format!("`{}`", test.id)).collect();
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
