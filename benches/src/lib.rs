//! How fast `leasehold` is, beside the raw limit of the same server in the same run.
//!
//! Machines are noisy, so only ratios count: limit and lock alternate in short slices, and a ratio
//! is the median of those of neighbouring slices. `cargo run --release -p leasehold-bench` writes
//! the tables of `docs/performance.md`.

mod bench;
mod figures;
mod fleet;
mod hold;
mod line;
mod pair;
mod plan;
mod raw;
mod report;
mod table;
mod worker;

pub use bench::{measure, only_pairs};
pub use plan::Plan;
pub use report::{HandOver, Held, Pair, Report};
pub use table::write;
pub use worker::{WORKER, work};
