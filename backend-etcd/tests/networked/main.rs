//! The rows of the fault and case lists that every networked store must show, over a real etcd.
//!
//! A test carries the numbers of the rows that it shows. This binary starts itself as the
//! processes that are killed and stopped.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stdout, reason = "the processes tell the test what they see")]

use std::process::ExitCode;

use leasehold_conformance::{IntoVerdict, OwnTest};

#[path = "../common/mod.rs"]
mod common;
mod driver;
mod stampede;
mod store;

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
        zones::f65_clients_in_other_times_and_zones_exclude_each_other,
        messages::c24_a_waiter_looks_again_once_it_is_subscribed,
        messages::c30_a_release_before_the_subscription_is_not_missed,
        messages::f77_a_waiter_is_served_in_time_though_each_wake_up_is_lost,
        stampede::f78_five_hundred_waiters_cost_the_same_a_hand_over,
        reach::f24_a_client_goes_on_when_its_server_comes_up_again,
        reach::c52_reset_connections_leave_owner_and_deadline,
        reach::c105_a_partitioned_holder_is_lost_before_it_heals,
        load::c162_stops_and_starts_under_load_panic_nowhere,
        packets::f87_packet_loss_doubles_nothing,
        mix::f88_random_faults_leave_a_lock,
    ]
}
