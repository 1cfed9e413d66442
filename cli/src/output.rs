//! Standard output.

use std::io::{self, Write as _};

use serde::Serialize;

/// Prints a line. A reader that has gone (`leasehold list | head`) is no error.
pub(crate) fn print(line: String) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Prints a value as JSON, on one line.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    print(serde_json::to_string(value)?)
}
