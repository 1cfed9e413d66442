//! Running one check or test: on a runtime of its own, within a limit.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use libtest_mimic::{Completion, Failed};
use tokio::runtime::{Builder, Runtime};

use crate::subject::Time;
use crate::verdict::{End, Failure, Verdict};

/// On paused time a check that waits for ever is at its limit at once; the limit can be long.
const PAUSED_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

/// How long past its limit a check may take before it counts as stuck in a thread.
const GRACE: Duration = Duration::from_secs(10);

/// Runs `work` to its verdict. A panic is a failure, and so is a hang: of the future at `limit`,
/// of the thread a little later (the thread is then left behind).
pub(crate) fn run<F>(
    time: Time,
    limit: Duration,
    work: impl FnOnce() -> F + Send + 'static,
) -> Verdict
where
    F: Future<Output = Verdict>,
{
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let verdict = catch_unwind(AssertUnwindSafe(|| on_runtime(time, limit, work)));
        // The other end is gone once the verdict came too late.
        let _ = tell.send(verdict);
    });
    match told.recv_timeout(limit + GRACE) {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(panic)) => Err(Failure::failed(format!("panicked: {}", text(&*panic)))),
        Err(_) => Err(Failure::failed(format!("hangs: its thread is stuck after {limit:?}"))),
    }
}

/// A verdict in the words of the test harness.
pub(crate) fn conclude(verdict: Verdict) -> Result<Completion, Failed> {
    match verdict {
        Ok(()) => Ok(Completion::Completed),
        Err(failure) => match failure.end() {
            End::Failed => Err(Failed::from(failure.why())),
            End::NotApplicable => {
                Ok(Completion::ignored_with(format!("not applicable: {}", failure.why())))
            }
            End::Missing => Ok(Completion::ignored_with(failure.why())),
        },
    }
}

fn on_runtime<F>(time: Time, limit: Duration, work: impl FnOnce() -> F) -> Verdict
where
    F: Future<Output = Verdict>,
{
    let (runtime, limit) = match time {
        Time::Real => (threads()?, limit),
        Time::Paused => (paused()?, PAUSED_LIMIT),
    };
    let verdict = runtime.block_on(async {
        tokio::time::timeout(limit, work())
            .await
            .unwrap_or_else(|_| Err(Failure::failed(format!("hangs: no verdict within {limit:?}"))))
    });
    runtime.shutdown_timeout(Duration::from_secs(2));
    verdict
}

fn threads() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

fn paused() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().start_paused(true).build()
}

fn text(panic: &(dyn std::any::Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("with no text")
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::subject::Time;
    use crate::verdict::{End, Failure};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_hang_is_a_failure_at_the_limit() {
        for (time, limit) in [(Time::Paused, 9 * SECOND), (Time::Real, SECOND / 20)] {
            let failure = run(time, limit, std::future::pending).unwrap_err();
            assert!(failure.why().starts_with("hangs"), "{failure:?}");
        }
    }

    #[test]
    fn a_panic_is_a_failure_with_its_text() {
        let failure = run(Time::Paused, SECOND, || async {
            std::panic::resume_unwind(Box::new("two held"));
        });
        let failure = failure.unwrap_err();
        assert_eq!((failure.end(), failure.why()), (End::Failed, "panicked: two held"));
    }

    #[test]
    fn a_verdict_is_passed_on() {
        assert_eq!(run(Time::Real, SECOND, || async { Ok(()) }), Ok(()));
        let why = Failure::not_applicable("no such hook");
        let told = why.clone();
        assert_eq!(run(Time::Paused, SECOND, || async { Err(told) }), Err(why));
    }
}
