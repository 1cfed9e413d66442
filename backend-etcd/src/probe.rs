//! What is asked of a cluster before it is used.

use std::time::Duration;

use leasehold_api::{Error, ErrorKind, Operation};

use crate::driver::NAME;
use crate::error::Failure;
use crate::link::Link;
use crate::profile::TTL_FLOOR;
use crate::session;

/// What a cluster said.
#[derive(Debug)]
pub(crate) struct Probed {
    pub(crate) ttl_floor: Duration,
    pub(crate) warnings: Vec<String>,
}

/// Why it can't be used.
#[derive(Debug)]
pub(crate) enum Unfit {
    Refused(Error),
    Failed(Failure),
}

impl From<Failure> for Unfit {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Asks for version and alarms, and how short a lease the cluster grants.
pub(crate) async fn probe(link: &Link) -> Result<Probed, Unfit> {
    let patience = Duration::from_secs(1);
    let status = link
        .call(patience, |client| {
            let mut maintenance = client.maintenance_client();
            async move { maintenance.status().await }
        })
        .await?;
    fits(status.version()).map_err(Unfit::Refused)?;
    if status.is_learner() {
        let message = "the member is a learner";
        return Err(Unfit::Refused(refused(ErrorKind::NotPrimary, message.to_owned())));
    }
    let granted = link
        .call(patience, |client| {
            let mut leases = client.lease_client();
            async move { leases.grant(1, None).await }
        })
        .await;
    let ttl_floor = match granted {
        Ok(granted) => {
            session::revoke(link, granted.id()).await?;
            Duration::from_secs(granted.ttl().unsigned_abs().max(1))
        }
        // A cluster without space grants none; but it renews, releases and tells.
        Err(failure) if failure.is_no_space() => TTL_FLOOR,
        Err(failure) => return Err(failure.into()),
    };
    let warnings = status.errors().iter().map(|alarm| format!("the cluster says: {alarm}"));
    Ok(Probed { ttl_floor, warnings: warnings.collect() })
}

fn fits(version: &str) -> Result<(), Error> {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (3, 4) => Ok(()),
        _ => Err(refused(
            ErrorKind::Unsupported,
            format!("the member has etcd {version}; supported are 3.4 and newer"),
        )),
    }
}

fn refused(kind: ErrorKind, message: String) -> Error {
    Error::new(kind, Operation::Connect, message).with_backend(NAME)
}

#[cfg(test)]
mod tests {
    use super::fits;
    use leasehold_api::ErrorKind;

    #[test]
    fn old_versions_are_refused_by_name() {
        for version in ["3.4.0", "3.4.23", "3.5.16", "3.10.0", "4.0.0"] {
            assert!(fits(version).is_ok(), "{version}");
        }
        for version in ["3.3.27", "2.3.8", "", "new"] {
            let error = fits(version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("3.4 and newer"), "{error}");
        }
    }
}
