//! Running the whole table against a backend, and a driver's own tests beside it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use libtest_mimic::{Arguments, Trial};

use crate::bench::Bench;
use crate::effort::long;
use crate::report::{Report, Target};
use crate::subject::{Subject, Time};
use crate::table::{Check, table};
use crate::trial::{conclude, run};
use crate::verdict::Verdict;

/// How long a check may take; ten times as long in its long form ([`long`](crate::long)).
pub const LIMIT: Duration = Duration::from_secs(30);

/// The whole suite as the `main` of a test target with `harness = false`. It takes a
/// [`Subject`](crate::Subject) and runs every check of the [`table`](crate::table) against it;
/// there is no way to leave one out.
///
/// `LEASEHOLD_REPORT=PATH`, or `--report PATH` among the test's arguments, writes the table with
/// its results: as JSON and as text, into the directory `PATH` or beside the file `PATH.json`.
///
/// # Examples
///
/// ```no_run
/// # use leasehold_conformance::MemorySubject;
/// leasehold_conformance::suite!(MemorySubject::new());
/// ```
#[macro_export]
macro_rules! suite {
    ($subject:expr) => {
        fn main() -> ::std::process::ExitCode {
            $crate::run_suite($subject)
        }
    };
}

/// Named async functions as the `main` of a test target with `harness = false`. Each runs on a
/// runtime of its own and may answer `()`, a [`Verdict`](crate::Verdict) or any other
/// `Result<(), _>`; a missing server, passed on by `?`, shows as ignored with its reason, or fails
/// where `LEASEHOLD_REQUIRE` lists it.
///
/// # Examples
///
/// ```no_run
/// async fn the_answer_is_found_again() -> leasehold_conformance::Verdict {
///     leasehold_conformance::ensure!(6 * 7 == 42, "no answer");
///     Ok(())
/// }
/// leasehold_conformance::tests! { the_answer_is_found_again }
/// ```
#[macro_export]
macro_rules! tests {
    ($($($name:ident)::+),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::run_tests(vec![$($crate::OwnTest::new(
                stringify!($($name)::+),
                || Box::pin(async { $crate::IntoVerdict::into_verdict($($name)::+().await) }),
            )),+])
        }
    };
}

/// A driver's own test, as [`tests!`](crate::tests) makes it.
#[derive(Clone, Copy)]
pub struct OwnTest {
    name: &'static str,
    run: fn() -> BoxFuture<'static, Verdict>,
    time: Time,
}

impl OwnTest {
    /// A test of this name.
    #[must_use]
    pub fn new(name: &'static str, run: fn() -> BoxFuture<'static, Verdict>) -> Self {
        Self { name, run, time: Time::Real }
    }

    /// Runs it on tokio's paused clock.
    #[must_use]
    pub fn paused(mut self) -> Self {
        self.time = Time::Paused;
        self
    }
}

impl std::fmt::Debug for OwnTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnTest({})", self.name)
    }
}

/// What [`suite!`](crate::suite) expands to.
pub fn run_suite(subject: impl Subject) -> ExitCode {
    let subject: Arc<dyn Subject> = Arc::new(subject);
    let (arguments, target) = Target::take_from(std::env::args());
    let mut arguments = Arguments::from_iter(arguments);
    spread(&mut arguments, subject.time());
    let report = Arc::new(Report::new(subject.name()));
    let trials = table().into_iter().map(|check| {
        let (subject, report) = (subject.clone(), report.clone());
        Trial::ignorable_test(check.id(), move || {
            let start = Instant::now();
            let verdict = run_check(subject, check);
            report.add(check, &verdict, start.elapsed());
            conclude(verdict)
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if let Some(target) = target
        && let Err(error) = report.write(&target)
    {
        eprintln!("the report could not be written: {error}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

/// What [`tests!`](crate::tests) expands to.
pub fn run_tests(tests: Vec<OwnTest>) -> ExitCode {
    const LIMIT: Duration = Duration::from_secs(120);
    let limit = of_effort(LIMIT);
    let (arguments, _) = Target::take_from(std::env::args());
    let trials = tests.into_iter().map(|test| {
        Trial::ignorable_test(test.name, move || conclude(run(test.time, limit, test.run)))
    });
    libtest_mimic::run(&Arguments::from_iter(arguments), trials.collect()).exit_code()
}

/// Runs one check against a subject, on a runtime of its own and within its limit.
///
/// # Errors
///
/// Why it did not pass.
pub fn run_check(subject: Arc<dyn Subject>, check: &'static Check) -> Verdict {
    // Where the shortest TTL is longer, so is all that waits for it.
    let limit = of_effort(LIMIT.max(subject.ttl() * 60));
    run(subject.time(), limit, move || async move {
        let bench = Bench::new(&*subject, check).await?;
        check.run(&bench).await
    })
}

/// A limit for the form that the test runs in.
fn of_effort(limit: Duration) -> Duration {
    if long() { limit * 10 } else { limit }
}

/// Checks on a real store sleep most of their time, so more of them run at once than there are
/// processors.
fn spread(arguments: &mut Arguments, time: Time) {
    const AT_ONCE: usize = 8;
    if time == Time::Real {
        arguments.test_threads.get_or_insert(AT_ONCE);
    }
}
