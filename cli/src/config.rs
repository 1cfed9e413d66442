//! The configuration file of the command.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::args::Guarantee;
use crate::exit::Failure;
use crate::target::holds_password;

/// What a file says; the command line wins over it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) url: Option<String>,
    pub(crate) guarantee: Option<Guarantee>,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) ttl: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) wait: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) min_hold: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) max_hold: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) kill_after: Option<Duration>,
    pub(crate) label: Option<String>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// What can't be read or understood, without the text of the file; a file with a password that
    /// others than its owner may read.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |what: &dyn std::fmt::Display| Failure::config(format!("{shown}: {what}"));
        let mut file = File::open(path).map_err(|error| failed(&error))?;
        let mode = file.metadata().map_err(|error| failed(&error))?.mode();
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| failed(&error))?;
        // Its Display would quote the line, and a line may hold the password.
        let config: Self = toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            failed(&format!("{line}{}", error.message()))
        })?;
        if config.url.as_deref().is_some_and(holds_password) && mode & 0o077 != 0 {
            return Err(failed(&format!(
                "it holds a password and has the mode {:o}: others may read it; use chmod 600",
                mode & 0o777
            )));
        }
        Ok(config)
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let no = |what: &dyn std::fmt::Display| {
        Err(D::Error::custom(format_args!(
            "{what} is not a duration such as \"500ms\", \"30s\" or \"2m\""
        )))
    };
    match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => match humantime::parse_duration(&text) {
            Ok(duration) => Ok(Some(duration)),
            Err(_) => no(&format_args!("`{text}`")),
        },
        toml::Value::Integer(number) => no(&format_args!("the number {number}")),
        other => no(&format_args!("a value of the type {}", other.type_str())),
    }
}
