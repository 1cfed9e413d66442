//! What the driver says of itself.

use std::time::Duration;

use leasehold_api::{Guarantee, Order, Profile, Scope, Waking};

use crate::driver::NAME;

/// The shortest TTL that is kept.
pub const TTL_FLOOR: Duration = Duration::from_millis(10);

pub(crate) fn profile(warnings: Vec<String>) -> Profile {
    let mut profile = Profile::new(NAME);
    profile.guarantee = Guarantee::Efficiency;
    profile.because = "a failover, a restart without all data, an eviction or a step of the \
                       server's clock can grant a held lock again"
        .to_owned();
    profile.scope = Scope::Network;
    profile.ttl_floor = TTL_FLOOR;
    profile.ttl_granularity = Duration::from_millis(1);
    profile.tokens_on_data_loss = "they still rise, unless they had run ahead of the server's \
                                   clock (after a raise) or that clock is behind";
    profile.waking = Waking::Message;
    profile.order = Order::Woken;
    profile.expiry_clock = "the server's wall clock";
    profile.operator = true;
    profile.warnings = warnings;
    profile
}
