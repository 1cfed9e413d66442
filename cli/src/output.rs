//! Standard output and standard error.

use std::fmt::Display;
use std::io::{self, Write as _};

use serde::Serialize;

use crate::voice::Voice;

/// Prints a line. A reader that has gone (`leasehold list | head`) is no error.
pub(crate) fn print(line: String) -> io::Result<()> {
    forgive(writeln!(io::stdout(), "{line}"))
}

/// Says something to people, on standard error. If nobody hears, that must not stop us.
pub(crate) fn say(what: &dyn Display) {
    let _ = Voice.write_all(format!("leasehold: {what}\n").as_bytes()); // it never fails
}

/// Writes what may be longer than a line.
pub(crate) fn write(text: &[u8]) -> io::Result<()> {
    forgive(io::stdout().write_all(text))
}

fn forgive(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints a value as JSON, on one line.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    print(serde_json::to_string(value)?)
}
