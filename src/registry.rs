//! Which driver serves which scheme, among those compiled in.

use std::sync::Arc;

use leasehold_api::{Backend, Error, ErrorKind, Operation};
use url::Url;

/// A driver that is compiled in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scheme {
    driver: Driver,
    /// The URL keys it takes.
    pub(crate) keys: &'static [&'static str],
}

#[derive(Debug, Clone, Copy)]
enum Driver {
    #[cfg(feature = "memory")]
    Memory,
    #[cfg(feature = "redis")]
    Redis,
}

/// The schemes there are, and the feature of each.
const SCHEMES: [(&str, &str); 3] = [("memory", "memory"), ("redis", "redis"), ("rediss", "redis")];

pub(crate) fn known_schemes() -> String {
    SCHEMES.map(|(scheme, _)| format!("{scheme}:")).join(", ")
}

/// The driver of a scheme.
///
/// # Errors
///
/// `BadInput` for a scheme that nobody knows; `Unsupported` for one whose feature is off.
pub(crate) fn find(scheme: &str) -> Result<Scheme, Error> {
    match scheme {
        #[cfg(feature = "memory")]
        "memory" => Ok(Scheme { driver: Driver::Memory, keys: &[] }),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => Ok(Scheme { driver: Driver::Redis, keys: leasehold_redis::URL_KEYS }),
        _ => Err(match SCHEMES.iter().find(|(known, _)| *known == scheme) {
            Some((_, feature)) => {
                let message = format!(
                    "the scheme `{scheme}` needs the feature `{feature}` of the crate \
                     `leasehold`, which is not compiled in"
                );
                Error::new(ErrorKind::Unsupported, Operation::Configure, message)
            }
            None => {
                let message = format!("unknown scheme `{scheme}`; known are {}", known_schemes());
                Error::bad_input(Operation::Configure, message)
            }
        }),
    }
}

impl Scheme {
    /// Connects; the URL has only the driver's own keys left.
    pub(crate) async fn connect(&self, url: &Url) -> Result<Arc<dyn Backend>, Error> {
        match self.driver {
            #[cfg(feature = "memory")]
            Driver::Memory => {
                let path = format!("{}{}", url.host_str().unwrap_or_default(), url.path());
                Ok(Arc::new(leasehold_memory::Memory::shared(&path)))
            }
            #[cfg(feature = "redis")]
            Driver::Redis => leasehold_redis::connect(url).await,
        }
    }
}
