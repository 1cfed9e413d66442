//! Why a number has no test.

use std::fmt;

/// The only reasons for which a number may have no test: it cannot apply, it cannot be caused here,
/// or it belongs to another issue, which may not be filed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excuse {
    /// It can't happen to any store that is built, and this is which property keeps it off.
    CannotApply(&'static str),
    /// It can't be caused on the machine that the tests run on, as this command and what it
    /// printed show.
    ImpossibleHere {
        /// What was run.
        command: &'static str,
        /// What it printed.
        output: &'static str,
    },
    /// It belongs to an issue that is still open.
    Issue(u8, &'static str),
    /// It belongs to an issue that is not filed yet, as what it waits for is not built.
    Later(&'static str),
}

impl Excuse {
    /// The kinds, in the order in which they are counted.
    pub const KINDS: [&'static str; 4] = [
        "cannot apply",
        "impossible on this machine",
        "belongs to another issue",
        "belongs to a later issue, not filed yet",
    ];

    /// Which of the [`KINDS`](Self::KINDS) it is.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::CannotApply(_) => Self::KINDS[0],
            Self::ImpossibleHere { .. } => Self::KINDS[1],
            Self::Issue(..) => Self::KINDS[2],
            Self::Later(_) => Self::KINDS[3],
        }
    }
}

impl fmt::Display for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CannotApply(why) => write!(f, "cannot apply: {why}"),
            Self::ImpossibleHere { command, output } => {
                write!(f, "impossible on this machine: `{command}` prints `{output}`")
            }
            Self::Issue(number, subject) => write!(f, "belongs to issue {number} ({subject})"),
            Self::Later(what) => {
                write!(f, "belongs to a later issue that is not filed yet: waits for {what}")
            }
        }
    }
}
