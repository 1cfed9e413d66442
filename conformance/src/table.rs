//! The one table of named checks.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::bench::Bench;
use crate::subject::Share;
use crate::verdict::Verdict;

/// One named check.
#[derive(Clone, Copy)]
pub struct Check {
    group: Group,
    name: &'static str,
    clause: &'static str,
    shows: &'static str,
    share: Share,
    level: Level,
    run: Run,
}

/// The function of a check.
pub(crate) type Run = for<'a> fn(&'a Bench) -> BoxFuture<'a, Verdict>;

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// What a driver answers at all.
    Base,
    /// At most one lease a name.
    Exclusion,
    /// A lease ends at its TTL, and not before.
    Expiry,
    /// Re-arming.
    Renewal,
    /// Giving back, and closing for a while.
    Release,
    /// Fencing tokens.
    Tokens,
    /// Queues and wake-ups.
    Waiting,
    /// Release and grant in one step.
    HandOver,
    /// Futures dropped at each await.
    Cancellation,
    /// Deadlines and the loss signal.
    Loss,
    /// Names and numbers at their limits.
    Names,
    /// Lost answers, dead links, restarts, operators.
    Faults,
    /// What is left behind.
    Resources,
}

/// What a check drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The driver's verbs.
    Driver,
    /// The facade over the driver.
    Policy,
}

impl Check {
    pub(crate) const fn new(
        group: Group,
        name: &'static str,
        clause: &'static str,
        shows: &'static str,
        run: Run,
    ) -> Self {
        Self { group, name, clause, shows, share: Share::Shared, level: Level::Driver, run }
    }

    /// Needs a store that nobody else uses.
    pub(crate) const fn private(mut self) -> Self {
        self.share = Share::Private;
        self
    }

    /// Drives the facade.
    pub(crate) const fn policy(mut self) -> Self {
        self.level = Level::Policy;
        self
    }

    /// Its name in reports and on the command line: `group::name`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}::{}", self.group, self.name)
    }

    /// Its name without the group.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it is about.
    #[must_use]
    pub fn group(&self) -> Group {
        self.group
    }

    /// The clause of the contract that it shows, by its number in the docs of `leasehold-api`; for
    /// policy also a section of the design (`D4.2`).
    #[must_use]
    pub fn clause(&self) -> &'static str {
        self.clause
    }

    /// What it shows, in a sentence.
    #[must_use]
    pub fn shows(&self) -> &'static str {
        self.shows
    }

    /// Whether it may share its store with other checks.
    #[must_use]
    pub fn share(&self) -> Share {
        self.share
    }

    /// What it drives.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Runs it. Where its group has no switch, "not applicable" is a failure.
    ///
    /// # Errors
    ///
    /// Why it did not pass.
    ///
    /// # Cancel safety
    ///
    /// Dropped half way, it leaves what it holds to end with its TTLs.
    pub async fn run(&self, bench: &Bench) -> Verdict {
        let verdict = (self.run)(bench).await;
        if self.group.has_switch() { verdict } else { verdict.map_err(|end| end.without_switch()) }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Check({})", self.id())
    }
}

impl Group {
    /// Whether a check of the group may be not applicable. Exclusion, expiry, renewal, release and
    /// tokens have no switch.
    #[must_use]
    pub fn has_switch(self) -> bool {
        use Group::{Exclusion, Expiry, Release, Renewal, Tokens};
        !matches!(self, Exclusion | Expiry | Renewal | Release | Tokens)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Exclusion => "exclusion",
            Self::Expiry => "expiry",
            Self::Renewal => "renewal",
            Self::Release => "release",
            Self::Tokens => "tokens",
            Self::Waiting => "waiting",
            Self::HandOver => "hand_over",
            Self::Cancellation => "cancellation",
            Self::Loss => "loss",
            Self::Names => "names",
            Self::Faults => "faults",
            Self::Resources => "resources",
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Driver => "driver",
            Self::Policy => "policy",
        })
    }
}

/// All checks, group by group.
#[must_use]
pub fn table() -> Vec<&'static Check> {
    crate::checks::ALL.iter().copied().flatten().collect()
}

/// The check with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Check> {
    table().into_iter().find(|check| check.id() == id)
}

/// The rows of one group: each names its function, the clause, and what it shows. A function that
/// stands in no row is dead code, which the build refuses.
macro_rules! checks {
    ($group:ident: $($name:ident $([$($flag:ident),+])?, $clause:literal, $shows:literal;)+) => {
        pub(crate) const CHECKS: &[$crate::table::Check] = &[$(
            $crate::table::Check::new(
                $crate::table::Group::$group,
                stringify!($name),
                $clause,
                $shows,
                |bench| Box::pin($name(bench)),
            )$($(.$flag())+)?
        ),+];
    };
}

pub(crate) use checks;

#[cfg(test)]
mod tests {
    use super::table;
    use std::collections::BTreeSet;

    /// Clauses that no check over a driver can show, and who does.
    const ELSEWHERE: [(&str, &str); 5] = [
        ("2.4", "a suspend can't be caused here: `lock-api` tests its boot clock"),
        ("6.3", "a refused subscription needs the server's own permissions: the driver's tests"),
        ("9.1", "the driver's client library is not known here: a test a row of its table"),
        (
            "9.2",
            "what is secret is not known here: the driver's tests, and the facade's `tests/connect.rs`",
        ),
        ("10.4", "the store that is written to is the caller's"),
    ];

    #[test]
    fn every_clause_of_the_contract_is_shown_by_a_check() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../lock-api/src/lib.rs");
        let contract = std::fs::read_to_string(path).unwrap();
        let mut clauses = BTreeSet::new();
        let mut section = "";
        for line in contract.lines().filter_map(|line| line.strip_prefix("//! ")) {
            if let Some((number, _)) = line.strip_prefix("# ").and_then(|l| l.split_once(". ")) {
                section = number;
            } else if let Some((number, _)) = line.split_once(". ")
                && number.parse::<u8>().is_ok()
            {
                clauses.insert(format!("{section}.{number}"));
            }
        }
        assert!(clauses.len() > 45, "the contract is not read rightly: {clauses:?}");
        let named: BTreeSet<_> = table()
            .iter()
            .flat_map(|check| check.clause().split(", "))
            .map(str::to_owned)
            .collect();
        let elsewhere: BTreeSet<_> = ELSEWHERE.map(|(clause, _)| clause.to_owned()).into();
        let missing: Vec<_> =
            clauses.difference(&named).filter(|c| !elsewhere.contains(*c)).collect();
        assert!(missing.is_empty(), "no check shows {missing:?}");
        let numbered = |clause: &&String| clause.starts_with(|first: char| first.is_ascii_digit());
        let unknown: Vec<_> = named.difference(&clauses).filter(numbered).collect();
        assert!(unknown.is_empty(), "the contract has no {unknown:?}");
    }

    #[test]
    fn no_two_checks_share_an_id() {
        let ids: BTreeSet<_> = table().iter().map(|check| check.id()).collect();
        assert_eq!(ids.len(), table().len());
    }
}
