//! What can be asked for on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Runs commands under a distributed lock, and shows who holds it.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_help = AFTER, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const AFTER: &str = "\
Environment:
  LEASEHOLD_URL  the lock server, as --url; it may hold a password
  LEASEHOLD_LOG  what is logged to standard error: off, error (default),
                 warn, info, debug or trace

Examples:
  export LEASEHOLD_URL=redis://127.0.0.1:6379
  leasehold run nightly -- ./report.sh";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(Run),
    Status(Status),
    List(List),
    Evict(Evict),
    Check(Check),
    /// Print a completion script for a shell.
    #[command(
        after_help = "Examples:\n  leasehold completions bash > /etc/bash_completion.d/leasehold"
    )]
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the manual pages into a directory.
    #[command(after_help = "Examples:\n  leasehold man /usr/local/share/man/man1")]
    Man {
        directory: PathBuf,
    },
}

/// Run a command while holding the lock NAME.
///
/// Waits until the lock is free, without limit unless told otherwise; runs the command; releases
/// the lock when the command and all that it started are gone. If the lock is lost, the command is
/// ended: SIGTERM in time before the lease ends, SIGKILL by its end.
///
/// The command gets LEASEHOLD_NAME, LEASEHOLD_TOKEN (the fencing token, to be passed with every
/// write that the lock protects) and LEASEHOLD_OWNER.
#[derive(Debug, Args)]
#[command(after_help = RUN_AFTER)]
#[command(override_usage = "leasehold run [OPTIONS] NAME -- COMMAND...")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) target: Target,

    /// How long the lease lasts without renewal: for so long a crash blocks others. At least 1s,
    /// and what the lock server takes [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,

    /// Give up if the lock is not acquired after so long [default: wait without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Give up at once if somebody else holds the lock
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// Keep the lock closed for the rest of this time since the grant, also if the command ends
    /// earlier
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) min_hold: Option<Duration>,

    /// End the command, and release the lock, so long after the grant; the exit status is 76 then.
    /// At least 1s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,

    /// A text that tells people who holds the lock, at most 128 bytes
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// What the lock must give at least
    #[arg(long, value_enum)]
    pub(crate) guarantee: Option<Guarantee>,

    /// Time from SIGTERM to SIGKILL, at most half of the TTL and of max-hold [default: a quarter of
    /// them, at most 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,

    /// The lock's name: 1 to 512 bytes of UTF-8 without control characters
    pub(crate) name: String,

    /// The command and its arguments, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const RUN_AFTER: &str = "\
Environment:
  LEASEHOLD_URL    the lock server, as --url; kept from the command if it
                   holds a password
  LEASEHOLD_LOG    what is logged to standard error: off, error (the
                   default), warn, info, debug or trace
  LEASEHOLD_NAME   to the command: the lock's name
  LEASEHOLD_TOKEN  to the command: the fencing token
  LEASEHOLD_OWNER  to the command: the owner, as `status --json` shows it

Exit status:
  the command's own; 128 + N if signal N ended it
  64   wrong usage
  69   the backend can't be reached for 30 s (or --wait, if that is
       less), or refuses
  70   internal error, or /proc is that of another pid namespace
  75   the lock was not acquired in time
  76   the lock was lost while the command ran, or --max-hold was over
  78   wrong configuration, or the backend can't give the guarantee
  126  the command can't be run
  127  the command is not there

Examples:
  leasehold run --wait 10m --label web-3 nightly -- ./report.sh
  leasehold run --no-wait --min-hold 10m nightly -- ./report.sh";

/// Show who holds the lock NAME.
///
/// A lock that is shown as free may still be closed by somebody's `--min-hold`. Ends with 0 whether
/// it is held or free: `--json` has `held`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  leasehold status nightly --json")]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
    /// The lock's name
    pub(crate) name: String,
}

/// Show all held locks, or those whose name begins with PREFIX.
///
/// A lock that only a `--min-hold` keeps closed is not among them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  leasehold list order: --json")]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
    /// What the names begin with
    #[arg(default_value = "")]
    pub(crate) prefix: String,
}

/// End somebody's lease of the lock NAME.
///
/// The token, as `status` shows it, makes sure that no other lease is ended. The holder learns of
/// it at its next renewal at the latest, within a third of its TTL: until then its command runs
/// on, beside that of whoever gets the lock meanwhile.
#[derive(Debug, Args)]
#[command(after_help = EVICT_AFTER)]
pub(crate) struct Evict {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The token of the lease to end
    #[arg(long, value_name = "N")]
    pub(crate) token: u64,
    /// The lock's name
    pub(crate) name: String,
}

const EVICT_AFTER: &str = "\
Exit status:
  0  the lease was ended
  1  nobody holds the lock under this token

Examples:
  leasehold evict nightly --token 1796056181567121";

/// Show what the configured backend gives: guarantee, scope, limits, warnings, round-trip times.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  leasehold check --json")]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
    /// What the lock must give at least
    #[arg(long, value_enum)]
    pub(crate) guarantee: Option<Guarantee>,
}

/// Where the locks are.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Target {
    /// The lock server, such as redis://HOST:PORT/?prefix=shop [default: the one that
    /// LEASEHOLD_URL names]. A password has no place here: process lists show it
    #[arg(long)]
    pub(crate) url: Option<String>,

    /// A TOML file with `url` [default: as LEASEHOLD_URL says], and what else `run` takes:
    /// guarantee, ttl, wait, min_hold, max_hold, kill_after, label. With a password in it, only its
    /// owner may read it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Guarantee {
    /// Two holders may overlap once in a blue moon
    Efficiency,
    /// Exclusion and token order survive crashes and failovers
    Correctness,
}

impl From<Guarantee> for leasehold::Guarantee {
    fn from(asked: Guarantee) -> Self {
        match asked {
            Guarantee::Efficiency => Self::Efficiency,
            Guarantee::Correctness => Self::Correctness,
        }
    }
}

/// The words that were given. `help VERB` stands for `VERB --help`.
pub(crate) fn asked() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// What may have been meant by a wrong usage, where clap does not say it.
pub(crate) fn tip(error: &clap::Error) -> Option<String> {
    let mut words = std::env::args_os().skip(1);
    let is_run = words.next().is_some_and(|verb| verb == "run");
    let is_word =
        |word: &ContextValue| matches!(word, ContextValue::String(word) if !word.starts_with('-'));
    let word = error.get(ContextKind::InvalidArg).is_some_and(is_word);
    let unknown = is_run && word && error.kind() == ErrorKind::UnknownArgument;
    let undivided = unknown && words.all(|word| word != "--");
    undivided.then(|| "put `--` before the command: leasehold run NAME -- COMMAND...".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "this is not a duration such as 500ms, 30s or 2m".to_owned())
}
