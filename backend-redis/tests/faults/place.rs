//! Servers that must be child processes.

use leasehold_conformance::Failure;
use leasehold_conformance::servers::{Error, Redis, Server, Way};

/// A server as a child process. Where another way is the only one that is allowed, there need not
/// be the binary.
pub(crate) async fn as_process(redis: &Redis) -> Result<Server, Failure> {
    let another = std::env::var("LEASEHOLD_SERVERS").is_ok_and(|way| way != "process");
    redis.start_by(Way::Process).await.map_err(|error| match error {
        Error::Missing(missing) if another => {
            Failure::not_applicable(format!("it takes a server that is a child process: {missing}"))
        }
        error => error.into(),
    })
}
