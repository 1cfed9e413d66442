//! What is told to `tracing`, a function an event: `docs/tracing.md` has the table.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::NAME;
use crate::error::Failure;
use crate::options::Options;

const TARGET: &str = "leasehold_redis";

macro_rules! tell {
    ($level:ident, $options:expr, $($rest:tt)*) => {
        tracing::$level!(
            target: TARGET, backend = NAME, server = server($options).as_str(), $($rest)*
        )
    };
}

/// Whether something works that is tried again and again, so that a change of that is told once.
#[derive(Debug, Default)]
pub(crate) struct Works {
    did: AtomicBool,
    fails: AtomicBool,
}

pub(crate) fn warning(options: &Options, warning: &str) {
    tell!(warn, options, reason = warning, "the server may lose locks");
}

pub(crate) fn connected(options: &Options, generation: u64, works: &Works) {
    let failed = works.fails.swap(false, Ordering::Relaxed);
    if works.did.swap(true, Ordering::Relaxed) && failed {
        tell!(info, options, generation, "connected again");
    } else {
        tell!(debug, options, generation, "connected");
    }
}

/// Who connects for the first time is told by an error, so nobody has to be warned.
pub(crate) fn no_connection(options: &Options, generation: u64, why: &Failure, works: &Works) {
    let first = !works.fails.swap(true, Ordering::Relaxed);
    match (first, works.did.load(Ordering::Relaxed)) {
        (true, true) => tell!(warn, options, generation, error = %why, "can't connect"),
        (true, false) => tell!(debug, options, generation, error = %why, "can't connect"),
        (false, _) => tell!(trace, options, generation, error = %why, "can't connect"),
    }
}

pub(crate) fn subscribed(options: &Options, works: &Works) {
    works.fails.store(false, Ordering::Relaxed);
    tell!(debug, options, "subscribed");
}

pub(crate) fn unsubscribed(options: &Options) {
    tell!(debug, options, "the subscription ended");
}

/// No error: who waits asks from time to time. But what the server refuses stays refused.
pub(crate) fn no_subscription(options: &Options, why: &Failure, works: &Works) {
    const SAYS: &str = "can't subscribe, so waiters are woken by time only";
    match (!works.fails.swap(true, Ordering::Relaxed), why.may_pass()) {
        (true, false) => tell!(warn, options, error = %why, "{SAYS}"),
        (true, true) => tell!(debug, options, error = %why, "{SAYS}"),
        (false, _) => tell!(trace, options, error = %why, "{SAYS}"),
    }
}

/// Where the server is, for people to read.
fn server(options: &Options) -> String {
    let Options { host, port, .. } = options;
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
