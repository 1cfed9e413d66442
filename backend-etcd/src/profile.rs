//! What the driver says of itself.

use std::time::Duration;

use leasehold_api::{Guarantee, Order, Profile, Scope, Waking};

use crate::driver::NAME;

/// The shortest TTL that any cluster keeps. A cluster's own floor is higher where its election
/// timeout is: 2 s with etcd's defaults.
pub const TTL_FLOOR: Duration = Duration::from_secs(1);

pub(crate) fn profile(ttl_floor: Duration, warnings: Vec<String>) -> Profile {
    let mut profile = Profile::new(NAME);
    profile.guarantee = Guarantee::Correctness;
    profile.scope = Scope::Network;
    profile.ttl_floor = ttl_floor;
    profile.ttl_granularity = Duration::from_secs(1);
    profile.tokens_on_data_loss = "they still rise where a snapshot of more than a minute ago is \
                                   restored, or one of any age under a running client, as long \
                                   as clients' clocks are right to the minute";
    profile.waking = Waking::Message;
    profile.order = Order::Fifo;
    profile.expiry_clock = "the leader's monotonic clock";
    profile.operator = true;
    profile.warnings = warnings;
    profile
}
