//! Every numbered fault and case that a lock has to stand, and what excuses a number from a test.
//!
//! A test says which numbers it shows by the beginning of its name: `f15_c43_...` shows F15 and
//! C43 ([`numbers_in`]). `docs/faults.md` is made of these rows and the tests found.

mod cases;
mod excuse;
mod faults;
mod number;
mod tally;

pub use self::excuse::Excuse;
pub use self::number::{Kind, Number, numbers_in};
pub(crate) use self::tally::{Ended, Tally};

/// One number: what is to be shown, or why no test does.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    number: Number,
    what: &'static str,
    excuse: Option<Excuse>,
    stores: &'static [&'static str],
}

/// The stores of a network that have a driver.
const NETWORKED: &[&str] = &["redis", "etcd"];

impl Row {
    /// A number that a test must show over each of these stores.
    const fn shown(number: Number, what: &'static str, stores: &'static [&'static str]) -> Self {
        Self { number, what, excuse: None, stores }
    }

    /// A number that no test shows, and why.
    const fn excused(number: Number, what: &'static str, excuse: Excuse) -> Self {
        Self { number, what, excuse: Some(excuse), stores: &[] }
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> Number {
        self.number
    }

    /// What is to be shown, in a few words.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Over which stores it must be shown, as their drivers' packages are named
    /// (`leasehold-redis`); none where it is excused.
    #[must_use]
    pub fn stores(&self) -> &'static [&'static str] {
        self.stores
    }

    /// Why no test shows it; `None` if a test must.
    #[must_use]
    pub fn excuse(&self) -> Option<Excuse> {
        self.excuse
    }
}

/// All numbers, faults first.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    faults::ROWS.iter().chain(cases::ROWS)
}

/// The row of a number; `None` if there is no such number.
#[must_use]
pub fn row(number: Number) -> Option<&'static Row> {
    rows().find(|row| row.number == number)
}

#[cfg(test)]
mod tests {
    use super::{row, rows};
    use crate::catalogue::numbers_in;
    use crate::table::table;

    #[test]
    fn numbers_rise_and_none_stands_twice() {
        let numbers: Vec<_> = rows().map(|row| row.number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }

    #[test]
    fn every_number_in_a_checks_name_is_known_and_not_excused() {
        for check in table() {
            for number in numbers_in(check.name()) {
                let row = row(number).unwrap_or_else(|| panic!("{} names {number}", check.id()));
                assert!(row.excuse.is_none(), "{} shows {number}, which is excused", check.id());
            }
        }
    }
}
