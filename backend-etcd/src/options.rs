//! Where the cluster is, who we are there, and under which prefix our keys stand.

use std::time::Duration;

use leasehold_api::{Error, ErrorKind, Operation};
use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use url::Url;

use crate::driver::NAME;

/// The URL schemes of this driver.
pub const SCHEMES: &[&str] = &["etcd", "etcds"];

/// The URL's query keys that this driver takes.
pub const URL_KEYS: &[&str] =
    &["prefix", "timeout", "connect_timeout", "tls_ca", "tls_cert", "tls_key", "tls_name"];

const PORT: u16 = 2379;
const PREFIX_MAX_BYTES: usize = 128;
const MOST_ENDPOINTS: usize = 32;
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// What [`Etcd::connect`](crate::Etcd::connect) needs to know.
///
/// Setters don't fail; connecting checks everything before anything is sent.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until they are connected with"]
pub struct Options {
    pub(crate) endpoints: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<SecretString>,
    pub(crate) prefix: String,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) tls: Option<TlsFiles>,
}

/// The files of a TLS connection; what is not given is the system's, or none.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsFiles {
    pub(crate) roots: Option<String>,
    pub(crate) certificate: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) name: Option<String>,
}

impl Options {
    /// A cluster without TLS, user or password, with prefix `leasehold`. An endpoint is a member's
    /// client address as `host:port`.
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            user: None,
            password: None,
            prefix: "leasehold".to_owned(),
            timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
            tls: None,
        }
    }

    /// Reads `etcd://[user:password@]host[:port][,host[:port]..][/][?key=value&..]`, or `etcds://`
    /// for TLS.
    ///
    /// User, password and hosts are percent-decoded; a list of hosts with ports has to be written
    /// with `%3A` for their colons to be a valid URL, which `leasehold::connect` does by itself.
    /// The keys, all optional:
    ///
    /// | key | meaning |
    /// | --- | --- |
    /// | `prefix` | begins all keys: 1 to 128 bytes, no colon; `leasehold` |
    /// | `timeout` | a request that is not answered for so long has failed; `2s` |
    /// | `connect_timeout` | for how long connecting is tried; `5s` |
    /// | `tls_ca` | a PEM file of the trusted roots, in place of the system's |
    /// | `tls_cert`, `tls_key` | PEM files of the client's certificate and key |
    /// | `tls_name` | the name in the members' certificate, where it is not their host |
    ///
    /// # Errors
    ///
    /// [`BadInput`](ErrorKind::BadInput) for anything else, saying what is allowed;
    /// [`Unsupported`](ErrorKind::Unsupported) for `etcds://` without the feature `tls`.
    pub fn from_url(url: &Url) -> Result<Self, Error> {
        let tls = match url.scheme() {
            "etcd" => None,
            "etcds" => Some(TlsFiles::default()),
            other => {
                return bad(format!(
                    "unknown scheme {other:?}; this driver takes {}",
                    SCHEMES.join(" and ")
                ));
            }
        };
        let hosts = decode("the host", url.host_str().unwrap_or_default())?;
        let mut options = Self::new(match url.port() {
            Some(port) => vec![format!("{hosts}:{port}")],
            None => hosts.split(',').map(with_port).collect(),
        });
        options.tls = tls;
        if !url.username().is_empty() {
            options.user = Some(decode("the user", url.username())?);
        }
        if let Some(password) = url.password().filter(|password| !password.is_empty()) {
            options.password = Some(decode("the password", password)?.into());
        }
        if !matches!(url.path(), "" | "/") {
            return bad(format!("the path {:?}; etcd has no databases, give none", url.path()));
        }
        if url.fragment().is_some() {
            return bad("the URL has a fragment (#...); encode # as %23");
        }
        options.read_query(url)?;
        options.check()?;
        Ok(options)
    }

    /// Sets user and password.
    pub fn with_user(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self.password = Some(password.into().into());
        self
    }

    /// Sets what all keys begin with.
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets after how long a request without an answer has failed.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets for how long connecting is tried.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Switches TLS on, with the system's roots or those of a PEM file.
    pub fn with_tls(mut self, roots: Option<String>) -> Self {
        self.tls.get_or_insert_default().roots = roots;
        self
    }

    /// Switches TLS on, with PEM files of the client's certificate and key.
    pub fn with_tls_identity(mut self, certificate: String, key: String) -> Self {
        let tls = self.tls.get_or_insert_default();
        tls.certificate = Some(certificate);
        tls.key = Some(key);
        self
    }

    fn read_query(&mut self, url: &Url) -> Result<(), Error> {
        let mut seen = Vec::new();
        for (key, value) in url.query_pairs() {
            if seen.contains(&key) {
                return bad(format!("the key {key} stands twice in the URL"));
            }
            let tls = |tls: &mut Option<TlsFiles>, put: fn(&mut TlsFiles, String)| match tls {
                Some(tls) if !value.is_empty() => {
                    put(tls, value.clone().into_owned());
                    Ok(())
                }
                Some(_) => bad(format!("{key} is empty")),
                None => bad(format!("{key} needs the scheme etcds")),
            };
            match &*key {
                "prefix" => self.prefix = value.clone().into_owned(),
                "timeout" => self.timeout = duration(&key, &value)?,
                "connect_timeout" => self.connect_timeout = duration(&key, &value)?,
                "tls_ca" => tls(&mut self.tls, |tls, path| tls.roots = Some(path))?,
                "tls_cert" => tls(&mut self.tls, |tls, path| tls.certificate = Some(path))?,
                "tls_key" => tls(&mut self.tls, |tls, path| tls.key = Some(path))?,
                "tls_name" => tls(&mut self.tls, |tls, name| tls.name = Some(name))?,
                _ => {
                    let known = URL_KEYS.join(", ");
                    return bad(format!("unknown key {key:?} in the URL; known are {known}"));
                }
            }
            seen.push(key);
        }
        Ok(())
    }

    /// Where the cluster is, for people.
    pub(crate) fn place(&self) -> String {
        self.endpoints.join(",")
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.endpoints.is_empty() || self.endpoints.len() > MOST_ENDPOINTS {
            return bad(format!(
                "{} endpoints; allowed are 1 to {MOST_ENDPOINTS}",
                self.endpoints.len()
            ));
        }
        for endpoint in &self.endpoints {
            check_endpoint(endpoint)?;
        }
        if self.user.is_some() != self.password.is_some() {
            return bad("user and password go together: etcd://user:password@host");
        }
        if self.prefix.is_empty()
            || self.prefix.len() > PREFIX_MAX_BYTES
            || self.prefix.contains(|c: char| c.is_control() || c == ':')
        {
            return bad(format!(
                "the prefix {:?}; allowed are 1 to {PREFIX_MAX_BYTES} bytes without colons and \
                 control characters",
                self.prefix
            ));
        }
        for (key, value) in [("timeout", self.timeout), ("connect_timeout", self.connect_timeout)] {
            if value < Duration::from_millis(1) || value > LONGEST {
                return bad(format!("{key} of {value:?}; allowed are 1ms to 1h"));
            }
        }
        match &self.tls {
            Some(_) if cfg!(not(feature = "tls")) => Err(Error::new(
                ErrorKind::Unsupported,
                Operation::Configure,
                "TLS (etcds) needs the feature `tls` of leasehold-etcd",
            )
            .with_backend(NAME)),
            Some(tls) if tls.certificate.is_some() != tls.key.is_some() => {
                bad("tls_cert and tls_key go together")
            }
            _ => Ok(()),
        }
    }
}

