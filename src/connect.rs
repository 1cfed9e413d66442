//! From a URL to a client.

use std::time::Duration;

use leasehold_api::{Error, ErrorKind, Guarantee, Operation, Profile, Scope};
use url::Url;

use crate::hosts::encode_hosts;
use crate::locks::Locks;
use crate::registry;
use crate::terms::Wishes;

/// The URL keys that the client takes; all others are the driver's.
const KEYS: [&str; 4] = ["guarantee", "scope", "ttl", "wait"];

/// Connects to the backend that the URL names.
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
/// driver's own keys: for Redis and etcd `prefix` (of all keys; default `leasehold`), `timeout`
/// (after so long a silence a connection is replaced; 2 s), `connect_timeout` (5 s: a server that
/// can't be reached is asked again until then), and with TLS `tls_ca`, `tls_cert`, `tls_key`
/// (files) and for etcd `tls_name`.
///
/// # Errors
///
/// `BadInput` for what is wrong with the URL, saying what is allowed; `Unsupported` for a scheme
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
pub async fn connect(url: &str) -> Result<Locks, Error> {
    let mut url = Url::parse(&encode_hosts(url)).map_err(|source| {
        let schemes = registry::known_schemes();
        refuse(format!(
            "this is not a URL ({source}); it begins with one of {schemes}, and a password in it \
             has `/` as %2F, `?` as %3F, `#` as %23, `@` as %40"
        ))
        .with_source(source)
    })?;
    refuse_stray_secret(&url)?;
    let scheme = url.scheme().to_owned();
    let driver = registry::find(&scheme).map_err(|error| match address(&url) {
        // `Url` takes the host of `localhost:6379` for a scheme.
        Some(address) => refuse(format!(
            "`{address}` is no URL: an address has a scheme in front, such as redis://{address}"
        ))
        .with_source(error),
        None => error,
    })?;
    let asked = Asked::take_from(&mut url, driver.keys)?;
    asked.wishes.check(&scheme, driver.ttl_floor)?;
    let backend = (driver.connect)(&url).await?;
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
    /// Takes the client's keys off the URL; refuses keys that neither the client nor the driver
    /// knows, and keys that stand there twice.
    fn take_from(url: &mut Url, driver_keys: &[&str]) -> Result<Self, Error> {
        let mut asked = Self::default();
        let mut seen = Vec::new();
        let mut rest = Vec::new();
        for (key, value) in url.query_pairs() {
            if seen.contains(&key) {
                return Err(refuse(format!("the key `{key}` stands twice in the URL")));
            }
            match &*key {
                "ttl" => asked.wishes.ttl = duration(&key, &value)?,
                "wait" => asked.wishes.wait = duration(&key, &value)?,
                "guarantee" => {
                    asked.guarantee = Some(one_of(
                        &key,
                        &value,
                        &[Guarantee::Efficiency, Guarantee::Correctness],
                    )?);
                }
                "scope" => {
                    asked.scope =
                        Some(one_of(&key, &value, &[Scope::Process, Scope::Host, Scope::Network])?);
                }
                known if driver_keys.contains(&known) => {
                    rest.push((key.to_string(), value.to_string()));
                }
                unknown => return Err(unknown_key(unknown, url.scheme(), driver_keys)),
            }
            seen.push(key);
        }
        drop(seen);
        url.set_query(None);
        if !rest.is_empty() {
            url.query_pairs_mut().extend_pairs(rest);
        }
        Ok(asked)
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

fn duration(key: &str, value: &str) -> Result<Duration, Error> {
    humantime::parse_duration(value).map_err(|source| {
        let message = format!("`{key}={value}` is not a duration such as 500ms, 30s or 2m");
        refuse(message).with_source(source)
    })
}

fn one_of<T: Copy + ToString>(key: &str, value: &str, known: &[T]) -> Result<T, Error> {
    known.iter().copied().find(|known| known.to_string() == value).ok_or_else(|| {
        let known: Vec<_> = known.iter().map(ToString::to_string).collect();
        refuse(format!("`{key}={value}` is not one of {}", known.join(", ")))
    })
}

fn unknown_key(key: &str, scheme: &str, driver_keys: &[&str]) -> Error {
    let ours = KEYS.join(", ");
    let theirs = match driver_keys {
        [] => "none".to_owned(),
        keys => keys.join(", "),
    };
    refuse(format!("unknown key `{key}`; every URL takes {ours}, and {scheme} takes {theirs}"))
}
