//! From a URL or a configuration to a client.

use std::fmt::Display;

use leasehold_api::{Error, ErrorKind, Guarantee, Operation, Profile, Scope};
use url::Url;

use crate::config::Config;
use crate::hosts::encode_hosts;
use crate::locks::Locks;
use crate::registry::Registry;
use crate::terms::Wishes;
use crate::text;

/// The URL keys that the client takes; all others are the driver's.
const KEYS: [&str; 4] = ["guarantee", "scope", "ttl", "wait"];

/// Connects to the backend that a URL names, or a [`Config`], which wins over its URL's keys.
///
/// | URL | backend, feature |
/// | --- | --- |
/// | `memory:` or `memory:path` | this process; URLs of one path share one store. `memory` (default) |
/// | `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS | one Redis server. `redis` |
/// | `etcd://[user:password@]host[:port][,host[:port]..]`, `etcds://…` for TLS | an etcd cluster. `etcd` |
///
/// Keys for every backend: `ttl=30s` and `wait=30s` (the defaults of its locks),
/// `guarantee=efficiency|correctness` and `scope=process|host|network` (what the backend must
/// give at least; `guarantee=correctness` asks for `scope=network` unless one is named). The
/// driver's own keys: `prefix` (of all keys; default `leasehold`); for Redis and etcd `timeout`
/// (after so long a silence a connection is replaced; 2 s), `connect_timeout` (5 s: a server that
/// can't be reached is asked again until then), and with TLS `tls_ca`, `tls_cert`, `tls_key`
/// (files) and for etcd `tls_name`.
///
/// # Errors
///
/// `BadInput` for what is wrong with URL or configuration, saying what is allowed; `Unsupported` for a scheme
/// whose feature is not compiled in, or a server that won't do; `Guarantee` if the backend can't
/// give what is asked for; `Unreachable`, `Auth`, `Refused`, `NotPrimary` or `Busy` from the
/// backend.
///
/// # Cancel safety
///
/// Dropped at any await, nothing stays behind.
///
/// # Panics
///
/// Outside a tokio runtime with time enabled.
pub async fn connect(config: impl Into<Config>) -> Result<Locks, Error> {
    Registry::new().connect(config).await
}

/// Connects by a driver of this registry.
pub(crate) async fn connect_by(registry: &Registry, config: Config) -> Result<Locks, Error> {
    let Some(text) = config.url.as_deref() else {
        let schemes = registry.known_schemes();
        return Err(refuse(format!("no `url` is given; it begins with one of {schemes}")));
    };
    let mut url = Url::parse(&encode_hosts(text)).map_err(|source| {
        let schemes = registry.known_schemes();
        refuse(format!(
            "this is not a URL ({source}); it begins with one of {schemes}, and a password in it \
             has `/` as %2F, `?` as %3F, `#` as %23, `@` as %40"
        ))
        .with_source(source)
    })?;
    refuse_stray_secret(&url)?;
    let scheme = url.scheme().to_owned();
    let driver = registry.find(&scheme).map_err(|error| match address(&url) {
        // `Url` takes the host of `localhost:6379` for a scheme.
        Some(address) => refuse(format!(
            "`{address}` is no URL: an address has a scheme in front, such as redis://{address}"
        ))
        .with_source(error),
        None => error,
    })?;
    let mut asked = Asked::take_from(&mut url, &driver.keys, config.prefix.as_deref())?;
    asked.take_over(config);
    asked.wishes.check(&scheme, driver.ttl_floor)?;
    let backend = driver.connect(url).await?;
    asked.compare(backend.profile())?;
    Ok(Locks::start(backend, asked.wishes))
}

/// The address that was meant by `host:port`.
fn address(url: &Url) -> Option<String> {
    let port: u16 = url.path().parse().ok()?;
    url.cannot_be_a_base().then(|| format!("{}:{port}", url.scheme()))
}

fn refuse(message: impl Into<String>) -> Error {
    Error::bad_input(Operation::Configure, message)
}

/// A password with a bare `/`, `?` or `#` puts its rest and an `@` behind the host, where other
/// errors would quote it.
fn refuse_stray_secret(url: &Url) -> Result<(), Error> {
    let behind = [Some(url.path()), url.query(), url.fragment()];
    if url.has_host() && behind.into_iter().flatten().any(|part| part.contains('@')) {
        return Err(refuse(
            "there is an `@` behind the host: in a password, write `/` as %2F, `?` as %3F, `#` as \
             %23; elsewhere write `@` as %40",
        ));
    }
    Ok(())
}

