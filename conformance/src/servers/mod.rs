//! Real servers for tests: one API over containers, child processes and servers that already run.
//!
//! # Which of the three ways
//!
//! 1. [`Way::Container`], where a Docker engine answers and an image is there or can be pulled
//!    (feature `containers`);
//! 2. [`Way::Process`], where the server's binary is in `PATH`: a child process on loopback, with
//!    its data in a temporary directory;
//! 3. [`Way::Url`], where the environment names a running server (`LEASEHOLD_REDIS_URL`,
//!    `LEASEHOLD_ETCD_URL`). Such a server belongs to somebody: it cannot be stopped or emptied here.
//!
//! `LEASEHOLD_SERVERS=container|process|url` allows one way only. A server that cannot be had is the
//! error [`Missing`]: passed on by `?` from a check or a test of [`tests!`](crate::tests) it shows
//! as ignored, by name, and as a failure where `LEASEHOLD_REQUIRE` asks for the server.
//!
//! # What is promised
//!
//! A server listens on loopback, on ports that stay the same over all its restarts and that no
//! other test process on this machine picks meanwhile. It is gone when its [`Server`] is dropped,
//! also by a panic, and with it its data. A child process and its data are gone also when the test
//! process is killed: a supervising shell waits for the end of a pipe. A container is removed in
//! the same way as long as the `docker` command is in `PATH`; what remains (a process killed between
//! asking for a container and its creation) carries the label [`LABEL`], and `scripts/test` sweeps
//! what its own run left.
//!
//! # Examples
//!
//! ```no_run
//! use leasehold_conformance::Verdict;
//! use leasehold_conformance::servers::Redis;
//!
//! async fn data_survive_a_kill() -> Verdict {
//!     let redis = Redis::new().append_only().controlled().start().await?;
//!     println!("{} is at {}", redis.kind(), redis.url());
//!     redis.kill().await?;
//!     redis.start().await?;
//!     Ok(())
//! }
//! leasehold_conformance::tests! { data_survive_a_kill }
//! ```
//!
//! A cluster of etcd, of which one member is cut off from the others:
//!
//! ```no_run
//! # #[cfg(feature = "etcd")] async fn example() -> leasehold_conformance::Verdict {
//! use leasehold_conformance::servers::Etcd;
//!
//! let cluster = Etcd::new().separable().controlled().cluster(3).await?;
//! println!("all of it is at {}", cluster.url());
//! let leader = cluster.leader().await?;
//! cluster.isolate(leader)?;
//! cluster.member((leader + 1) % 3).pause().await?;
//! # Ok(()) }
//! ```

mod clock;
#[cfg(feature = "containers")]
mod container;
#[cfg(feature = "containers")]
mod engine;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod host;
mod launch;
mod leash;
mod missing;
mod process;
mod recipe;
mod redis;
mod server;
mod tls;
mod way;

pub use self::clock::WallClock;
pub use self::error::Error;
#[cfg(feature = "etcd")]
pub use self::etcd::{Etcd, EtcdCluster, Snapshot};
pub use self::missing::{Kind, Missing};
pub use self::redis::Redis;
pub use self::server::Server;
pub use self::tls::Tls;
pub use self::way::Way;

/// The label that every container of this harness carries. Its value is `LEASEHOLD_RUN`, or the
/// process id where that is not set, so that a run can sweep what it left and nothing else.
pub const LABEL: &str = "leasehold-conformance";
