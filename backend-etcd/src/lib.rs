#![doc = include_str!("../README.md")]

mod acquire;
mod broken;
mod carrier;
mod claim;
mod driver;
mod error;
mod floor;
mod hand_over;
mod holdings;
mod keepalive;
mod keys;
mod line;
mod link;
mod operator;
mod options;
mod probe;
mod profile;
mod raise;
mod reaper;
mod record;
mod release;
mod renew;
mod said;
mod session;
mod sessions;
mod spare;
mod standing;
mod stream;
mod targets;
#[cfg(feature = "tls")]
mod tls;
mod trace;
mod watch;

use std::sync::Arc;

use leasehold_api::{Backend, Error};

pub use driver::Etcd;
pub use options::{Options, SCHEMES, URL_KEYS};
pub use profile::TTL_FLOOR;

/// Connects to the cluster of a URL:
/// `etcd://[user:password@]host[:port][,host[:port]..][?key=value]`, or `etcds://` for TLS.
/// [`Options::from_url`] says which keys there are.
///
/// # Errors
///
/// [`BadInput`](leasehold_api::ErrorKind::BadInput) for a bad URL, before anything is sent;
/// else as [`Etcd::connect`].
///
/// # Cancel safety
///
/// As [`Etcd::connect`].
pub async fn connect(url: &url::Url) -> Result<Arc<dyn Backend>, Error> {
    let options = Options::from_url(url)?;
    Ok(Arc::new(Etcd::connect(options).await?))
}
