//! The published proof that a driver of `leasehold` is right.
//!
//! A driver's author adds this crate as a dev-dependency, writes a [`Subject`] (how to reach the
//! store, and which faults can be caused there) and calls [`suite!`] once: every named check of
//! the [`table`] runs, each naming the clause of the contract (`leasehold-api`) that it shows.
//!
//! * [`suite!`] and [`tests!`] run the table, and a driver's own tests, as test targets.
//! * [`scripted`] is a driver that answers ok, with an error, late or never, as it is told.
//! * [`history`] decides whether what clients saw can have been a lock.
//! * [`catalogue`] has the numbers of the faults and cases that are shown, or why one is not.
//! * [`told`] collects what is told to `tracing`, and compares it with its documentation.
//! * [`wrong`] holds drivers that are wrong on purpose, and which check catches each.

mod bench;
pub mod cancel;
pub mod catalogue;
mod checks;
mod effort;
pub mod history;
mod memory;
mod report;
mod require;
pub mod scripted;
mod subject;
mod suite;
mod table;
pub mod told;
mod trial;
mod verdict;
pub mod wrong;

#[cfg(feature = "etcd")]
mod gateway;
#[cfg(feature = "servers")]
mod ports;
#[cfg(feature = "servers")]
pub mod proxy;
#[cfg(feature = "servers")]
pub mod servers;
#[cfg(any(feature = "etcd", feature = "redis"))]
pub mod truth;

pub use bench::Bench;
pub use effort::{long, rounds};
pub use memory::MemorySubject;
pub use subject::{Data, Link, Record, Share, Store, Subject, Time};
pub use suite::{LIMIT, OwnTest, run_check, run_suite, run_tests};
pub use table::{Check, Group, Level, find, table};
pub use verdict::{End, Failure, IntoVerdict, Verdict};
