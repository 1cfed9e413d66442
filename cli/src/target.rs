//! Which backend is meant: a flag, a file or the environment names it.

use std::path::PathBuf;

use leasehold::Locks;
use url::Url;

use crate::args::{Guarantee, Target};
use crate::config::Config;
use crate::exit::Failure;

/// The environment variable that names the backend.
pub(crate) const VARIABLE: &str = "LEASEHOLD_URL";

/// Where the locks are, and what a configuration file says besides.
pub(crate) struct Settings {
    pub(crate) config: Config,
    file: Option<PathBuf>,
    url: Url,
}

impl Settings {
    /// Finds the backend's URL: from `--url`, `--config`, or `LEASEHOLD_URL`.
    ///
    /// # Errors
    ///
    /// None of them is there; `--url` holds a password; a file can't be read; no URL.
    pub(crate) fn find(target: &Target, guarantee: Option<Guarantee>) -> Result<Self, Failure> {
        let config = match (&target.url, &target.config) {
            (Some(url), _) if holds_password(url) => {
                return Err(Failure::usage(format!(
                    "--url holds a password, which every process list shows: put the URL into \
                     {VARIABLE}, or into a file for --config"
                )));
            }
            (Some(url), _) => Config { url: url.clone(), ..Config::default() },
            (None, Some(path)) => Config::read(path)?,
            (None, None) => Config { url: from_environment()?, ..Config::default() },
        };
        let mut url = parse(&config.url)?;
        if let Some(guarantee) = guarantee.or(config.guarantee) {
            set(&mut url, "guarantee", guarantee.key());
        }
        if url.scheme() == "memory" {
            return Err(Failure::config(
                "memory: excludes within one process only, and each `leasehold` is one of its own: \
                 name a server, such as redis://127.0.0.1:6379",
            ));
        }
        Ok(Self { config, file: target.config.clone(), url })
    }

    /// A value that is outside its limits: of a flag it is wrong usage; of the file or the URL, a
    /// wrong configuration.
    pub(crate) fn refuse(&self, message: String, of_a_flag: bool) -> Failure {
        match &self.file {
            _ if of_a_flag => Failure::usage(message),
            Some(file) => Failure::config(message).within(&file.display()),
            None => Failure::config(message),
        }
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// Those of [`leasehold::connect`].
    pub(crate) async fn connect(&self) -> Result<Locks, leasehold::Error> {
        leasehold::connect(self.url.as_str()).await
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
    match Url::parse(url) {
        Ok(url) => url.password().is_some(),
        // Perhaps a password made it unreadable.
        Err(_) => url.contains('@'),
    }
}

fn from_environment() -> Result<String, Failure> {
    match std::env::var(VARIABLE) {
        Ok(url) if !url.is_empty() => Ok(url),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Failure::config(format!("{VARIABLE} is not UTF-8")))
        }
        _ => Err(Failure::usage(format!(
            "no lock server is named: set {VARIABLE} (such as redis://127.0.0.1:6379), or use \
             --url or --config. A lock file on this host, without a server, is not there yet"
        ))),
    }
}

fn parse(url: &str) -> Result<Url, Failure> {
    Url::parse(url).map_err(|error| {
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
        for url in ["redis://:x@h", "redis://u:x@h:1/0", "rediss://u:@@h", "redis://u:a/b@h"] {
            assert!(holds_password(url), "{url}");
        }
        for url in ["redis://h", "redis://user@h:1/0?prefix=a", "h:6379", "redis://h?prefix=a:b"] {
            assert!(!holds_password(url), "{url}");
        }
    }

    #[test]
    fn a_key_that_is_set_stands_there_once() {
        let mut url = Url::parse("redis://h/?guarantee=efficiency&ttl=5s").unwrap();
        set(&mut url, "guarantee", "correctness");
        assert_eq!(url.query(), Some("ttl=5s&guarantee=correctness"));
    }
}
