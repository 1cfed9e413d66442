#![doc = include_str!("../README.md")]

mod acquire;
mod cleanup;
mod client;
mod config;
mod connect;
mod failure;
mod guard;
mod held;
mod hosts;
mod keeper;
mod lock;
mod locks;
mod queue;
mod registry;
mod release;
mod terms;
mod text;
mod trace;

pub use config::Config;
pub use connect::connect;
pub use guard::Guard;
pub use hosts::encode_hosts;
pub use lock::Lock;
pub use locks::Locks;
pub use registry::{Driver, Registry};

pub use leasehold_api::{
    Backend, Error, ErrorKind, Guarantee, Holder, LockName, Loss, Metadata, Names, Operation,
    Owner, Profile, Scope, Token,
};
