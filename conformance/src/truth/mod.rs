//! What a server really holds, read by other means than the driver that is tested.

mod redis;

pub use self::redis::{Busy, ClientInfo, Commands, Entry, RedisTruth, Value};
