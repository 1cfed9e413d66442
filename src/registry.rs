//! Which driver serves which scheme, among those compiled in.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_api::{Backend, Error, ErrorKind, Operation};
use url::Url;

/// A driver that is compiled in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driver {
    /// The URL keys it takes.
    pub(crate) keys: &'static [&'static str],
    /// The shortest TTL that it keeps.
    pub(crate) ttl_floor: Duration,
    /// Connects; the URL has only the driver's own keys left.
    pub(crate) connect: fn(&Url) -> Connecting<'_>,
}

type Connecting<'a> = BoxFuture<'a, Result<Arc<dyn Backend>, Error>>;

/// A scheme, the feature that brings its driver, and the driver where that is on.
struct Scheme {
    name: &'static str,
    feature: &'static str,
    driver: Option<Driver>,
}

const SCHEMES: [Scheme; 5] = [
    Scheme { name: "memory", feature: "memory", driver: MEMORY },
    Scheme { name: "redis", feature: "redis", driver: REDIS },
    Scheme { name: "rediss", feature: "redis", driver: REDIS },
    Scheme { name: "etcd", feature: "etcd", driver: ETCD },
    Scheme { name: "etcds", feature: "etcd", driver: ETCD },
];

#[cfg(feature = "memory")]
const MEMORY: Option<Driver> = Some(Driver {
    keys: &[],
    ttl_floor: leasehold_memory::TTL_FLOOR,
    connect: |url| {
        let extra = !url.username().is_empty()
            || url.password().is_some()
            || url.port().is_some()
            || url.fragment().is_some();
        if extra {
            let message = "a memory URL is `memory:path`, without user, port or fragment";
            let error = Error::bad_input(Operation::Configure, message);
            return Box::pin(async { Err(error) });
        }
        let path = format!("{}{}", url.host_str().unwrap_or_default(), url.path());
        let driver = Arc::new(leasehold_memory::Memory::shared(&path));
        Box::pin(async { Ok(driver as Arc<dyn Backend>) })
    },
});
#[cfg(not(feature = "memory"))]
const MEMORY: Option<Driver> = None;

#[cfg(feature = "redis")]
const REDIS: Option<Driver> = Some(Driver {
    keys: leasehold_redis::URL_KEYS,
    ttl_floor: leasehold_redis::TTL_FLOOR,
    connect: |url| Box::pin(leasehold_redis::connect(url)),
});
#[cfg(not(feature = "redis"))]
const REDIS: Option<Driver> = None;

#[cfg(feature = "etcd")]
const ETCD: Option<Driver> = Some(Driver {
    keys: leasehold_etcd::URL_KEYS,
    ttl_floor: leasehold_etcd::TTL_FLOOR,
    connect: |url| Box::pin(leasehold_etcd::connect(url)),
});
#[cfg(not(feature = "etcd"))]
const ETCD: Option<Driver> = None;

/// The schemes there are, for people to read.
pub(crate) fn known_schemes() -> String {
    SCHEMES.map(|scheme| format!("{}:", scheme.name)).join(", ")
}

/// The driver of a scheme.
///
/// # Errors
///
/// `BadInput` for a scheme that nobody knows; `Unsupported` for one whose feature is off.
pub(crate) fn find(name: &str) -> Result<Driver, Error> {
    let Some(scheme) = SCHEMES.into_iter().find(|scheme| scheme.name == name) else {
        let message = format!("unknown scheme `{name}`; known are {}", known_schemes());
        return Err(Error::bad_input(Operation::Configure, message));
    };
    scheme.driver.ok_or_else(|| {
        let message = format!(
            "the scheme `{name}` needs the feature `{}` of the crate `leasehold`, which is not \
             compiled in",
            scheme.feature
        );
        Error::new(ErrorKind::Unsupported, Operation::Configure, message)
    })
}
