//! How it went, and which exit status and words that gives.

use leasehold::{Error, ErrorKind, LockName, Loss};

use crate::channel::Ended;
use crate::exit::{Failure, INTERNAL, LOST};
use crate::output::say;
use crate::renewals::Renewals;

/// How the command ended, as far as this process knows.
#[derive(Debug)]
pub(crate) enum Outcome {
    Ended(Ended),
    /// The limit was over before it was started.
    Late,
    NotStarted(Failure),
    /// The supervisor was killed, or gave no answer after a loss. All is ended, if `all_gone`.
    Unsupervised {
        all_gone: bool,
    },
}

/// The exit status, and what is to be said. `seen` is the loss that ended the command, if one did.
///
/// # Errors
///
/// What is to be said with a status of our own.
pub(crate) fn conclude(
    name: &LockName,
    renewals: &Renewals,
    outcome: Outcome,
    seen: Option<Loss>,
    released: Result<(), Error>,
) -> Result<u8, Failure> {
    let (loss, unreleased) = match released {
        Err(error) if error.kind() == ErrorKind::Lost => (seen.or(error.loss()), None),
        released => (seen, released.err()),
    };
    let because = format!("lost the lock `{name}`: {}", renewals.why(loss));
    let lost = |rest: &str| Err(Failure::new(LOST, format!("{because}; {rest}")));
    match outcome {
        Outcome::NotStarted(failure) => Err(failure),
        Outcome::Late => lost("the command was not started"),
        Outcome::Unsupervised { all_gone: false } => {
            lost("the command could not be ended, and may still run")
        }
        Outcome::Unsupervised { all_gone: true } if loss.is_none() => Err(Failure::new(
            INTERNAL,
            "the supervising process ended before the command, which was ended then",
        )),
        Outcome::Unsupervised { all_gone: true } => lost("the command was ended"),
        Outcome::Ended(Ended { because_of_the_lock: true, .. }) => lost("the command was ended"),
        Outcome::Ended(ended) if loss.is_some() => {
            lost(&format!("the command had ended with status {}", ended.status))
        }
        Outcome::Ended(ended) => {
            if let Some(error) = unreleased {
                let error = Failure::from(error);
                say(&format!("{error}; the lock ends with its TTL at the latest"));
            }
            Ok(ended.status)
        }
    }
}
