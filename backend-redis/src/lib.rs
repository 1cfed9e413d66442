#![doc = include_str!("../README.md")]

mod answer;
mod driver;
mod error;
mod keys;
mod link;
mod opening;
mod operator;
mod options;
mod probe;
mod profile;
mod pulse;
mod record;
mod renew;
mod scripts;
#[cfg(feature = "tls")]
mod tls;
mod trace;
mod unanswered;
mod wake;
mod wire;

use std::sync::Arc;

use leasehold_api::{Backend, Error};

pub use driver::Redis;
pub use options::{Options, SCHEMES, URL_KEYS};
pub use profile::TTL_FLOOR;

/// Connects to the server of a URL: `redis://[[user]:password@]host[:port][/database][?key=value]`,
/// or `rediss://` for TLS. [`Options::from_url`] says which keys there are.
///
/// # Errors
///
/// [`BadInput`](leasehold_api::ErrorKind::BadInput) for a bad URL, before anything is sent;
/// else as [`Redis::connect`].
///
/// # Cancel safety
///
/// Dropping it closes what it opened.
pub async fn connect(url: &url::Url) -> Result<Arc<dyn Backend>, Error> {
    let options = Options::from_url(url)?;
    Ok(Arc::new(Redis::connect(options).await?))
}
