//! The table with its results, as JSON and as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::catalogue::{Ended, Tally};
use crate::table::{Check, table};
use crate::verdict::{End, Verdict};

/// Where a report goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target(PathBuf);

impl Target {
    const FLAG: &'static str = "--report";
    const VARIABLE: &'static str = "LEASEHOLD_REPORT";

    /// Takes `--report PATH` out of a test's arguments, which the harness would refuse; without
    /// it, the environment decides.
    pub(crate) fn take_from(args: impl Iterator<Item = String>) -> (Vec<String>, Option<Self>) {
        let (mut rest, mut path) = (Vec::new(), None);
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.strip_prefix(Self::FLAG) {
                Some("") => path = args.next(),
                Some(value) if value.starts_with('=') => path = Some(value[1..].to_owned()),
                _ => rest.push(arg),
            }
        }
        let path = path.or_else(|| std::env::var(Self::VARIABLE).ok().filter(|p| !p.is_empty()));
        (rest, path.map(|path| Self(path.into())))
    }

    fn json(&self, subject: &str) -> PathBuf {
        if self.0.extension().is_some_and(|ext| ext == "json") {
            self.0.clone()
        } else {
            self.0.join(format!("conformance-{subject}.json"))
        }
    }
}

/// The results of one subject, collected while its checks run.
#[derive(Debug)]
pub(crate) struct Report {
    subject: String,
    results: Mutex<BTreeMap<String, Row>>,
}

/// One check and what came of it.
#[derive(Debug, Clone, Serialize)]
struct Row {
    id: String,
    #[serde(skip)]
    name: &'static str,
    clause: &'static str,
    level: String,
    shows: &'static str,
    result: Outcome,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    millis: u128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Passed,
    Failed,
    NotApplicable,
    Missing,
    /// Left out on the command line.
    NotRun,
}

#[derive(Serialize)]
struct Document<'a> {
    subject: &'a str,
    counts: BTreeMap<Outcome, usize>,
    checks: &'a [Row],
    /// Of the faults and cases, by their numbers.
    numbers: Tally,
}

impl Report {
    pub(crate) fn new(subject: &str) -> Self {
        Self { subject: subject.to_owned(), results: Mutex::default() }
    }

    pub(crate) fn add(&self, check: &Check, verdict: &Verdict, took: Duration) {
        let (result, why) = match verdict {
            Ok(()) => (Outcome::Passed, ""),
            Err(failure) => {
                let result = match failure.end() {
                    End::Failed => Outcome::Failed,
                    End::NotApplicable => Outcome::NotApplicable,
                    End::Missing => Outcome::Missing,
                };
                (result, failure.why())
            }
        };
        let row = Row { result, why: why.to_owned(), millis: took.as_millis(), ..Row::of(check) };
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert(row.id.clone(), row);
    }

    pub(crate) fn write(&self, target: &Target) -> io::Result<()> {
        let rows = self.rows();
        let json = target.json(&self.subject);
        if let Some(directory) = json.parent().filter(|path| *path != Path::new("")) {
            std::fs::create_dir_all(directory)?;
        }
        let mut counts = BTreeMap::new();
        for row in &rows {
            *counts.entry(row.result).or_default() += 1;
        }
        let numbers = Tally::of(rows.iter().map(|row| (row.name, row.ended())));
        let document = Document { subject: &self.subject, counts, checks: &rows, numbers };
        std::fs::write(&json, serde_json::to_string_pretty(&document)? + "\n")?;
        std::fs::write(json.with_extension("txt"), self.text(&document))
    }

    /// All checks in the table's order, also those that did not run.
    fn rows(&self) -> Vec<Row> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |check| {
            let row = Row::of(check);
            results.get(&row.id).cloned().unwrap_or(row)
        };
        table().into_iter().map(row).collect()
    }

    fn text(&self, document: &Document<'_>) -> String {
        let mut text = format!("conformance of {}\n\n", self.subject);
        let width = document.checks.iter().map(|row| row.id.len()).max().unwrap_or(0);
        for row in document.checks {
            let result = row.result.word();
            let _ = write!(text, "{result:14} {:width$}  {:9} {}", row.id, row.clause, row.shows);
            if !row.why.is_empty() {
                let _ = write!(text, " -- {}", row.why.replace('\n', " "));
            }
            text.push('\n');
        }
        text.push('\n');
        for (result, count) in &document.counts {
            let _ = writeln!(text, "{:14} {count}", result.word());
        }
        let _ = write!(text, "\n{}", document.numbers);
        text
    }
}

impl Row {
    fn of(check: &Check) -> Self {
        Self {
            id: check.id(),
            name: check.name(),
            clause: check.clause(),
            level: check.level().to_string(),
            shows: check.shows(),
            result: Outcome::NotRun,
            why: String::new(),
            millis: 0,
        }
    }

    fn ended(&self) -> Ended<'_> {
        match self.result {
            Outcome::Passed => Ended::Passed,
            Outcome::NotApplicable => Ended::NotApplicable(&self.why),
            Outcome::Failed | Outcome::Missing | Outcome::NotRun => Ended::Otherwise,
        }
    }
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::NotApplicable => "not applicable",
            Self::Missing => "missing",
            Self::NotRun => "not run",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Target};
    use crate::table::table;
    use crate::verdict::Failure;
    use std::time::Duration;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn the_report_flag_is_taken_out_of_the_arguments() {
        for args in [&["x", "--report", "a.json", "-q"][..], &["x", "--report=a.json", "-q"]] {
            let (rest, target) = Target::take_from(strings(args).into_iter());
            assert_eq!(rest, strings(&["x", "-q"]));
            assert_eq!(target, Some(Target("a.json".into())));
        }
    }

    #[test]
    fn a_report_holds_every_check_in_both_forms_with_the_reason() {
        let report = Report::new("sample");
        let checks = table();
        report.add(checks[0], &Ok(()), Duration::ZERO);
        report.add(checks[1], &Err(Failure::not_applicable("no such hook")), Duration::ZERO);
        report.add(checks[2], &Err(Failure::failed("two held")), Duration::ZERO);
        let directory = tempdir();
        report.write(&Target(directory.clone())).unwrap();
        let json = std::fs::read_to_string(directory.join("conformance-sample.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = json["checks"].as_array().unwrap();
        assert_eq!(rows.len(), checks.len());
        assert_eq!(rows[0]["result"], "passed");
        assert_eq!(rows[1]["why"], "no such hook");
        assert_eq!(json["counts"]["not_run"], checks.len() - 3);
        let text = std::fs::read_to_string(directory.join("conformance-sample.txt")).unwrap();
        assert!(text.contains("FAILED") && text.contains("-- two held"), "{text}");
        assert!(text.contains("shown by checks that passed"), "{text}");
        assert!(json["numbers"]["excused"]["cannot apply"].as_u64() > Some(0), "{json}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    fn tempdir() -> std::path::PathBuf {
        std::env::temp_dir().join(format!("leasehold-report-{}", std::process::id()))
    }
}
