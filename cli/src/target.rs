//! Which backend is meant: a flag, a file or the environment names it.

use std::fmt::Display;
use std::path::PathBuf;

use leasehold::{Config, Guarantee, Locks, Operation, encode_hosts};
use url::Url;

use crate::args::{self, Target};
use crate::config::Configured;
use crate::exit::Failure;

/// The environment variable that names the backend.
pub(crate) const VARIABLE: &str = "LEASEHOLD_URL";

/// Where the locks are, and what a configuration file says besides.
pub(crate) struct Settings {
    pub(crate) configured: Configured,
    guarantee: Option<Guarantee>,
    file: Option<PathBuf>,
    url: Url,
    /// The URL as it was given.
    text: String,
    /// What named the URL.
    by: String,
}

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Flag,
    File,
    Url,
}

impl Settings {
    /// Finds the backend's URL: in `--url`, in the file of `--config`, or in `LEASEHOLD_URL`.
    ///
    /// # Errors
    ///
    /// None of them has it; `--url` holds a password; a file can't be read; no URL.
    pub(crate) fn find(
        target: &Target,
        guarantee: Option<args::Guarantee>,
    ) -> Result<Self, Failure> {
        let file = target.config.clone();
        let configured = file.as_deref().map(Configured::read).transpose()?.unwrap_or_default();
        let (text, by) = match (&target.url, &configured.client.url, &file) {
            (Some(url), ..) if holds_password(url) => {
                return Err(Failure::usage(format!(
                    "--url holds a password, which every process list shows: put the URL into \
                     {VARIABLE}, or into a file for --config"
                )));
            }
            (Some(url), ..) => (url.clone(), "--url".to_owned()),
            (None, Some(url), Some(file)) => (url.clone(), file.display().to_string()),
            (None, _, Some(file)) => match from_environment()? {
                Some(url) => (url, VARIABLE.to_owned()),
                None => {
                    let message = format!("it has no `url`, and {VARIABLE} is not set");
                    return Err(Failure::config(message).within(&file.display()));
                }
            },
            (None, _, None) => match from_environment()? {
                Some(url) => (url, VARIABLE.to_owned()),
                None => return Err(nowhere()),
            },
        };
        let url = parse(&text).map_err(|failure| failure.within(&by))?;
        let guarantee = guarantee.map(Into::into).or(configured.client.guarantee);
        if url.scheme() == "memory" {
            return Err(Failure::config(
                "memory: excludes within one process only, and each `leasehold` is one of its own: \
                 name a server, such as redis://127.0.0.1:6379",
            )
            .within(&by));
        }
        Ok(Self { configured, guarantee, file, url, text, by })
    }

    /// The URL for the command, so that a `leasehold` in it asks for the same locks; none if it
    /// holds a password.
    pub(crate) fn url_to_hand_on(&self) -> Option<String> {
        if holds_password(&self.text) {
            return None;
        }
        let Some(prefix) = &self.configured.client.prefix else { return Some(self.text.clone()) };
        let mut url = self.url.clone();
        set(&mut url, "prefix", prefix);
        Some(url.into())
    }

    /// A value that is outside its limits: of a flag it is wrong usage; of the file or the URL, a
    /// wrong configuration. `key` is spelled as in the file.
    pub(crate) fn refuse(
        &self,
        place: Place,
        key: &str,
        value: &dyn Display,
        why: &str,
    ) -> Failure {
        // As it can be written, without what a terminal would obey.
        let value: String = value.to_string().chars().flat_map(char::escape_debug).collect();
        match (place, &self.file) {
            (Place::Flag, _) => {
                Failure::usage(format!("--{} {value}: {why}", key.replace('_', "-")))
            }
            (Place::File, Some(file)) => {
                Failure::config(format!("{key} = \"{value}\": {why}")).within(&file.display())
            }
            _ => Failure::config(format!("{key}={value}: {why}")).within(&self.by),
        }
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// Those of [`leasehold::connect`].
    pub(crate) async fn connect(&self) -> Result<Locks, leasehold::Error> {
        let mut config = Config::new(&self.text);
        config.guarantee = self.guarantee;
        config.scope = self.configured.client.scope;
        config.prefix.clone_from(&self.configured.client.prefix);
        leasehold::connect(config).await
    }

    /// What to tell of an error of [`connect`](Self::connect): also which URL is wrong.
    pub(crate) fn unconnected(&self, error: leasehold::Error) -> Failure {
        let of_the_url = error.operation() == Operation::Configure;
        let failure = Failure::from(error);
        if of_the_url { failure.within(&self.by) } else { failure }
    }

    /// A value that the URL has for all of its locks, such as `ttl`.
    pub(crate) fn of_url(&self, key: &str) -> Option<std::time::Duration> {
        let found = self.url.query_pairs().find(|(name, _)| name == key);
        // What can't be read is refused by `connect`, which says what is allowed.
        found.and_then(|(_, value)| humantime::parse_duration(&value).ok())
    }
}

/// Whether this URL, or what was meant as one, holds a password.
pub(crate) fn holds_password(url: &str) -> bool {
    match Url::parse(&encode_hosts(url)) {
        Ok(url) => url.password().is_some(),
        // Perhaps a password made it unreadable.
        Err(_) => url.contains('@'),
    }
}

fn from_environment() -> Result<Option<String>, Failure> {
    match std::env::var(VARIABLE) {
        Ok(url) => Ok(Some(url).filter(|url| !url.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Failure::config(format!("{VARIABLE} is not UTF-8")))
        }
    }
}

fn nowhere() -> Failure {
    Failure::usage(format!(
        "no lock server is named: set {VARIABLE} (such as redis://127.0.0.1:6379), or use --url or \
         --config. A lock file on this host, without a server, is not there yet"
    ))
}

fn parse(url: &str) -> Result<Url, Failure> {
    Url::parse(&encode_hosts(url)).map_err(|error| {
        Failure::config(format!(
            "the URL of the lock server can't be read: {error}; it begins like redis://HOST:PORT, \
             and a password in it has `/` as %2F, `?` as %3F, `#` as %23, `@` as %40"
        ))
    })
}

/// Sets a key of the query, in place of one that is there.
fn set(url: &mut Url, key: &str, value: &str) {
    let others: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| name != key)
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(key, value);
}

#[cfg(test)]
mod tests {
    use super::{holds_password, set};
    use url::Url;

    #[test]
    fn a_password_is_seen_also_in_what_is_no_url() {
        for url in [
            "redis://:x@h",
            "redis://u:x@h:1/0",
            "rediss://u:@@h",
            "redis://u:a/b@h",
            "etcd://u:p@a:1,b:2",
        ] {
            assert!(holds_password(url), "{url}");
        }
        for url in [
            "redis://h",
            "redis://user@h:1/0?prefix=a",
            "h:6379",
            "redis://h?prefix=a:b",
            "etcd://a:1,b:2",
        ] {
            assert!(!holds_password(url), "{url}");
        }
    }

    #[test]
    fn a_key_that_is_set_stands_there_once() {
        let mut url = Url::parse("redis://h/?prefix=a&ttl=5s").unwrap();
        set(&mut url, "prefix", "b");
        assert_eq!(url.query(), Some("ttl=5s&prefix=b"));
    }
}
