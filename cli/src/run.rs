//! `leasehold run`: a command under a lock.

use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Lock, LockName, Locks, Loss};
use leasehold_api::{BootClock, Clock, Label, Ttl};
use tokio::time::Instant;

use crate::args::Run;
use crate::channel::{Ended, Limits, News};
use crate::command::{Command, cannot_start};
use crate::exit::{Failure, INTERNAL, LOST, USAGE};
use crate::signals::Passed;
use crate::target::Settings;
use crate::waiting::{self, Patience};

/// Waits for the lock, runs the command under it, and releases it. Answers the exit status.
pub(crate) async fn run(asked: &Run) -> Result<u8, Failure> {
    let settings = Settings::find(&asked.target, asked.guarantee)?;
    let plan = Plan::new(asked, &settings)?;
    // From here on a signal is passed on, or ends the wait.
    let mut signals = Passed::catch()?;
    let locks = tokio::select! {
        locks = waiting::connect(&settings, plan.patience) => locks?,
        number = signals.next() => return Ok(ended_by(number)),
    };
    let acquired = tokio::select! {
        guard = async { waiting::acquire(&locks, &plan.lock(&locks)?, plan.patience).await } => {
            guard
        }
        number = signals.next() => Err(Failure::new(ended_by(number), "")),
    };
    let status = match acquired {
        Ok(guard) => under(&locks, guard, asked, &plan, &mut signals).await,
        // Nothing to say about a signal.
        Err(failure) if failure.to_string().is_empty() => Ok(failure.status),
        Err(failure) => Err(failure),
    };
    // What a given-up wait or a lost lock may have left in the store is freed; its TTL ends it anyway.
    close(&locks).await;
    status
}

/// Ends the client. Answers whether all that it had to free is free.
async fn close(locks: &Locks) -> bool {
    const LIMIT: Duration = Duration::from_secs(2);
    matches!(tokio::time::timeout(LIMIT, locks.close()).await, Ok(Ok(())))
}

/// What the command line and the configuration ask for, checked.
struct Plan {
    name: LockName,
    ttl: Duration,
    kill_after: Duration,
    min_hold: Option<Duration>,
    max_hold: Option<Duration>,
    label: Option<String>,
    patience: Patience,
}

impl Plan {
    /// Below that no command can be started and ended.
    const SHORTEST: Duration = Duration::from_secs(1);

    fn new(asked: &Run, settings: &Settings) -> Result<Self, Failure> {
        let file = &settings.config;
        let name =
            LockName::new(&asked.name).map_err(|error| Failure::from(error).with_status(USAGE))?;
        let ttl = asked.ttl.or(file.ttl).or_else(|| settings.of_url("ttl"));
        let ttl = ttl.unwrap_or(Duration::from_secs(30));
        if ttl < Self::SHORTEST || Ttl::new(ttl).is_err() {
            let message = format!("a TTL of {ttl:?} is not within 1 s to 30 days");
            return Err(settings.refuse(message, asked.ttl.is_some()));
        }
        let kill_after = asked.kill_after.or(file.kill_after);
        let kill_after = kill_after.unwrap_or((ttl / 4).min(Duration::from_secs(10)));
        if kill_after > ttl / 2 {
            let message = format!("kill-after {kill_after:?} is over half of the TTL of {ttl:?}");
            return Err(settings.refuse(message, asked.kill_after.is_some()));
        }
        let min_hold = asked.min_hold.or(file.min_hold);
        let max_hold = asked.max_hold.or(file.max_hold);
        let longest = Ttl::MAX.get();
        if [min_hold, max_hold].into_iter().flatten().any(|hold| hold > longest) {
            let flag = asked.min_hold.is_some() || asked.max_hold.is_some();
            return Err(settings.refuse("min-hold and max-hold are at most 30 days".into(), flag));
        }
        if let Some(max_hold) = max_hold.filter(|max_hold| *max_hold <= kill_after * 2) {
            let message = format!(
                "max-hold {max_hold:?} is not above twice kill-after {kill_after:?}, which the \
                 command is given to end"
            );
            return Err(settings.refuse(message, asked.max_hold.is_some()));
        }
        let label = asked.label.clone().or_else(|| file.label.clone());
        if let Some(label) = &label {
            Label::new(label)
                .map_err(|error| settings.refuse(error.to_string(), asked.label.is_some()))?;
        }
        let wait = asked.wait.or(file.wait).or_else(|| settings.of_url("wait"));
        let patience = match wait {
            _ if asked.no_wait => Patience::None,
            // A wait without an end is none.
            Some(wait) => {
                Instant::now().checked_add(wait).map_or(Patience::Unlimited, Patience::Until)
            }
            None => Patience::Unlimited,
        };
        Ok(Self { name, ttl, kill_after, min_hold, max_hold, label, patience })
    }

    fn lock(&self, locks: &Locks) -> Result<Lock, Error> {
        let mut lock = locks.lock(self.name.as_str())?.ttl(self.ttl);
        if let Some(min_hold) = self.min_hold {
            lock = lock.min_hold(min_hold);
        }
        if let Some(max_hold) = self.max_hold {
            lock = lock.max_hold(max_hold);
        }
        if let Some(label) = &self.label {
            lock = lock.label(label);
        }
        Ok(lock)
    }

