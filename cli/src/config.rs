//! The configuration file of the command.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use leasehold::Config;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer as _, MapAccess, Visitor,
};

use crate::exit::Failure;
use crate::target::holds_password;

const KILL_AFTER: &str = "kill_after";

/// What a file says; the command line wins over it.
#[derive(Default)]
pub(crate) struct Configured {
    /// What every client of the library understands.
    pub(crate) client: Config,
    /// What the command has besides.
    pub(crate) kill_after: Option<Duration>,
}

impl Configured {
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
        let configured: Self = toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            failed(&format!("{line}{}", error.message()))
        })?;
        if configured.client.url.as_deref().is_some_and(holds_password) && mode & 0o077 != 0 {
            return Err(failed(&format!(
                "it holds a password and has the mode {:o}: others may read it; use chmod 600",
                mode & 0o777
            )));
        }
        Ok(configured)
    }
}

impl<'de> Deserialize<'de> for Configured {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Both)
    }
}

struct Both;

impl<'de> Visitor<'de> for Both {
    type Value = Configured;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, keys: A) -> Result<Configured, A::Error> {
        let mut kill_after = None;
        let others = Others { keys, kill_after: &mut kill_after };
        let client = Config::deserialize(MapAccessDeserializer::new(others))?;
        Ok(Configured { client, kill_after })
    }
}

/// The keys of a file but the command's own, which is taken on the way: a flattened struct would
/// not say which keys are unknown, nor where.
struct Others<'a, A> {
    keys: A,
    kill_after: &'a mut Option<Duration>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Others<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let mut seed = seed;
        loop {
            match self.keys.next_key_seed(Key(seed))? {
                Some(Found::KillAfter(back)) => seed = back,
                Some(Found::Other(key)) => return Ok(Some(key)),
                None => return Ok(None),
            }
            *self.kill_after = Some(self.keys.next_value_seed(KillAfter)?);
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.keys.next_value_seed(seed)
    }
}

/// Reads a key as whoever this is made of would, unless it is the command's.
struct Key<K>(K);

enum Found<K, V> {
    KillAfter(K),
    Other(V),
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<K> {
    type Value = Found<K, K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let key = String::deserialize(deserializer)?;
        if key == KILL_AFTER {
            return Ok(Found::KillAfter(self.0));
        }
        let read: Result<_, D::Error> = self.0.deserialize(key.into_deserializer());
        read.map(Found::Other).map_err(|error| {
            D::Error::custom(format_args!("{error}; the command takes `{KILL_AFTER}` besides"))
        })
    }
}

struct KillAfter;

impl<'de> DeserializeSeed<'de> for KillAfter {
    type Value = Duration;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map_err(|_| {
            D::Error::custom(format_args!("`{text}` is not a duration such as 500ms, 30s or 2m"))
        })
    }
}