/// `host:port` of a host that may have none; `[::1]` has none, `[::1]:2379` has.
fn with_port(host: &str) -> String {
    let after_brackets = host.rsplit(']').next().unwrap_or(host);
    match after_brackets.contains(':') || host.is_empty() {
        true => host.to_owned(),
        false => format!("{host}:{PORT}"),
    }
}

fn check_endpoint(endpoint: &str) -> Result<(), Error> {
    let refused = |why: &str| {
        bad(format!("the endpoint {endpoint:?} {why}; allowed is host:port, such as 10.0.0.7:2379"))
    };
    let Some((host, port)) = endpoint.rsplit_once(':') else {
        return refused(if endpoint.is_empty() { "names no host" } else { "has no port" });
    };
    if host.is_empty() || host.contains(|c: char| c.is_control() || " /@?#,".contains(c)) {
        return refused("names no host");
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return refused("has an IPv6 address without brackets");
    }
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(()),
        _ => refused("has no port of 1 to 65535"),
    }
}

fn duration(key: &str, value: &str) -> Result<Duration, Error> {
    humantime::parse_duration(value)
        .or_else(|_| bad(format!("{key}={value}; allowed is a duration such as 500ms or 2s")))
}

fn decode(what: &str, text: &str) -> Result<String, Error> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) if !text.contains('\0') => Ok(text.into_owned()),
        _ => bad(format!("{what} of the URL is not UTF-8 once percent-decoded")),
    }
}

