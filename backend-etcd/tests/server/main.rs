//! The driver over real servers: what the suite does not ask of every driver.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod connecting;
mod secrets;
mod tls;
mod told;

leasehold_conformance::tests! {
    connecting::a_url_of_several_members_connects_and_names_its_cluster,
    connecting::what_cannot_be_reached_is_said,
    connecting::a_wrong_password_is_refused_and_in_no_text,
    connecting::a_user_and_a_password_are_enough,
    secrets::no_password_is_in_debug_errors_or_logs,
    tls::a_lock_lives_over_tls_as_without,
    tls::tls_trusts_the_named_authority_and_no_other,
    tls::tls_client_certificates_are_shown,
    tls::a_wrong_guess_about_tls_is_told,
    tls::what_speaks_no_tls_is_left_at_once,
    tls::files_and_names_that_are_none_end_before_any_traffic,
    told::every_documented_event_is_told_and_no_other,
}
