//! Checks of the facade over a driver: deadlines, loss, waiting and clean-up.
//!
//! Policy is one and the same over every driver. These checks show that it and the driver
//! together keep what is promised, also while the driver answers late, wrongly or never.

pub(super) mod answers;
pub(super) mod blackhole;
pub(super) mod cancellation;
pub(super) mod chance;
pub(super) mod cleanup;
pub(super) mod crowd;
pub(super) mod cuts;
pub(super) mod ending;
pub(super) mod entries;
pub(super) mod exclusion;
pub(super) mod leaving;
pub(super) mod line;
pub(super) mod link;
pub(super) mod loss;
pub(super) mod names;
pub(super) mod operator;
pub(super) mod outcomes;
pub(super) mod resources;
pub(super) mod signals;
mod steps;
pub(super) mod waiting;
