//! Where the server is, who we are there, and under which prefix our keys stand.

use std::time::Duration;

use leasehold_api::{Error, ErrorKind, Operation};
use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use url::{Host, Url};

/// The URL schemes of this driver.
pub const SCHEMES: &[&str] = &["redis", "rediss"];

/// The URL's query keys that this driver takes.
pub const URL_KEYS: &[&str] =
    &["prefix", "timeout", "connect_timeout", "tls_ca", "tls_cert", "tls_key"];

const PREFIX_MAX_BYTES: usize = 128;
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// What [`Redis::connect`](crate::Redis::connect) needs to know.
///
/// Setters don't fail; connecting checks everything before anything is sent.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until they are connected with"]
pub struct Options {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<SecretString>,
    pub(crate) database: u32,
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
}

impl Options {
    /// A server without TLS, user or password; database 0; prefix `leasehold`.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            user: None,
            password: None,
            database: 0,
            prefix: "leasehold".to_owned(),
            timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
            tls: None,
        }
    }

    /// Reads `redis://` or `rediss://[[user]:password@]host[:port][/database][?key=value&..]`.
    ///
    /// User, password and host are percent-decoded. The keys, all optional:
    ///
    /// | key | meaning |
    /// | --- | --- |
    /// | `prefix` | begins all keys and channels: 1 to 128 bytes, no braces; `leasehold` |
    /// | `timeout` | a connection that is silent for so long after a request is replaced; `2s` |
    /// | `connect_timeout` | for how long connecting is tried; `5s` |
    /// | `tls_ca` | a PEM file of the trusted roots, in place of the system's |
    /// | `tls_cert`, `tls_key` | PEM files of the client's certificate and key |
    ///
    /// # Errors
    ///
    /// [`BadInput`](ErrorKind::BadInput) for anything else, saying what is allowed;
    /// [`Unsupported`](ErrorKind::Unsupported) for `rediss://` without the feature `tls`.
    pub fn from_url(url: &Url) -> Result<Self, Error> {
        let tls = match url.scheme() {
            "redis" => None,
            "rediss" => Some(TlsFiles::default()),
            other => {
                return bad(format!(
                    "unknown scheme {other:?}; this driver takes {}",
                    SCHEMES.join(" and ")
                ));
            }
        };
        let host = match url.host() {
            Some(Host::Domain(domain)) if !domain.is_empty() => decode("the host", domain)?,
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return bad("the URL names no host; give redis://host:port (no socket paths)"),
        };
        let mut options = Self::new(host, url.port().unwrap_or(6379));
        options.tls = tls;
        if !url.username().is_empty() {
            options.user = Some(decode("the user", url.username())?);
        }
        if let Some(password) = url.password().filter(|password| !password.is_empty()) {
            options.password = Some(decode("the password", password)?.into());
        }
        options.database = database(url.path())?;
        if url.fragment().is_some() {
            return bad("the URL has a fragment (#...); encode # as %23");
        }
        options.read_query(url)?;
        options.check()?;
        Ok(options)
    }

    /// Sets the ACL user; without one it is the server's `default`.
    pub fn with_user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the password.
    pub fn with_password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into().into());
        self
    }

    /// Sets the number of the database.
    pub fn with_database(mut self, database: u32) -> Self {
        self.database = database;
        self
    }

    /// Sets what all keys and channels begin with.
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets for how long a connection may be silent after a request before it is replaced.
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
            let file = |tls: &mut Option<TlsFiles>, put: fn(&mut TlsFiles, String)| match tls {
                Some(tls) if !value.is_empty() => {
                    put(tls, value.clone().into_owned());
                    Ok(())
                }
                Some(_) => bad(format!("{key} is empty; give a path")),
                None => bad(format!("{key} needs the scheme rediss")),
            };
            match &*key {
                "prefix" => self.prefix = value.clone().into_owned(),
                "timeout" => self.timeout = duration(&key, &value)?,
                "connect_timeout" => self.connect_timeout = duration(&key, &value)?,
                "tls_ca" => file(&mut self.tls, |tls, path| tls.roots = Some(path))?,
                "tls_cert" => file(&mut self.tls, |tls, path| tls.certificate = Some(path))?,
                "tls_key" => file(&mut self.tls, |tls, path| tls.key = Some(path))?,
                _ => {
                    let known = URL_KEYS.join(", ");
                    return bad(format!("unknown key {key:?} in the URL; known are {known}"));
                }
            }
            seen.push(key);
        }
        Ok(())
    }

    /// Where the server is, for people.
    pub(crate) fn place(&self) -> String {
        let (host, port) = (&self.host, self.port);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.host.is_empty() || self.host.contains(|c: char| c.is_control() || c == ' ') {
            return bad("the host is empty or has a space or a control character");
        }
        if self.port == 0 {
            return bad("port 0; allowed are 1 to 65535");
        }
        if self.user.is_some() && self.password.is_none() {
            return bad("a user needs a password: redis://user:password@host");
        }
        let braces_or_control = |c: char| c.is_control() || c == '{' || c == '}';
        if self.prefix.is_empty()
            || self.prefix.len() > PREFIX_MAX_BYTES
            || self.prefix.contains(braces_or_control)
        {
            return bad(format!(
                "the prefix {:?}; allowed are 1 to {PREFIX_MAX_BYTES} bytes without braces and \
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
                "TLS (rediss) needs the feature `tls` of leasehold-redis",
            )
            .with_backend(crate::driver::NAME)),
            Some(tls) if tls.certificate.is_some() != tls.key.is_some() => {
                bad("tls_cert and tls_key go together")
            }
            _ => Ok(()),
        }
    }
}

