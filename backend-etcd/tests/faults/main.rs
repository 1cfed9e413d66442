//! The rows of the fault and case lists that need a real etcd and its operator.
//!
//! A test carries the numbers of the rows that it shows.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

#[path = "../common/mod.rs"]
mod common;

mod cluster;
mod cost;
mod data;
mod deposed;
mod leases;
mod links;
mod names;
mod place;
mod sessions;
mod turns;
mod users;
mod watch;

leasehold_conformance::tests! {
    links::f42_a_link_cut_twice_a_ttl_loses_nothing,
    links::c105_a_partitioned_holder_is_lost_before_it_heals,
    links::a_claim_that_lands_after_its_clean_up_leaves_nothing,
    links::a_watch_goes_to_another_member_by_itself,
    leases::f43_a_revoked_lease_is_lost_within_a_second,
    leases::c118_a_renewal_after_a_revocation_is_a_loss,
    leases::f44_c123_a_waiter_whose_key_ended_gets_the_lock_by_a_new_one,
    leases::f44_a_starved_waiter_takes_no_turn_that_has_passed,
    leases::a_key_deleted_under_its_holder_is_lost_within_a_second,
    leases::a_key_overwritten_under_its_holder_is_lost_within_a_second,
    leases::a_waiter_behind_dead_ones_gets_the_lock_when_their_leases_end,
    leases::a_close_that_is_dropped_leaves_no_lease_for_its_time,
    sessions::a_key_on_a_session_that_ended_is_claimed_anew,
    sessions::a_session_that_ends_while_another_is_opened_is_told,
    sessions::a_hand_over_from_a_lease_of_its_own_leaves_none_behind,
    sessions::what_ended_on_a_lease_of_its_own_is_forgotten,
    sessions::no_more_than_the_ttl_is_promised_of_a_longer_lease,
    sessions::a_renewal_that_is_answered_too_late_revives_nothing,
    sessions::a_session_without_its_epoch_lasts_as_promised,
    sessions::each_client_of_one_driver_is_told_of_its_own_losses,
    turns::a_turn_that_the_watch_told_is_held_for_its_ttl,
    turns::a_deletion_told_late_gives_nobody_a_turn,
    turns::a_raise_sends_back_all_who_wait,
    turns::a_raise_of_all_names_reads_however_many_there_are,
    turns::a_waiter_on_a_lease_of_its_own_keeps_its_place,
    data::f46_c106_compaction_loses_neither_holder_nor_waiter,
    data::f50_without_space_locks_are_refused_and_old_ones_stay,
    data::f50_without_space_each_verb_does_what_is_documented,
    data::a_hand_over_that_was_done_is_found_without_space,
    data::what_was_granted_at_the_second_try_is_released_without_space,
    data::who_waits_without_space_stays_when_tokens_fall_behind_the_clock,
    data::f52_c117_tokens_rise_over_a_restored_snapshot,
    data::f52_c117_a_fresh_client_heals_a_snapshot_of_over_a_minute,
    data::f53_a_ttl_below_the_clusters_minimum_is_refused_by_name,
    names::prefixes_and_names_do_not_meet,
    cluster::f47_leaders_killed_one_after_the_other_double_nothing,
    cluster::f48_without_quorum_locks_are_lost_in_time_and_come_back,
    cluster::f49_a_holder_moves_away_from_an_isolated_follower,
    cluster::f49_a_holder_moves_away_from_an_isolated_leader,
    cluster::c108_no_guard_believes_in_a_key_that_a_stopped_leader_let_go,
    cluster::c109_leader_changes_prolong_a_dead_holders_lease_by_a_ttl_each,
    deposed::keepalives_of_a_deposed_leader_count_for_nothing,
    cost::acquire_and_release_are_one_transaction_each,
    cost::a_tick_is_one_keepalive_however_many_are_held,
    cost::all_that_is_held_is_watched_again_after_a_cut,
    cost::a_hand_over_costs_the_same_for_2_16_and_128_waiters_of_two_clients,
    users::c111_a_changed_password_leaves_no_lock_behind,
    users::c112_tokens_that_end_while_idle_cost_neither_holder_nor_waiter,
    users::c120_members_that_restart_with_users_keep_their_holders,
    users::users_may_be_confined_to_a_prefix,
    users::a_watch_that_an_old_token_is_refused_is_opened_by_a_new_one,
}
