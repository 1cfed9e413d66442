//! The whole suite over the memory driver, on paused time.

leasehold_conformance::suite!(leasehold_conformance::MemorySubject::new());
