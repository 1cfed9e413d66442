//! The checks, one file a group.

mod base;
mod cancellation;
mod dice;
mod exclusion;
mod expiry;
mod faults;
mod hand_over;
mod model;
mod names;
mod policy;
mod release;
mod renewal;
mod resources;
mod steps;
mod tokens;
mod traffic;
mod waiting;

use crate::table::Check;

pub(crate) const ALL: &[&[Check]] = &[
    base::CHECKS,
    exclusion::CHECKS,
    policy::exclusion::CHECKS,
    policy::entries::CHECKS,
    expiry::CHECKS,
    renewal::CHECKS,
    release::CHECKS,
    tokens::CHECKS,
    waiting::CHECKS,
    policy::waiting::CHECKS,
    policy::crowd::CHECKS,
    policy::line::CHECKS,
    policy::leaving::CHECKS,
    policy::answers::CHECKS,
    policy::cleanup::CHECKS,
    policy::outcomes::CHECKS,
    policy::chance::CHECKS,
    policy::operator::CHECKS,
    policy::blackhole::CHECKS,
    policy::cuts::CHECKS,
    hand_over::CHECKS,
    cancellation::CHECKS,
    policy::cancellation::CHECKS,
    policy::link::CHECKS,
    policy::loss::CHECKS,
    policy::signals::CHECKS,
    policy::ending::CHECKS,
    names::CHECKS,
    policy::names::CHECKS,
    faults::CHECKS,
    traffic::CHECKS,
    model::CHECKS,
    resources::CHECKS,
    policy::resources::CHECKS,
];
