//! The number of a fault or a case.

use std::fmt;

/// Which of the two lists a number is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A fault of a store, a link, a process or a caller, and how the lock must stand it.
    Fault,
    /// What users of distributed locks have met in production.
    Case,
}

/// `F15` or `C43`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number {
    kind: Kind,
    number: u16,
}

impl Number {
    /// The fault of this number.
    #[must_use]
    pub const fn fault(number: u16) -> Self {
        Self { kind: Kind::Fault, number }
    }

    /// The case of this number.
    #[must_use]
    pub const fn case(number: u16) -> Self {
        Self { kind: Kind::Case, number }
    }

    /// Which list it is of.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.kind {
            Kind::Fault => 'F',
            Kind::Case => 'C',
        };
        write!(f, "{letter}{}", self.number)
    }
}

/// The numbers that a test's name begins with: of `f15_c43_lost_answer` these are F15 and C43.
#[must_use]
pub fn numbers_in(name: &str) -> Vec<Number> {
    name.split('_').map_while(number).collect()
}

fn number(word: &str) -> Option<Number> {
    let (letter, digits) = word.split_at_checked(1)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    match letter {
        "f" => Some(Number::fault(number)),
        "c" => Some(Number::case(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Number, numbers_in};

    #[test]
    fn numbers_are_what_a_name_begins_with() {
        let both = vec![Number::fault(15), Number::case(43)];
        assert_eq!(numbers_in("f15_c43_lost_answer_of_c7"), both);
        assert_eq!(numbers_in("f15"), [Number::fault(15)]);
        for name in ["free_name", "f_1", "c", "", "x15_y", "first_of_2", "f+1_x", "f99999_x"] {
            assert_eq!(numbers_in(name), [], "{name}");
        }
    }
}
