//! What clients saw, and whether it can have been a lock.
//!
//! A *hold* is the time in which a client believes that it has a name: from the answer to its
//! claim until it sends the release, sees a loss, or its deadline passes, whichever is first. Two
//! holds of a name must not overlap, and tokens must rise, both in real time (a grant that was
//! answered before another was asked for has the lower token) and in the order of holding.
//!
//! What was asked for and not answered may have happened. It ends nothing and proves nothing, so
//! it takes no part in the verdict; it stands in the history for whoever reads it.

mod check;
mod recorder;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::check::{Finding, Hold};
pub use self::recorder::{Call, Recorder};
use crate::verdict::{Failure, Verdict};

/// One thing that one client did or saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in nanoseconds since the clock's origin. No two events have the same time.
    pub at: u64,
    /// The client's number.
    pub client: usize,
    /// The lock's name.
    pub name: String,
    /// The acquisition's owner.
    pub owner: String,
    /// What it did or saw.
    #[serde(flatten)]
    pub what: What,
}

/// What a client did or saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// What it asked for last may have happened, now or later.
    Unknown,
}

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
    /// If a line is no event.
    pub fn from_json_lines(text: &str) -> serde_json::Result<Self> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        Ok(Self::new(lines.map(serde_json::from_str).collect::<Result<_, _>>()?))
    }

    /// One JSON object a line.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "numbers and text always have a JSON form")]
    pub fn to_json_lines(&self) -> String {
        let line = |event| serde_json::to_string(event).expect("numbers and text") + "\n";
        self.events.iter().map(line).collect()
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

    /// Writes it below the build's target directory.
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