/// What a URL asks of the client and of the backend's profile.
#[derive(Debug, Default)]
struct Asked {
    wishes: Wishes,
    guarantee: Option<Guarantee>,
    scope: Option<Scope>,
}

impl Asked {
    /// Takes the client's keys off the URL, and sets its prefix where one is given; refuses keys
    /// that neither the client nor the driver knows, and keys that stand there twice.
    fn take_from(url: &mut Url, driver_keys: &[&str], prefix: Option<&str>) -> Result<Self, Error> {
        const PREFIX: &str = "prefix";
        let mut asked = Self::default();
        let mut seen = Vec::new();
        let mut rest = Vec::new();
        for (key, value) in url.query_pairs() {
            if seen.contains(&key) {
                return Err(refuse(format!("the key `{key}` stands twice in the URL")));
            }
            let not = |allowed: &dyn Display| refuse(format!("`{key}={value}` is not {allowed}"));
            let duration = || text::read_duration(&value).map_err(|allowed| not(&allowed));
            match &*key {
                "ttl" => asked.wishes.ttl = duration()?,
                "wait" => asked.wishes.wait = duration()?,
                "guarantee" => {
                    let guarantee = text::read_guarantee(&value);
                    asked.guarantee = Some(guarantee.map_err(|allowed| not(&allowed))?);
                }
                "scope" => {
                    let scope = text::read_scope(&value);
                    asked.scope = Some(scope.map_err(|allowed| not(&allowed))?);
                }
                PREFIX if prefix.is_some() && driver_keys.contains(&PREFIX) => {}
                known if driver_keys.contains(&known) => {
                    rest.push((key.to_string(), value.to_string()));
                }
                unknown => return Err(unknown_key(unknown, url.scheme(), driver_keys)),
            }
            seen.push(key);
        }
        drop(seen);
        if let Some(prefix) = prefix {
            if !driver_keys.contains(&PREFIX) {
                return Err(unknown_key(PREFIX, url.scheme(), driver_keys));
            }
            rest.push((PREFIX.to_owned(), prefix.to_owned()));
        }
        url.set_query(None);
        if !rest.is_empty() {
            url.query_pairs_mut().extend_pairs(rest);
        }
        Ok(asked)
    }

    /// What the configuration says wins over the URL.
    fn take_over(&mut self, config: Config) {
        let Config { url: _, guarantee, scope, prefix: _, ttl, wait, min_hold, max_hold, label } =
            config;
        let wishes = &mut self.wishes;
        wishes.ttl = ttl.unwrap_or(wishes.ttl);
        wishes.wait = wait.unwrap_or(wishes.wait);
        wishes.min_hold = min_hold.unwrap_or(wishes.min_hold);
        wishes.max_hold = max_hold;
        wishes.label = label;
        self.guarantee = guarantee.or(self.guarantee);
        self.scope = scope.or(self.scope);
    }

    /// Whether the backend gives what is asked for.
    fn compare(&self, profile: &Profile) -> Result<(), Error> {
        let backend = profile.backend;
        let no = |message: String| {
            let error = Error::new(ErrorKind::Guarantee, Operation::Connect, message);
            Err(error.with_backend(backend))
        };
        if let Some(guarantee) = self.guarantee
            && profile.guarantee < guarantee
        {
            return no(format!(
                "it gives {} and not {guarantee}, because {}",
                profile.guarantee, profile.because
            ));
        }
        let correct = self.guarantee == Some(Guarantee::Correctness);
        let scope = self.scope.or(correct.then_some(Scope::Network));
        match scope {
            Some(scope) if profile.scope < scope => no(format!(
                "it excludes within the scope `{}` only, and `{scope}` is asked for{}",
                profile.scope,
                if self.scope.is_none() {
                    " (as correctness is; name a smaller scope if that will do)"
                } else {
                    ""
                }
            )),
            _ => Ok(()),
        }
    }
}

fn unknown_key(key: &str, scheme: &str, driver_keys: &[&str]) -> Error {
    let ours = KEYS.join(", ");
    let theirs = match driver_keys {
        [] => "none".to_owned(),
        keys => keys.join(", "),
    };
    refuse(format!("unknown key `{key}`; every URL takes {ours}, and {scheme} takes {theirs}"))
}