    /// What the guard's deadline means for the command: SIGTERM `kill_after` before it, SIGKILL so
    /// early that dying is over by it.
    fn limits(&self, guard: &Guard) -> Limits {
        // Read first: if this process is stopped in between, the deadline comes out too early.
        let now = BootClock.now();
        let deadline = now.saturating_add(guard.remaining());
        const SHORTEST: Duration = Duration::from_millis(20);
        const LONGEST: Duration = Duration::from_millis(250);
        let dying = (self.ttl / 20).min(LONGEST).min((self.kill_after / 4).max(SHORTEST));
        let kill = deadline.saturating_sub(dying);
        Limits::new(deadline.saturating_sub(self.kill_after).min(kill), kill)
    }
}

/// How the command ended, as far as this process knows.
enum Outcome {
    Ended(Ended),
    NotStarted(Failure),
    /// The supervisor gave no answer, or was killed; all is ended, if `all_gone`.
    Unknown {
        all_gone: bool,
    },
}

/// Runs the command while the guard is held, then releases it.
async fn under(
    locks: &Locks,
    guard: Guard,
    asked: &Run,
    plan: &Plan,
    signals: &mut Passed,
) -> Result<u8, Failure> {
    let limits = plan.limits(&guard);
    let command = match guard.token() {
        Ok(token) => Command::start(&asked.command, &guard, token, limits),
        Err(lost) => return Err(lost.into()),
    };
    let (outcome, seen) = match command {
        Ok(mut command) => {
            let seen = watch(&guard, asked, plan, signals, &mut command).await;
            drop(command); // the terminal is ours again
            seen
        }
        Err(error) => (Outcome::NotStarted(error.into()), None),
    };
    let released = match guard.release().await {
        // The client goes on with what was not answered, and tells whether it was.
        Err(error) if error.kind() != ErrorKind::Lost && close(locks).await => {
            tracing::info!(lock = %plan.name, %error, "released, at the second try");
            Ok(())
        }
        released => released,
    };
    conclude(&plan.name, outcome, seen, released)
}

/// Keeps the command within the guard's time until it has ended. Answers also the loss, if the
/// lock was lost meanwhile.
async fn watch(
    guard: &Guard,
    asked: &Run,
    plan: &Plan,
    signals: &mut Passed,
    command: &mut Command,
) -> (Outcome, Option<Loss>) {
    /// After a loss, for the supervisor to tell that all is gone.
    const ANSWER: Duration = Duration::from_secs(1);
    let every = (plan.ttl / 20).min(Duration::from_secs(1));
    let mut lost = None;
    let mut overdue = None;
    let outcome = loop {
        tokio::select! {
            biased;
            news = command.news() => match news {
                Some(News::Started(group)) => command.started(group),
                Some(News::Stopped(signal)) => command.stopped(signal, guard),
                Some(News::Failed(errno, text)) => {
                    break Outcome::NotStarted(cannot_start(&asked.command, errno, &text));
                }
                Some(News::Ended(ended)) => break Outcome::Ended(ended),
                None => break Outcome::Unknown { all_gone: command.end_all().await },
            },
            loss = guard.lost(), if lost.is_none() => {
                lost = Some(loss);
                overdue = Some(Instant::now() + ANSWER);
                command.kill();
            }
            () = until(overdue) => break Outcome::Unknown { all_gone: command.end_all().await },
            number = signals.next() => command.pass_on(number),
            () = tokio::time::sleep(every) => {}
        }
        command.limit(plan.limits(guard));
    };
    (outcome, lost)
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// The exit status, and what is to be said.
fn conclude(
    name: &LockName,
    outcome: Outcome,
    seen: Option<Loss>,
    released: Result<(), Error>,
) -> Result<u8, Failure> {
    let loss = match &released {
        Err(error) if error.kind() == ErrorKind::Lost => Some(seen.or(error.loss())),
        _ => seen.map(Some),
    };
    let why = || match loss.flatten() {
        Some(loss) => format!("lost the lock `{name}`: {loss}"),
        None => format!("lost the lock `{name}`"),
    };
    let lost = |rest: String| Err(Failure::new(LOST, format!("{}; {rest}", why())));
    match outcome {
        Outcome::NotStarted(failure) => Err(failure),
        Outcome::Unknown { all_gone: false } => {
            lost("the command could not be ended, and may still run".to_owned())
        }
        Outcome::Unknown { .. } if loss.is_some() => lost("the command was ended".to_owned()),
        Outcome::Unknown { .. } => {
            Err(Failure::new(INTERNAL, "the supervising process was killed; the command was ended"))
        }
        Outcome::Ended(Ended { because_of_the_lock: true, .. }) if loss.is_some() => {
            lost("the command was ended".to_owned())
        }
        Outcome::Ended(Ended { because_of_the_lock: true, .. }) => Err(Failure::new(
            LOST,
            format!("the lock `{name}` could not be renewed in time; the command was ended"),
        )),
        Outcome::Ended(ended) if loss.is_some() => {
            lost(format!("the command had ended with status {}", ended.status))
        }
        Outcome::Ended(ended) => {
            if let Err(error) = released {
                eprintln!(
                    "leasehold: {}; the lock ends with its TTL at the latest",
                    Failure::from(error)
                );
            }
            Ok(ended.status)
        }
    }
}

/// The status of a program that ended by this signal, as shells say it.
fn ended_by(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(255)
}
