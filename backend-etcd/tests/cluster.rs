//! The whole conformance suite, over a cluster of three.

mod common;

leasehold_conformance::suite!(common::subject::EtcdSubject::Three);
