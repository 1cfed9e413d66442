//! What the checks of one subject make of the numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::{Excuse, Number, numbers_in, rows};

/// How a check of some numbers ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended<'a> {
    Passed,
    NotApplicable(&'a str),
    /// Failed, or did not run.
    Otherwise,
}

/// Every number, in one of five lists.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Tally {
    /// Each check of it that applies passed.
    shown: Vec<String>,
    /// No check of it applies to this subject, and why the first does not.
    not_applicable: Vec<(String, String)>,
    /// A check of it failed, or did not run.
    not_shown: Vec<String>,
    /// No check has it: tests of the driver, the facade or the command do.
    elsewhere: Vec<String>,
    /// No test has it, and why: how many there are of each kind of excuse.
    excused: BTreeMap<&'static str, usize>,
}

impl Tally {
    /// The tally of checks by name.
    pub(crate) fn of<'a>(checks: impl IntoIterator<Item = (&'a str, Ended<'a>)>) -> Self {
        let mut ends: BTreeMap<Number, Vec<Ended<'a>>> = BTreeMap::new();
        for (name, ended) in checks {
            for number in numbers_in(name).into_iter().collect::<BTreeSet<_>>() {
                ends.entry(number).or_default().push(ended);
            }
        }
        let mut tally = Self::default();
        for kind in Excuse::KINDS {
            tally.excused.insert(kind, 0);
        }
        for row in rows() {
            let number = row.number().to_string();
            match (ends.get(&row.number()), row.excuse()) {
                (Some(ends), _) if ends.contains(&Ended::Otherwise) => tally.not_shown.push(number),
                (Some(ends), _) if ends.contains(&Ended::Passed) => tally.shown.push(number),
                (Some(ends), _) => {
                    let why = ends.iter().find_map(|ended| match ended {
                        Ended::NotApplicable(why) => Some((*why).to_owned()),
                        _ => None,
                    });
                    tally.not_applicable.push((number, why.unwrap_or_default()));
                }
                (None, Some(excuse)) => *tally.excused.entry(excuse.kind()).or_default() += 1,
                (None, None) => tally.elsewhere.push(number),
            }
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "of {} numbers of faults and cases:", rows().count())?;
        writeln!(f, "{:5} shown by checks that passed", self.shown.len())?;
        writeln!(f, "{:5} not shown: {}", self.not_shown.len(), self.not_shown.join(" "))?;
        writeln!(f, "{:5} not applicable to this subject", self.not_applicable.len())?;
        for (number, why) in &self.not_applicable {
            writeln!(f, "      {number}: {}", why.replace('\n', " "))?;
        }
        let elsewhere = self.elsewhere.join(" ");
        writeln!(f, "{:5} in no check, but in other tests: {elsewhere}", self.elsewhere.len())?;
        for kind in Excuse::KINDS {
            let count = self.excused.get(kind).copied().unwrap_or(0);
            writeln!(f, "{count:5} without a test: {kind}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, Tally};
    use crate::catalogue::rows;

    #[test]
    fn each_number_is_in_one_list() {
        let tally = Tally::of([
            ("f15_c43_one", Ended::Passed),
            ("f15_two", Ended::NotApplicable("no link")),
            ("c43_three", Ended::Otherwise),
            ("f25_four", Ended::NotApplicable("no restart")),
            ("none", Ended::Passed),
        ]);
        assert_eq!((tally.shown, tally.not_shown), (vec!["F15".into()], vec!["C43".into()]));
        assert_eq!(tally.not_applicable, [("F25".into(), "no restart".into())]);
        let excused: usize = tally.excused.values().sum();
        assert_eq!(3 + tally.elsewhere.len() + excused, rows().count());
    }
}
