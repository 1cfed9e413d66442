//! The whole conformance suite, over a real server and a proxy that goes wrong.

mod common;

leasehold_conformance::suite!(common::subject::EtcdSubject::One);
