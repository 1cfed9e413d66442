//! `leasehold-conformance`: judges and draws a history, wherever it comes from.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use leasehold_conformance::history::History;

/// Decides whether what the clients of a lock saw can have been a lock.
///
/// A history is one JSON object a line: `at` in nanoseconds of one clock, `client` (a number),
/// `name`, `owner`, and `event`, which is claim, granted (with `token` and the deadline `until`),
/// held, renewal, renewed (with `until`), lost, release, write (with `token`), written, refused,
/// unknown, or fault (with its text as `fault`, and none of client, name and owner).
#[derive(Debug, Parser)]
#[command(name = "leasehold-conformance", version, after_help = AFTER, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

const AFTER: &str = "\
Exit status:
  0   nothing was found
  1   it can't have been a lock
  64  wrong usage
  65  it is no history
  74  a file can't be read or written

Examples:
  leasehold-conformance check history.jsonl
  leasehold-conformance draw history.jsonl history.html";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print what can't have been a lock, a line each.
    Check {
        /// The history; - is standard input.
        history: PathBuf,
    },
    /// Draw it as one page of HTML.
    Draw {
        /// The history; - is standard input.
        history: PathBuf,
        /// The page; - is standard output.
        page: PathBuf,
    },
}

const FOUND: u8 = 1;
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(asked) => {
            let _ = asked.print();
            return if asked.use_stderr() { USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match run(&arguments.verb) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("leasehold-conformance: {failure}");
            failure.code()
        }
    }
}

fn run(verb: &Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Check { history } => {
            let history = read(history)?;
            let findings = history.check();
            let mut out = io::stdout().lock();
            let told = findings.iter().try_for_each(|finding| writeln!(out, "{finding}"));
            told.map_err(|error| Failure::file(Path::new("-"), &error))?;
            Ok(if findings.is_empty() { ExitCode::SUCCESS } else { FOUND.into() })
        }
        Verb::Draw { history, page } => {
            let drawn = read(history)?.draw();
            let written = if page == Path::new("-") {
                io::stdout().write_all(drawn.as_bytes())
            } else {
                std::fs::write(page, drawn)
            };
            written.map_err(|error| Failure::file(page, &error))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn read(path: &Path) -> Result<History, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().read_to_string(&mut text)
    } else {
        File::open(path).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Failure::file(path, &error))?;
    let history = History::from_json_lines(&text);
    history.map_err(|error| Failure::NoHistory(format!("{}: {error}", path.display())))
}

#[derive(Debug)]
enum Failure {
    NoHistory(String),
    File(String),
}

impl Failure {
    fn file(path: &Path, error: &io::Error) -> Self {
        Self::File(format!("{}: {error}", path.display()))
    }

    fn code(&self) -> ExitCode {
        match self {
            Self::NoHistory(_) => 65.into(),
            Self::File(_) => 74.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHistory(why) | Self::File(why) => f.write_str(why),
        }
    }
}
