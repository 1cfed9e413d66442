//! What clients saw, and whether it can have been a lock.
//!
//! A *hold* is the time in which a client believes that it has a name: from the answer to its
//! claim until it sends the release, sees a loss, or its deadline passes, whichever is first. Two
//! holds of a name must not overlap, and tokens must rise, both in real time (a grant that was
//! answered before another was asked for has the lower token) and in the order of holding.
//!
//! Writes that carry a token take part where they are recorded: none may be accepted after one with
//! a higher token was, and none refused without such a one.
//!
//! The program `leasehold-conformance` (feature `tool`) judges and draws a history from elsewhere.
//!
//! What was asked for and not answered may have happened. It ends nothing and proves nothing, so
//! it takes no part in the verdict; it stands in the history for whoever reads it.

mod check;
mod recorder;
mod timeline;
mod writes;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::check::{Finding, Hold};
pub use self::recorder::{Call, Recorder};
pub use self::writes::Write;
use crate::verdict::{Failure, Verdict};

/// One thing that one client did or saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in nanoseconds since the clock's origin. No two events have the same time.
    pub at: u64,
    /// The client's number.
    #[serde(default)]
    pub client: usize,
    /// The lock's name; empty for a fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The acquisition's owner; empty for a fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// What it did or saw.
    #[serde(flatten)]
    pub what: What,
}

/// What a client did or saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// It is about to ask for the name.
    Claim,
    /// It was granted the name.
    Granted {
        /// With this token.
        token: u64,
        /// Its deadline.
        until: u64,
    },
    /// Somebody else has the name.
    Held,
    /// It is about to renew.
    Renewal,
    /// The renewal was answered.
    Renewed {
        /// Its deadline from now on.
        until: u64,
    },
    /// It saw that the lease is lost.
    Lost,
    /// It is about to release.
    Release,
    /// It is about to write under the lock, with this token.
    Write {
        /// The token that the write carries.
        token: u64,
    },
    /// The write was accepted.
    Written,
    /// The write was refused, as its token is too low.
    Refused,
    /// What it asked for last may have happened, now or later.
    Unknown,
    /// Something was done to the store, the network or a process. It takes no part in the verdict.
    Fault {
        /// What, for people.
        fault: String,
    },
}

/// A line that is no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoHistory {
    line: usize,
    why: String,
}

impl fmt::Display for NoHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for NoHistory {}

/// Events by time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// A history of these events, in any order.
    #[must_use]
    pub fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.at);
        Self { events }
    }

    /// The events by time.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Reads a history back: one JSON object a line.
    ///
    /// # Errors
    ///
    /// If a line is no event: its number, and why.
    pub fn from_json_lines(text: &str) -> Result<Self, NoHistory> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let event = |(at, line)| {
            serde_json::from_str(line).map_err(|error| {
                let why = error.to_string();
                // Of the one line that was given.
                let why = why.split(" at line 1 ").next().unwrap_or(&why).to_owned();
                NoHistory { line: at + 1, why }
            })
        };
        Ok(Self::new(lines.map(event).collect::<Result<_, _>>()?))
    }

    /// One JSON object a line.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "numbers and text always have a JSON form")]
    pub fn to_json_lines(&self) -> String {
        let line = |event| serde_json::to_string(event).expect("numbers and text") + "\n";
        self.events.iter().map(line).collect()
    }

    /// The time each acquisition was believed to hold, by the time of its grant.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        check::holds(&self.events, &mut Vec::new())
    }

    /// The writes, by the time they were sent.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        writes::writes(&self.events)
    }

    /// The history as one page of HTML, with nothing outside of it: a lane a client, holds as
    /// bars with their tokens, faults as marks; overlaps and stale writes are red.
    #[must_use]
    pub fn draw(&self) -> String {
        timeline::draw(self)
    }

    /// Everything that can't have been a lock, exclusion first; empty for a good history.
    #[must_use]
    pub fn check(&self) -> Vec<Finding> {
        check::check(&self.events)
    }

    /// Passes a good history. A bad one is kept as a file whose path the failure names.
    ///
    /// # Errors
    ///
    /// What was found.
    pub fn verdict(&self, label: &str) -> Verdict {
        let findings = self.check();
        if findings.is_empty() {
            return Ok(());
        }
        let kept = match self.keep(label) {
            Ok(path) => format!("kept in {}", path.display()),
            Err(error) => format!("not kept: {error}"),
        };
        let found: Vec<_> = findings.iter().take(5).map(ToString::to_string).collect();
        let (count, found) = (findings.len(), found.join("; "));
        Err(Failure::failed(format!("{count} findings in the history ({kept}): {found}")))
    }

    /// Writes it below the build's target directory, and the page that shows it beside it.
    ///
    /// # Errors
    ///
    /// What the file system answers.
    pub fn keep(&self, label: &str) -> io::Result<PathBuf> {
        let directory = target_directory().join("histories");
        std::fs::create_dir_all(&directory)?;
        let first = self.events.first().map_or(0, |event| event.at);
        let path = directory.join(format!("{label}-{}-{first}.jsonl", std::process::id()));
        std::fs::write(&path, self.to_json_lines())?;
        std::fs::write(path.with_extension("html"), self.draw())?;
        Ok(path)
    }
}

/// The directory cargo builds into, found from the running test; the system's temporary one
/// elsewhere.
fn target_directory() -> PathBuf {
    let executable = std::env::current_exe().unwrap_or_default();
    let deps = executable.ancestors().find(|path| path.ends_with("deps"));
    let target = deps.and_then(Path::parent).and_then(Path::parent);
    target.map_or_else(std::env::temp_dir, Path::to_owned)
}
