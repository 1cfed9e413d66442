#![doc = include_str!("../README.md")]

mod driver;
mod store;

pub use driver::{Memory, TTL_FLOOR};
