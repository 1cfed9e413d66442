//! What is told to `tracing`, a function an event: `docs/tracing.md` has the table.

use std::sync::atomic::{AtomicBool, Ordering};

use leasehold_api::Loss;

use crate::driver::NAME;
use crate::error::Failure;

const TARGET: &str = "leasehold_etcd";

macro_rules! tell {
    ($level:ident, $server:expr, $($rest:tt)*) => {
        tracing::$level!(target: TARGET, backend = NAME, server = $server, $($rest)*)
    };
}

/// Whether something works that is tried again and again, so that a change of that is told once.
#[derive(Debug, Default)]
pub(crate) struct Works {
    did: AtomicBool,
    fails: AtomicBool,
}

pub(crate) fn warning(server: &str, warning: &str) {
    tell!(warn, server, reason = warning, "the cluster may refuse or lose locks");
}

pub(crate) fn connected(server: &str, generation: u64, works: &Works) {
    let failed = works.fails.swap(false, Ordering::Relaxed);
    if works.did.swap(true, Ordering::Relaxed) && failed {
        tell!(info, server, generation, "connected again");
    } else {
        tell!(debug, server, generation, "connected");
    }
}

/// Who connects for the first time is told by an error, so nobody has to be warned.
pub(crate) fn member_failed(server: &str, why: &Failure, works: &Works) {
    let first = !works.fails.swap(true, Ordering::Relaxed);
    match (first, works.did.load(Ordering::Relaxed)) {
        (true, true) => tell!(warn, server, error = %why, "a member failed"),
        (true, false) => tell!(debug, server, error = %why, "a member failed"),
        (false, _) => tell!(trace, server, error = %why, "a member failed"),
    }
}

pub(crate) fn watching(server: &str, generation: u64) {
    tell!(debug, server, generation, "watching");
}

pub(crate) fn watch_ended(server: &str, why: Option<&Failure>) {
    match why {
        Some(why) => tell!(debug, server, error = %why, "the watch ended"),
        None => tell!(debug, server, "the watch ended"),
    }
}

pub(crate) fn session_ended(server: &str, lease: i64, why: Loss) {
    tell!(warn, server, lease, reason = %why, "a shared lease ended");
}

pub(crate) fn floor_raised(server: &str, floor: u64) {
    tell!(debug, server, floor, "the token floor was raised");
}
