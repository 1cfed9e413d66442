//! What a server really holds, read by other means than the driver that is tested.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "redis")]
mod redis;

#[cfg(feature = "etcd")]
pub use self::etcd::{
    EtcdCalls, EtcdClaim, EtcdError, EtcdKeys, EtcdLease, EtcdPair, EtcdTruth, EtcdUse,
};
#[cfg(feature = "redis")]
pub use self::redis::{Busy, ClientInfo, Commands, Entry, RedisTruth, Value};
