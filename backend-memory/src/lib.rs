#![doc = include_str!("../README.md")]

mod driver;
mod store;

use std::sync::Arc;

use leasehold_api::{Backend, Error, Operation};

pub use driver::{Memory, TTL_FLOOR, URL_KEYS};

/// The store of a URL in this process: `memory:path[?prefix=..]`. Each path and prefix has a store
/// of its own.
///
/// # Errors
///
/// [`BadInput`](leasehold_api::ErrorKind::BadInput) for anything else in the URL.
pub fn connect(url: &url::Url) -> Result<Arc<dyn Backend>, Error> {
    let refuse = |message: String| {
        Err(Error::bad_input(Operation::Configure, message).with_backend("memory"))
    };
    let extra = !url.username().is_empty()
        || url.password().is_some()
        || url.port().is_some()
        || url.fragment().is_some();
    if extra {
        return refuse("a memory URL is `memory:path`, without user, port or fragment".to_owned());
    }
    let mut path = format!("{}{}", url.host_str().unwrap_or_default(), url.path());
    for (key, value) in url.query_pairs() {
        if key != "prefix" {
            return refuse(format!("unknown key `{key}`; known is prefix"));
        }
        // No path of a URL has a bare `?`.
        path = format!("{path}?{value}");
    }
    Ok(Arc::new(Memory::shared(&path)))
}
