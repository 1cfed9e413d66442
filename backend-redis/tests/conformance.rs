//! The whole conformance suite, over a real server and a proxy that goes wrong.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

mod common;

leasehold_conformance::suite!(common::subject::RedisSubject);
