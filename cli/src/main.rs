//! The `leasehold` command; README.md says what it promises.

#[cfg(not(target_os = "linux"))]
compile_error!("the command needs Linux: a child subreaper and /proc end what a command started");

mod args;
mod channel;
mod check;
mod command;
mod config;
mod exit;
mod family;
mod generate;
mod inspect;
mod outcome;
mod output;
mod plan;
mod renewals;
mod run;
mod signals;
mod supervise;
mod target;
mod terminal;
mod voice;
mod waiting;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{Arguments, Verb};
use crate::exit::{Failure, USAGE};

fn main() -> ExitCode {
    let status = begin();
    voice::fall_silent();
    status
}

fn begin() -> ExitCode {
    if let Err(error) = signals::outlive_file_size_limits() {
        return end(Err(error.into()));
    }
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == supervise::VERB) {
        return end(supervise::supervise(words.collect()));
    }
    let arguments = match Arguments::try_parse_from(args::asked()) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors.
            let status = if error.use_stderr() { USAGE } else { 0 };
            let _ = error.print();
            if let Some(tip) = args::tip(&error) {
                output::say(&tip);
            }
            return ExitCode::from(status);
        }
    };
    end(obey(arguments.verb))
}

fn end(status: Result<u8, Failure>) -> ExitCode {
    match status {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            output::say(&failure);
            ExitCode::from(failure.status)
        }
    }
}

fn obey(verb: Verb) -> Result<u8, Failure> {
    match verb {
        Verb::Run(asked) => online(run::run(&asked)),
        Verb::Status(asked) => online(inspect::status(&asked)),
        Verb::List(asked) => online(inspect::list(&asked)),
        Verb::Evict(asked) => online(inspect::evict(&asked)),
        Verb::Check(asked) => online(check::check(&asked)),
        Verb::Completions { shell } => generate::completions(shell),
        Verb::Man { directory } => generate::man(&directory),
    }
}

/// Runs what talks to a lock server.
fn online(work: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    log()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(work);
    // A host name that is still being looked up would hold it.
    runtime.shutdown_background();
    status
}

/// Logs to standard error, by default errors only: in cron every line is a mail.
fn log() -> Result<(), Failure> {
    const VARIABLE: &str = "LEASEHOLD_LOG";
    let level = match std::env::var(VARIABLE) {
        Ok(level) if !level.is_empty() => level.parse().map_err(|_| {
            Failure::config(format!(
                "{VARIABLE} is not one of off, error, warn, info, debug, trace"
            ))
        })?,
        _ => LevelFilter::ERROR,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| voice::Voice)
        .with_ansi(std::io::stderr().is_terminal())
        // A log that can't be written must not end a command.
        .log_internal_errors(false)
        .init();
    Ok(())
}
