//! Each wrong driver is caught by its named checks, which the right one passes.

use std::process::ExitCode;
use std::sync::Arc;

use leasehold_conformance::wrong::{Wrong, catalogue};
use leasehold_conformance::{Check, End, MemorySubject, find, run_check};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let pairs = catalogue().into_iter().flat_map(|wrong| {
        wrong.caught_by().iter().map(move |id| {
            let name = format!("{}_is_caught_by_{id}", wrong.name());
            Trial::test(name, move || is_caught(wrong, id))
        })
    });
    libtest_mimic::run(&Arguments::from_args(), pairs.collect()).exit_code()
}

fn is_caught(wrong: &Wrong, id: &str) -> Result<(), Failed> {
    let check: &'static Check = find(id).ok_or(format!("there is no check {id}"))?;
    run_check(Arc::new(MemorySubject::new()), check)
        .map_err(|failure| format!("the right driver fails: {}", failure.why()))?;
    match run_check(Arc::new(wrong.subject()), check) {
        Err(failure) if failure.end() == End::Failed => Ok(()),
        Err(failure) => Err(format!("did not judge: {}", failure.why()).into()),
        Ok(()) => Err(format!("a driver passes that {}", wrong.mistake()).into()),
    }
}
