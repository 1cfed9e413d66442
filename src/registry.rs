//! Which driver serves which scheme.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_api::{Backend, Error, ErrorKind, Operation};
use url::Url;

use crate::config::Config;
use crate::connect::connect_by;
use crate::locks::Locks;

/// The drivers that a URL can name: those that are compiled in, and others that a caller adds.
///
/// # Examples
///
/// ```
/// # async fn example() -> Result<(), leasehold::Error> {
/// use leasehold::{Driver, Registry};
/// use leasehold_memory::Memory; // stands for a driver of your own
/// use std::sync::Arc;
///
/// let registry = Registry::new().with(Driver::new("mine", &["level"], async |url| {
///     Ok(Arc::new(Memory::shared(url.path())) as _)
/// }));
/// let locks = registry.connect("mine:path?level=3&ttl=10s").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a registry does nothing until it is connected by"]
pub struct Registry {
    added: Vec<Driver>,
}

/// A driver under the scheme of its URLs.
#[derive(Clone)]
#[must_use = "a driver is found once it is in a registry"]
pub struct Driver {
    scheme: &'static str,
    /// The URL keys it takes.
    pub(crate) keys: Vec<&'static str>,
    /// The shortest TTL it keeps, as far as that is known before it is connected.
    pub(crate) ttl_floor: Duration,
    connect: Arc<dyn Fn(Url) -> Connecting + Send + Sync>,
}

type Connecting = BoxFuture<'static, Result<Arc<dyn Backend>, Error>>;

impl Registry {
    /// The drivers that are compiled in.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a driver. A scheme that this crate knows, or that was added before, is taken: an error
    /// of [`connect`](Self::connect).
    pub fn with(mut self, driver: Driver) -> Self {
        self.added.push(driver);
        self
    }

    /// As [`connect`](crate::connect), by one of these drivers.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](crate::connect), and those of the driver.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, nothing stays behind that the driver's connecting doesn't leave.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
    pub async fn connect(&self, config: impl Into<Config>) -> Result<Locks, Error> {
        connect_by(self, config.into()).await
    }

    /// The schemes there are, for people to read.
    pub(crate) fn known_schemes(&self) -> String {
        let ours = SCHEMES.iter().map(|scheme| scheme.name);
        let all = ours.chain(self.added.iter().map(|driver| driver.scheme));
        all.map(|name| format!("{name}:")).collect::<Vec<_>>().join(", ")
    }

    /// The driver of a scheme.
    ///
    /// # Errors
    ///
    /// `BadInput` for a scheme that nobody knows, or that two have; `Unsupported` for one whose
    /// feature is off.
    pub(crate) fn find(&self, name: &str) -> Result<Driver, Error> {
        let refuse = |message| Err(Error::bad_input(Operation::Configure, message));
        let ours = SCHEMES.iter().find(|scheme| scheme.name == name);
        let mut added = self.added.iter().filter(|driver| driver.scheme == name);
        match (ours, added.next(), added.next()) {
            (None, None, _) => {
                refuse(format!("unknown scheme `{name}`; known are {}", self.known_schemes()))
            }
            (None, Some(driver), None) => Ok(driver.clone()),
            (Some(scheme), None, _) => {
                scheme.driver.map(|driver| driver(scheme.name)).ok_or_else(|| {
                    let message = format!(
                        "the scheme `{name}` needs the feature `{}` of the crate `leasehold`, \
                         which is not compiled in",
                        scheme.feature
                    );
                    Error::new(ErrorKind::Unsupported, Operation::Configure, message)
                })
            }
            (Some(_), Some(_), _) => refuse(format!(
                "the scheme `{name}` is one of leasehold's own; add the driver under another"
            )),
            (None, Some(_), Some(_)) => {
                refuse(format!("the scheme `{name}` was added by two drivers"))
            }
        }
    }
}

impl Driver {
    /// A driver of URLs with this scheme (in lower case), which takes these keys besides those
    /// that every URL takes. `connect` gets the URL with no keys but these, and nothing of it is
    /// checked but that.
    pub fn new<C, F>(scheme: &'static str, keys: &[&'static str], connect: C) -> Self
    where
        C: Fn(Url) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Arc<dyn Backend>, Error>> + Send + 'static,
    {
        Self {
            scheme,
            keys: keys.to_vec(),
            ttl_floor: Duration::ZERO,
            connect: Arc::new(move |url| Box::pin(connect(url))),
        }
    }

    pub(crate) fn connect(&self, url: Url) -> Connecting {
        (self.connect)(url)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("scheme", &self.scheme)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

type Ours = Option<fn(&'static str) -> Driver>;

/// A scheme, the feature that brings its driver, and the driver where that is on.
struct Scheme {
    name: &'static str,
    feature: &'static str,
    driver: Ours,
}

static SCHEMES: [Scheme; 5] = [
    Scheme { name: "memory", feature: "memory", driver: MEMORY },
    Scheme { name: "redis", feature: "redis", driver: REDIS },
    Scheme { name: "rediss", feature: "redis", driver: REDIS },
    Scheme { name: "etcd", feature: "etcd", driver: ETCD },
    Scheme { name: "etcds", feature: "etcd", driver: ETCD },
];

#[cfg(feature = "memory")]
const MEMORY: Ours = Some(|scheme| {
    let driver = Driver::new(scheme, leasehold_memory::URL_KEYS, async |url| {
        leasehold_memory::connect(&url)
    });
    Driver { ttl_floor: leasehold_memory::TTL_FLOOR, ..driver }
});
#[cfg(not(feature = "memory"))]
const MEMORY: Ours = None;

#[cfg(feature = "redis")]
const REDIS: Ours = Some(|scheme| {
    let driver = Driver::new(scheme, leasehold_redis::URL_KEYS, async |url| {
        leasehold_redis::connect(&url).await
    });
    Driver { ttl_floor: leasehold_redis::TTL_FLOOR, ..driver }
});
#[cfg(not(feature = "redis"))]
const REDIS: Ours = None;

#[cfg(feature = "etcd")]
const ETCD: Ours = Some(|scheme| {
    let driver = Driver::new(scheme, leasehold_etcd::URL_KEYS, async |url| {
        leasehold_etcd::connect(&url).await
    });
    Driver { ttl_floor: leasehold_etcd::TTL_FLOOR, ..driver }
});
#[cfg(not(feature = "etcd"))]
const ETCD: Ours = None;
