//! What only this driver promises, on real servers.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

#[path = "../common/mod.rs"]
mod common;

mod connecting;
mod cost;
mod data;
mod errors;
mod fakes;
mod secrets;
mod told;
mod waiting;

leasehold_conformance::tests! {
    connecting::an_unreachable_server_is_tried_until_the_connect_timeout,
    connecting::a_frozen_server_is_told_from_one_that_ends_the_connection,
    connecting::f24_a_server_that_comes_up_in_time_is_connected_to,
    connecting::a_loading_server_is_waited_for,
    connecting::bad_input_ends_before_any_traffic,
    connecting::replicas_and_clusters_are_refused,
    connecting::evicting_and_forgetful_servers_are_warned_of,
    connecting::what_can_not_be_checked_is_a_warning,
    connecting::user_password_and_odd_characters_are_understood,
    connecting::users_may_be_confined_to_a_prefix,
    connecting::databases_and_prefixes_are_apart,
    connecting::tls_trusts_the_named_authority_and_no_other,
    connecting::a_wrong_guess_about_tls_is_told,
    connecting::tls_client_certificates_are_shown,
    connecting::one_reconnect_is_shared_and_survives_who_asked_for_it,
    connecting::an_idle_connection_that_was_closed_costs_no_call,
    connecting::a_silent_connection_is_replaced,
    connecting::a_client_outlives_the_runtime_it_was_made_on,
    cost::acquire_and_release_are_one_round_trip_each,
    cost::ten_thousand_renewals_are_forty_scripts,
    cost::one_lease_that_fails_fails_alone,
    cost::a_client_has_one_connection_and_a_second_once_it_waits,
    cost::no_key_stays_behind_a_name,
    cost::a_hand_over_costs_the_same_for_2_and_for_16_waiting_clients,
    data::tokens_rise_over_each_flush_to_the_last_digit,
    data::tokens_rise_over_a_restart_without_data,
    data::f28_a_flushed_script_cache_is_not_noticed,
    data::f28_scripts_flushed_under_pipelines_are_sent_again,
    data::all_counters_are_raised_and_none_is_lowered,
    data::a_record_without_expiry_is_held_for_ever,
    data::what_is_none_of_ours_is_held_by_nobody,
    data::a_wait_list_of_another_type_breaks_nothing,
    data::f35_braces_in_names_are_harmless,
    data::a_closed_record_keeps_its_own_time,
    errors::wrong_credentials_are_auth,
    errors::f33_missing_permissions_are_auth,
    errors::f32_a_full_memory_is_refused_but_not_to_those_who_hold_or_wait,
    errors::f33_c42_a_server_that_can_not_save_is_refused,
    errors::f33_c42_too_few_replicas_are_refused,
    errors::f30_a_demoted_server_is_not_the_primary,
    errors::a_replica_without_its_primary_is_not_the_primary,
    errors::f31_a_busy_server_is_busy,
    errors::f33_a_loading_server_is_busy,
    errors::a_full_house_is_busy,
    errors::a_database_that_is_not_there_is_refused,
    errors::foreign_counters_and_used_up_tokens_are_refused,
    errors::a_lost_answer_is_indeterminate_where_something_may_have_changed,
    errors::what_is_no_redis_is_unreachable,
    secrets::no_password_is_in_debug_errors_or_logs,
    secrets::a_server_that_repeats_the_password_is_not_quoted,
    told::every_documented_event_is_told_and_no_other,
    waiting::a_refused_publish_breaks_no_release,
    waiting::a_refused_subscription_is_no_error,
    waiting::a_subscription_that_ends_is_opened_again_and_wakes_all,
    waiting::a_silent_subscription_is_replaced,
    waiting::a_dead_process_is_passed_over,
    waiting::who_barges_in_wakes_the_next_all_the_same,
    waiting::a_release_of_a_queued_claim_is_settled,
    waiting::a_claim_of_an_earlier_connection_is_not_settled,
}
