//! The rows of the fault and case lists that need a real Redis, its operator, or whole processes.
//!
//! A test carries the numbers of the rows that it shows. This binary starts itself as the
//! processes that are killed, stopped, and given other clocks.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stdout, reason = "the processes tell the test what they see")]

use std::process::ExitCode;

use leasehold_conformance::{IntoVerdict, OwnTest};

#[path = "../common/mod.rs"]
mod common;

mod clocks;
mod driver;
mod failover;
mod links;
mod names;
mod place;
mod refusals;
mod store;
mod waiters;

// What every networked store must show.
#[path = "../../../conformance/networked/child.rs"]
mod child;
#[path = "../../../conformance/networked/dice.rs"]
mod dice;
#[path = "../../../conformance/networked/drops.rs"]
mod drops;
#[path = "../../../conformance/networked/holders.rs"]
mod holders;
#[path = "../../../conformance/networked/load.rs"]
mod load;
#[path = "../../../conformance/networked/messages.rs"]
mod messages;
#[path = "../../../conformance/networked/mix.rs"]
mod mix;
#[path = "../../../conformance/networked/packets.rs"]
mod packets;
#[path = "../../../conformance/networked/reach.rs"]
mod reach;
#[path = "../../../conformance/networked/roles.rs"]
mod roles;
#[path = "../../../conformance/networked/watch.rs"]
mod watch;
#[path = "../../../conformance/networked/zones.rs"]
mod zones;

fn main() -> ExitCode {
    if let Some(role) = child::role() {
        return roles::play(&role);
    }
    leasehold_conformance::run_tests(all())
}

macro_rules! table {
    ($($module:ident::$name:ident),+ $(,)?) => {
        vec![$(OwnTest::new(
            concat!(stringify!($module), "::", stringify!($name)),
            || Box::pin(async { $module::$name().await.into_verdict() }),
        )),+]
    };
}

fn all() -> Vec<OwnTest> {
    table![
        holders::f1_c10_c72_a_killed_holder_is_free_within_its_ttl,
        holders::c135_a_fresh_process_gets_what_a_killed_one_held,
        holders::f2_c9_a_stopped_holder_sees_its_loss_first_and_harms_nobody,
        drops::f11_c157_guards_dropped_anywhere_neither_block_nor_panic,
        clocks::f36_a_server_clock_an_hour_ahead_is_a_loss_in_time,
        clocks::f36_a_server_clock_an_hour_behind_moves_no_deadline,
        zones::f65_clients_in_other_times_and_zones_exclude_each_other,
        failover::f29_a_lock_lost_in_a_failover_is_lost_at_the_next_renewal,
        failover::c45_a_failover_to_an_empty_script_cache_goes_unnoticed,
        failover::c46_a_missing_replica_is_a_typed_refusal_until_it_is_back,
        failover::f30_a_demoted_primary_is_left_for_the_new_one,
        refusals::f31_a_busy_server_is_retried_within_the_wait,
        refusals::f32_c51_what_volatile_lru_evicts_is_lost_at_the_next_renewal,
        refusals::f32_c51_what_allkeys_random_evicts_is_lost_at_the_next_renewal,
        refusals::f32_c51_without_eviction_new_locks_are_refused_and_old_ones_stay,
        refusals::f33_c42_a_refused_release_is_said,
        names::f35_all_keys_of_a_lock_share_a_slot,
        messages::c24_a_waiter_looks_again_once_it_is_subscribed,
        messages::c30_a_release_before_the_subscription_is_not_missed,
        messages::f77_a_waiter_is_served_in_time_though_each_wake_up_is_lost,
        waiters::f78_five_hundred_waiters_cost_the_same_a_hand_over,
        reach::f24_a_client_goes_on_when_its_server_comes_up_again,
        links::c52_killed_connections_lose_nothing,
        reach::c52_reset_connections_leave_owner_and_deadline,
        reach::c105_a_partitioned_holder_is_lost_before_it_heals,
        links::connect_storms_are_bounded,
        links::requests_on_a_silent_connection_end_after_the_timeout,
        load::c162_stops_and_starts_under_load_panic_nowhere,
        packets::f87_packet_loss_doubles_nothing,
        mix::f88_random_faults_leave_a_lock,
    ]
}