pub(crate) fn bad<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::bad_input(Operation::Configure, message).with_backend(NAME))
}

#[cfg(test)]
mod tests {
    use super::{Options, Url};
    use leasehold_api::ErrorKind;
    use secrecy::ExposeSecret;
    use std::time::Duration;

    fn read(url: &str) -> Result<Options, leasehold_api::Error> {
        Options::from_url(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_url_gives_each_option_and_is_percent_decoded() {
        let url = "etcd://al%20ice:p%40ss@a%3A1,b,%5B%3A%3A1%5D%3A3/?prefix=apps/shop&timeout=700ms\
                   &connect_timeout=1s";
        let options = read(url).unwrap();
        assert_eq!(options.endpoints, ["a:1", "b:2379", "[::1]:3"]);
        assert_eq!(options.user.as_deref(), Some("al ice"));
        assert_eq!(options.password.unwrap().expose_secret(), "p@ss");
        assert_eq!(options.prefix, "apps/shop");
        assert_eq!(options.timeout, Duration::from_millis(700));
        assert_eq!(options.connect_timeout, Duration::from_secs(1));
        let plain = read("etcd://h").unwrap();
        assert_eq!(
            (plain.endpoints, plain.prefix),
            (vec!["h:2379".to_owned()], "leasehold".into())
        );
        assert_eq!(read("etcd://[::1]:7").unwrap().endpoints, ["[::1]:7"]);
        assert_eq!(read("etcd://[::1]").unwrap().endpoints, ["[::1]:2379"]);
    }

    #[test]
    fn what_is_not_allowed_is_refused_with_what_is() {
        for (url, says) in [
            ("http://h", "etcd and etcds"),
            ("etcd:///", "names no host"),
            ("etcd://h,", "names no host"),
            ("etcd://h%3A0", "1 to 65535"),
            ("etcd://h%3A99999", "1 to 65535"),
            ("etcd://h/0", "give none"),
            ("etcd://user@h", "user:password@host"),
            ("etcd://h?prefix=a:b", "without colons"),
            ("etcd://h?prefix=", "1 to 128 bytes"),
            ("etcd://h?timeout=0s", "1ms to 1h"),
            ("etcd://h?timeout=soon", "such as 500ms"),
            ("etcd://h?tls_ca=x", "needs the scheme etcds"),
            ("etcd://h?database=1", "known are prefix, timeout"),
            ("etcd://h?prefix=a&prefix=b", "stands twice"),
            ("etcd://h#x", "fragment"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadInput, "{url}: {error}");
            assert!(error.to_string().contains(says), "{url}: {error}");
        }
    }

    #[test]
    fn a_password_is_in_no_debug() {
        let options = read("etcd://user:hunter2@h").unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
