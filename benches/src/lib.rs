//! How fast `leasehold` is, beside the raw limit of the same server in the same run.
//!
//! Machines are noisy, so only ratios count: limit and lock alternate in short slices, a speed is the
//! median over all slices, and a ratio the quotient of two medians. `cargo run --release -p leasehold-bench` writes
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
mod under;
mod worker;

pub use bench::{measure, only_pairs};
pub use plan::Plan;
pub use report::{HandOver, Held, Pair, Ratio, Report};
pub use table::write;
pub use under::Kind;
pub use worker::{WORKER, work};
