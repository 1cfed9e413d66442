//! What the test targets share.

#![allow(dead_code, reason = "each target uses a part of it")]

pub(crate) mod subject;

use std::net::SocketAddr;
use std::sync::Arc;

use leasehold_api::{Backend, Error};
use leasehold_etcd::{Etcd, Options};

/// A client of members, with keys under a prefix.
pub(crate) async fn connect(
    members: &[SocketAddr],
    prefix: &str,
) -> Result<Arc<dyn Backend>, Error> {
    let options = Options::new(members.iter().map(ToString::to_string)).with_prefix(prefix);
    Ok(Arc::new(Etcd::connect(options).await?))
}
