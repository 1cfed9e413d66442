//! What the test targets share.

#![allow(dead_code, reason = "each target uses a part of it")]

pub(crate) mod subject;

use std::sync::Arc;

use leasehold_api::{
    Acquired, Backend, Claim, Error, ErrorKind, Grant, Lease, LockName, Owner, Ttl,
};
use leasehold_conformance::Failure;
use url::Url;

/// A client of a server, with query keys (`prefix=a&..`).
pub(crate) async fn connect(url: &str, query: &str) -> Result<Arc<dyn Backend>, Error> {
    let mut url = Url::parse(url).unwrap();
    url.set_query(Some(query));
    leasehold_redis::connect(&url).await
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(crate) fn ttl(millis: u64) -> Ttl {
    Ttl::new(std::time::Duration::from_millis(millis)).unwrap()
}

/// A claim of a fresh owner, for 30 s.
pub(crate) fn claim(name: &str) -> Claim {
    Claim::new(self::name(name), Owner::random(), ttl(30_000))
}

/// The lease of a claim that must be granted.
pub(crate) async fn take(client: &dyn Backend, claim: &Claim) -> Result<Lease, Failure> {
    match client.acquire(claim).await? {
        Acquired::Granted(grant) => Ok(lease(claim, grant)),
        held => Err(Failure::failed(format!("{} must be free, but: {held:?}", claim.name))),
    }
}

pub(crate) fn lease(claim: &Claim, grant: Grant) -> Lease {
    Lease::new(claim.name.clone(), claim.owner, grant.token, claim.ttl)
}

/// The error of what must fail with this kind, and the server's code.
#[track_caller]
pub(crate) fn fails<T: std::fmt::Debug>(
    answer: Result<T, Error>,
    kind: ErrorKind,
    code: Option<&str>,
) -> Error {
    let error = answer.expect_err("it must fail");
    assert_eq!((error.kind(), error.code()), (kind, code), "{error}: {error:?}");
    error
}
