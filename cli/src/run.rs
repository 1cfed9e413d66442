//! `leasehold run`: a command under a lock.

use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locks, Loss, Operation};
use leasehold_api::{BootClock, Clock};
use rustix::process::Signal;
use tokio::time::Instant;

use crate::args::Run;
use crate::channel::News;
use crate::command::{Command, cannot_start};
use crate::exit::{Failure, INTERNAL};
use crate::family::can_see_processes;
use crate::outcome::{Outcome, conclude};
use crate::plan::Plan;
use crate::renewals::Renewals;
use crate::signals::Passed;
use crate::target::Settings;
use crate::waiting;

/// Waits for the lock, runs the command under it, and releases it. Answers the exit status.
pub(crate) async fn run(asked: &Run) -> Result<u8, Failure> {
    let settings = Settings::find(&asked.target, asked.guarantee)?;
    let plan = Plan::new(asked, &settings)?;
    if !can_see_processes() {
        let message = "/proc does not show this process (it is missing, or that of another pid \
                       namespace): what the command starts could not be ended";
        return Err(Failure::new(INTERNAL, message));
    }
    // From here on a signal is passed on, or ends the wait.
    let mut signals = Passed::catch()?;
    let locks = tokio::select! {
        locks = waiting::connect(&settings, plan.patience) => locks?,
        number = signals.next() => return Ok(ended_by(number)),
    };
    plan.check(&locks, &settings)?;
    let acquired = tokio::select! {
        guard = async { waiting::acquire(&locks, &plan.lock(&locks)?, &plan).await } => {
            guard.map(Ok)
        }
        number = signals.next() => Ok(Err(number)),
    };
    let status = match acquired {
        Ok(Ok(guard)) => under(&locks, guard, asked, &settings, &plan, &mut signals).await,
        Ok(Err(number)) => Ok(ended_by(number)),
        Err(failure) => Err(failure),
    };
    // What a given-up wait or a lost lock may have left in the store is freed; its TTL ends it
    // anyway.
    close(&locks).await;
    status
}

/// Ends the client. Answers whether all that it had to free is free.
async fn close(locks: &Locks) -> bool {
    const LIMIT: Duration = Duration::from_secs(2);
    matches!(tokio::time::timeout(LIMIT, locks.close()).await, Ok(Ok(())))
}

/// Runs the command while the guard is held, then releases it.
async fn under(
    locks: &Locks,
    guard: Guard,
    asked: &Run,
    settings: &Settings,
    plan: &Plan,
    signals: &mut Passed,
) -> Result<u8, Failure> {
    let mut renewals = Renewals::new(&guard, plan);
    let limits = plan.limits(&guard);
    let started = Command::start(
        &asked.command,
        &guard,
        guard.token()?,
        limits,
        settings.url_to_hand_on().as_deref(),
    );
    let (outcome, loss, interrupted) = match started {
        Ok(mut command) => {
            let (outcome, loss) =
                watch(&guard, &mut renewals, asked, plan, signals, &mut command).await;
            (outcome, loss, command.was_interrupted())
        }
        Err(failure) => (Outcome::NotStarted(failure), None, None),
    };
    let released = tokio::select! {
        biased;
        released = release(locks, guard) => released,
        number = hurried(signals) => Err(Error::new(
            ErrorKind::Indeterminate,
            Operation::Release,
            format!("not waited for, because of signal {number}"),
        )),
    };
    let status = conclude(&plan.name, &renewals, outcome, loss, released);
    if let (Some(signal), Ok(_)) = (interrupted, &status) {
        // As without us between the terminal and the command: a script that runs us ends too.
        close(locks).await;
        signals.end_us_and_our_group_by(signal);
    }
    status
}

async fn release(locks: &Locks, guard: Guard) -> Result<(), Error> {
    let name = guard.name().clone();
    match guard.release().await {
        // The client goes on with what was not answered, and tells whether it was.
        Err(error) if error.kind() != ErrorKind::Lost && close(locks).await => {
            tracing::info!(lock = %name, %error, "released, at the second try");
            Ok(())
        }
        released => released,
    }
}

/// Ends a moment after a signal that asks to end: a store that answers has its release by then.
async fn hurried(signals: &mut Passed) -> i32 {
    const MOMENT: Duration = Duration::from_secs(1);
    loop {
        let number = signals.next().await;
        if ![Signal::USR1, Signal::USR2].map(Signal::as_raw).contains(&number) {
            tokio::time::sleep(MOMENT).await;
            return number;
        }
    }
}

/// Keeps the command within the guard's time until it has ended. Answers also the loss, if the
/// lock was lost meanwhile.
async fn watch(
    guard: &Guard,
    renewals: &mut Renewals,
    asked: &Run,
    plan: &Plan,
    signals: &mut Passed,
    command: &mut Command,
) -> (Outcome, Option<Loss>) {
    /// After a loss, for the supervisor to tell that all is gone.
    const ANSWER: Duration = Duration::from_secs(1);
    const AGAIN: Duration = Duration::from_millis(10);
    let every = (plan.ttl / 20).min(Duration::from_secs(1));
    let mut limits = plan.limits(guard);
    let (mut loss, mut overdue, mut killed) = (None, None, false);
    let outcome = loop {
        tokio::select! {
            biased;
            news = command.news() => match news {
                Some(News::Started(group)) => command.started(group, signals),
                Some(News::Stopped(signal)) => command.stopped(signal, guard),
                Some(News::Failed(errno, text)) => {
                    break Outcome::NotStarted(cannot_start(&asked.command, errno, &text));
                }
                Some(News::Late) => break Outcome::Late,
                Some(News::Ended(ended)) => {
                    command.ended(ended);
                    break Outcome::Ended(ended);
                }
                None => break Outcome::Unsupervised { all_gone: command.end_all(guard).await },
            },
            lost = guard.lost(), if loss.is_none() => {
                loss = Some(lost);
                overdue = Some(Instant::now() + ANSWER);
                killed = true;
            }
            // The supervisor does so at this instant; unless it is stopped.
            () = BootClock.sleep_until(limits.kill()), if !killed => {
                killed = true;
            }
            () = until(overdue) => {
                break Outcome::Unsupervised { all_gone: command.end_all(guard).await };
            }
            number = signals.next() => command.pass_on(number),
            () = tokio::time::sleep(if killed { AGAIN } else { every }) => {}
        }
        if killed {
            command.kill(); // what was forked meanwhile
        }
        renewals.look(guard);
        limits = plan.limits(guard);
        command.limit(limits);
    };
    (outcome, loss)
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// The status of a program that ended by this signal, as shells say it.
fn ended_by(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(255)
}
