//! What a client is asked to be, as one value.

use std::fmt;
use std::time::Duration;

use leasehold_api::{Guarantee, Scope};

/// The backend, and what is asked of it and of its locks: the argument of
/// [`connect`](crate::connect), written in code or, with the feature `serde`, read from whatever
/// serde reads.
///
/// What is `None` is left to the URL's keys, and past these to the defaults. As text, the keys are
/// the fields' names, durations are such as `500ms`, `30s` or `2m`, and an unknown key is an error
/// that lists the known ones.
///
/// # Examples
///
/// ```
/// use leasehold::{Config, Guarantee};
///
/// let mut config = Config::new("etcd://10.0.0.7:2379");
/// config.guarantee = Some(Guarantee::Correctness);
/// config.prefix = Some("shop".to_owned());
/// ```
#[derive(Clone, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
#[must_use = "a configuration does nothing until it is connected with"]
pub struct Config {
    /// The backend's URL, which may hold a password: [`Debug`](fmt::Debug) shows its scheme only.
    pub url: Option<String>,
    /// What the backend must give at least; `Correctness` asks for the scope `Network` too, unless
    /// a scope is named.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::text::guarantee"))]
    pub guarantee: Option<Guarantee>,
    /// Over what the backend must exclude at least.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::text::scope"))]
    pub scope: Option<Scope>,
    /// What all of the store's keys begin with, by the driver's rules: clients of two prefixes
    /// share no lock.
    pub prefix: Option<String>,
    /// How long a lease lasts without renewal, by the store's clock. Default 30 s.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::text::duration"))]
    pub ttl: Option<Duration>,
    /// How long [`acquire`](crate::Lock::acquire) waits, by this host's clock. Default 30 s.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::text::duration"))]
    pub wait: Option<Duration>,
    /// For how long from the grant on a lock stays closed, also if it is released earlier.
    /// Default 0.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::text::duration"))]
    pub min_hold: Option<Duration>,
    /// After so long from the grant on a guard is lost, and released. Default: no limit.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "crate::text::duration"))]
    pub max_hold: Option<Duration>,
    /// What tells people who holds a lock, at most 128 bytes. Default: none.
    pub label: Option<String>,
}

impl Config {
    /// A configuration that says nothing but where the store is.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::default() }
    }
}

impl From<&str> for Config {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<&String> for Config {
    fn from(url: &String) -> Self {
        Self::new(url)
    }
}

impl From<String> for Config {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a wrong URL holds where is anybody's guess: a password may stand in each part.
        let scheme = self.url.as_deref().map(|url| match url.split_once(':') {
            Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_lowercase()) => {
                format!("{scheme}:…")
            }
            _ => "…".to_owned(),
        });
        f.debug_struct("Config")
            .field("url", &scheme)
            .field("guarantee", &self.guarantee)
            .field("scope", &self.scope)
            .field("prefix", &self.prefix)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("min_hold", &self.min_hold)
            .field("max_hold", &self.max_hold)
            .field("label", &self.label)
            .finish()
    }
}
