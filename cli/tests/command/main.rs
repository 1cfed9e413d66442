//! The built command, on real servers.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

mod common;
mod ending;
mod generated;
mod input;
mod operator;
mod running;
mod secrets;
mod surroundings;
mod terminal;
mod waiting;

leasehold_conformance::tests! {
    running::the_command_has_our_streams_and_status,
    running::the_command_knows_name_token_and_owner,
    running::c60_every_way_to_the_lock_uses_one_name,
    running::a_signal_that_ends_the_command_is_told_as_shells_do,
    running::what_can_not_be_run_is_126_and_127_and_frees_the_lock,
    running::what_the_command_left_behind_is_ended_before_the_release,
    running::c102_c130_a_command_of_five_ttls_keeps_its_lock,
    running::c103_wait_and_ttl_are_not_mixed_up,
    running::min_hold_keeps_the_name_closed_after_a_short_command,
    running::f13_c18_max_hold_ends_the_command,
    running::ignored_signals_stay_ignored_for_the_command,
    waiting::two_commands_never_overlap_and_the_second_runs,
    waiting::a_wait_that_ends_is_75_and_names_the_holder,
    waiting::no_wait_is_75_at_once,
    waiting::c147_a_wait_ended_by_a_signal_leaves_nothing_behind,
    waiting::f21_c150_an_unreachable_server_is_69_by_the_end_of_the_wait,
    waiting::f24_a_server_that_comes_up_during_the_wait_is_used,
    waiting::a_server_that_stops_answering_while_it_is_waited_is_69,
    ending::f1_c10_c135_a_killed_leasehold_leaves_no_command_and_a_free_lock,
    ending::the_command_of_a_killed_leasehold_is_killed_at_once,
    ending::f2_c9_a_stopped_leasehold_ends_its_command_and_is_76_when_continued,
    ending::f20_c6_c127_a_frozen_server_ends_the_command_in_time,
    ending::f22_c52_cut_connections_do_not_end_the_command,
    ending::f25_a_server_that_restarts_with_its_data_does_not_end_the_command,
    ending::f26_c142_a_server_that_lost_its_data_ends_the_command,
    ending::f73_c19_an_evicted_lock_ends_the_command,
    ending::f74_c148_an_overwritten_lock_ends_the_command_and_is_left_alone,
    ending::sigterm_is_passed_on_and_the_lock_is_free_at_once,
    ending::each_signal_that_is_passed_on_reaches_the_command,
    ending::signals_reach_the_whole_group,
    ending::sigterm_to_all_of_our_processes_is_a_sigterm_to_the_command,
    ending::the_grace_between_sigterm_and_sigkill_is_used,
    ending::what_was_told_to_end_ends_also_if_the_server_answers_again,
    ending::a_process_whose_name_is_no_text_is_ended_too,
    ending::a_command_that_somebody_stopped_keeps_its_lock,
    ending::a_command_that_somebody_stopped_is_told_to_end_too,
    ending::processes_that_left_the_group_end_too,
    ending::a_killed_supervisor_leaves_no_command,
    ending::a_stopped_supervisor_does_not_keep_a_lost_command,
    ending::a_command_that_keeps_forking_is_ended,
    surroundings::a_lock_is_kept_while_what_can_not_be_killed_runs_on,
    surroundings::a_lock_is_kept_while_what_the_command_left_can_not_be_killed,
    surroundings::what_can_not_be_killed_after_a_loss_is_76_and_said,
    surroundings::a_lock_is_kept_while_processes_can_not_be_looked_at,
    surroundings::the_proc_of_another_pid_namespace_is_70_and_runs_nothing,
    surroundings::without_pidfds_what_left_the_group_is_ended_too,
    surroundings::children_that_leasehold_had_before_are_left_alone,
    terminal::the_command_has_the_foreground_and_gives_it_back,
    terminal::a_command_stopped_by_ctrl_z_goes_on_with_fg,
    terminal::what_ctrl_z_stopped_past_the_ttl_is_76_with_fg,
    terminal::a_command_that_uses_the_terminal_at_once_goes_on,
    terminal::in_a_pipeline_the_foreground_stays_with_the_job,
    terminal::a_background_job_leaves_the_foreground_to_its_script,
    terminal::ctrl_c_ends_the_script_that_runs_us,
    terminal::a_waiting_command_says_for_whom,
    operator::status_tells_holder_token_and_time_left,
    operator::list_shows_the_held_locks_of_a_prefix,
    operator::evict_ends_the_lease_of_this_token_only,
    operator::check_shows_what_the_backend_gives,
    operator::a_stream_that_can_not_be_written_changes_no_status,
    operator::a_closed_pipe_is_no_error,
    input::bad_usage_is_64_and_says_what_is_allowed,
    input::bad_configuration_is_78_and_says_what_is_allowed,
    input::a_configuration_file_decides_what_no_flag_does,
    input::no_server_named_is_a_usage_error_that_says_what_to_do,
    secrets::no_password_in_any_output_or_process_list,
    secrets::a_password_on_the_command_line_is_refused,
    secrets::a_file_with_a_password_that_others_may_read_is_refused,
    secrets::the_command_does_not_inherit_a_password,
    generated::help_of_each_verb_shows_an_example,
    generated::manual_pages_and_completions_name_every_verb,
}
