//! The driver over real servers: what the suite does not ask of every driver.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod connecting;
mod secrets;
mod told;

leasehold_conformance::tests! {
    connecting::a_url_of_several_members_connects_and_names_its_cluster,
    connecting::what_cannot_be_reached_is_said,
    connecting::a_wrong_password_is_refused_and_in_no_text,
    connecting::a_user_and_a_password_are_enough,
    secrets::no_password_is_in_debug_errors_or_logs,
    told::every_documented_event_is_told_and_no_other,
}
