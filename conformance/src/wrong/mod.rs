//! Drivers that are wrong on purpose, and the checks that must catch each.
//!
//! A suite that passes a wrong driver proves nothing, so the suite is tested too: each driver here
//! is the memory driver with one mistake that somebody has made, and each named check must fail on
//! it and pass on the memory driver itself.

mod calls;
mod claims;
mod leases;
mod names;
mod sends;
mod tokens;
mod twist;
mod waiters;

use std::fmt;
use std::sync::Arc;

use leasehold_api::Backend;

use crate::memory::MemorySubject;
pub(crate) use twist::{Twist, Twisted};

/// A wrong driver.
#[derive(Clone, Copy)]
pub struct Wrong {
    name: &'static str,
    mistake: &'static str,
    caught_by: &'static [&'static str],
    subject: fn() -> MemorySubject,
}

impl Wrong {
    const fn new(
        name: &'static str,
        mistake: &'static str,
        caught_by: &'static [&'static str],
        subject: fn() -> MemorySubject,
    ) -> Self {
        Self { name, mistake, caught_by, subject }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What is wrong about it.
    #[must_use]
    pub fn mistake(&self) -> &'static str {
        self.mistake
    }

    /// The ids of the checks that must fail on it.
    #[must_use]
    pub fn caught_by(&self) -> &'static [&'static str] {
        self.caught_by
    }

    /// It, as a subject.
    #[must_use]
    pub fn subject(&self) -> MemorySubject {
        (self.subject)()
    }
}

impl fmt::Debug for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wrong({})", self.name)
    }
}

/// All wrong drivers.
#[must_use]
pub fn catalogue() -> Vec<&'static Wrong> {
    let all = [
        claims::WRONG,
        leases::WRONG,
        tokens::WRONG,
        waiters::WRONG,
        names::WRONG,
        calls::WRONG,
        sends::WRONG,
    ];
    all.into_iter().flatten().collect()
}

/// The memory driver with a twist; each client has one of its own.
fn twisted<T: Twist>(twist: impl Fn() -> T + Send + Sync + 'static) -> MemorySubject {
    MemorySubject::wrapped(move |right| {
        Arc::new(Twisted { right, twist: twist() }) as Arc<dyn Backend>
    })
}
