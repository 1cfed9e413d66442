//! The checks, one file a group.

mod base;
mod cancellation;
mod exclusion;
mod expiry;
mod faults;
mod hand_over;
mod names;
mod policy;
mod release;
mod renewal;
mod resources;
mod steps;
mod tokens;
mod waiting;

use crate::table::Check;

pub(crate) const ALL: &[&[Check]] = &[
    base::CHECKS,
    exclusion::CHECKS,
    policy::exclusion::CHECKS,
    expiry::CHECKS,
    renewal::CHECKS,
    release::CHECKS,
    tokens::CHECKS,
    waiting::CHECKS,
    policy::waiting::CHECKS,
    policy::line::CHECKS,
    policy::answers::CHECKS,
    policy::cleanup::CHECKS,
    hand_over::CHECKS,
    cancellation::CHECKS,
    policy::cancellation::CHECKS,
    policy::link::CHECKS,
    policy::loss::CHECKS,
    policy::ending::CHECKS,
    names::CHECKS,
    policy::names::CHECKS,
    faults::CHECKS,
    resources::CHECKS,
    policy::resources::CHECKS,
];
