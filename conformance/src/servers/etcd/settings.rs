//! What a test has asked for.

use std::time::Duration;

use crate::servers::tls::Certificates;

/// What every member has alike.
#[derive(Clone, Default)]
pub(super) struct Settings {
    pub(super) arguments: Vec<String>,
    pub(super) password: Option<String>,
    pub(super) signed_tokens: Option<Duration>,
    pub(super) certificates: Option<Certificates>,
    pub(super) wants_certificates: bool,
    pub(super) controlled: bool,
    pub(super) separable: bool,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}
