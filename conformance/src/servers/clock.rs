//! A wall clock that a test moves while a program runs.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::verdict::Failure;

const LIBRARY: &str = "clock.so";
const OFFSET: &str = "offset";

/// The wall clock of those processes that are started with its [`environment`](Self::environment),
/// on a system with the GNU C library. At first it is the machine's. Clocks that count from the
/// start of the machine stay what they are.
#[derive(Debug)]
pub struct WallClock {
    directory: TempDir,
}

impl WallClock {
    /// Makes one, with the C compiler `cc`.
    ///
    /// # Errors
    ///
    /// [`Failure::missing`] where there is no `cc`, or it does not build the library.
    pub fn new() -> Result<Self, Failure> {
        let directory = tempfile::Builder::new().prefix("leasehold-clock-").tempdir()?;
        let source = directory.path().join("clock.c");
        fs::write(&source, include_str!("clock.c"))?;
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(directory.path().join(LIBRARY))
            .arg(source)
            .output();
        let built = built.map_err(|error| Failure::missing("cc", error))?;
        if !built.status.success() {
            let why = String::from_utf8_lossy(&built.stderr).into_owned();
            return Err(Failure::missing("cc", why));
        }
        let clock = Self { directory };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets it this many seconds before (below zero: behind) the machine's, for programs that run
    /// too.
    ///
    /// # Errors
    ///
    /// If the file that they read cannot be written.
    pub fn set(&self, seconds: i64) -> io::Result<()> {
        // In place, and never cut to nothing: they have it mapped.
        let path = self.directory.path().join(OFFSET);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        file.write_all_at(&seconds.to_ne_bytes(), 0)
    }

    /// What a program must find in its environment to have this clock.
    pub fn environment(&self) -> Vec<(String, PathBuf)> {
        let path = |name| self.directory.path().join(name);
        vec![("LD_PRELOAD".into(), path(LIBRARY)), ("LEASEHOLD_CLOCK".into(), path(OFFSET))]
    }
}