fn database(path: &str) -> Result<u32, Error> {
    let digits = path.strip_prefix('/').unwrap_or(path);
    if digits.is_empty() {
        return Ok(0);
    }
    match digits.parse() {
        Ok(number) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
        _ => bad(format!("the path {path:?}; allowed is a database number, such as /0")),
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
    Err(Error::bad_input(Operation::Configure, message).with_backend(crate::driver::NAME))
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
        let url = "redis://al%20ice:p%40ss%3A%2F@[::1]:7000/3?prefix=shop&timeout=700ms\
                   &connect_timeout=1s";
        let options = read(url).unwrap();
        assert_eq!((&*options.host, options.port, options.database), ("::1", 7000, 3));
        assert_eq!(options.user.as_deref(), Some("al ice"));
        assert_eq!(options.password.unwrap().expose_secret(), "p@ss:/");
        assert_eq!(options.prefix, "shop");
        assert_eq!(options.timeout, Duration::from_millis(700));
        assert_eq!(options.connect_timeout, Duration::from_secs(1));
        let plain = read("redis://Host.example").unwrap();
        assert_eq!((&*plain.host, plain.port, plain.database), ("Host.example", 6379, 0));
        assert!(plain.user.is_none() && plain.password.is_none() && plain.tls.is_none());
        assert!(read("redis://:secret@h").unwrap().password.is_some());
    }

    #[test]
    fn anything_else_is_bad_input_and_says_what_is_allowed() {
        let long = format!("redis://h/?prefix={}", "x".repeat(129));
        for (url, says) in [
            ("http://h", "redis and rediss"),
            ("redis+unix:///tmp/s", "redis and rediss"),
            ("redis:///0", "no socket paths"),
            ("redis:/tmp/redis.sock", "no socket paths"),
            ("redis://h:0", "1 to 65535"),
            ("redis://h/x", "a database number"),
            ("redis://h/-1", "a database number"),
            ("redis://h/+1", "a database number"),
            ("redis://h/1/2", "a database number"),
            ("redis://h/99999999999", "a database number"),
            ("redis://h/#f", "%23"),
            ("redis://u@h", "a user needs a password"),
            ("redis://:%ff@h", "not UTF-8"),
            ("redis://h/?prefix=", "1 to 128 bytes"),
            (&long, "1 to 128 bytes"),
            ("redis://h/?prefix=a{b", "without braces"),
            ("redis://h/?prefix=a&prefix=b", "twice"),
            ("redis://h/?timeout=5", "such as 500ms"),
            ("redis://h/?timeout=0s", "1ms to 1h"),
            ("redis://h/?connect_timeout=2h", "1ms to 1h"),
            ("redis://h/?protocol=resp3", "known are prefix, timeout"),
            ("redis://h/?tls_ca=/x", "rediss"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadInput, "{url}");
            assert!(error.to_string().contains(says), "{url}: {error}");
        }
    }
}
