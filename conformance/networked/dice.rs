//! Chance that can be had again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use leasehold_conformance::{End, Failure, Verdict};

const VARIABLE: &str = "LEASEHOLD_SEED";

/// The seed that `LEASEHOLD_SEED` asks for, if it does.
pub(crate) fn asked() -> Option<u64> {
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{VARIABLE} is {text:?}, not a number")))
}

/// Another seed each time.
pub(crate) fn fresh() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A failure that tells which seed brings it back.
pub(crate) fn of_seed(seed: u64, verdict: Verdict) -> Verdict {
    verdict.map_err(|failure| match failure.end() {
        End::Failed => Failure::failed(format!("{VARIABLE}={seed}: {}", failure.why())),
        _ => failure,
    })
}

/// Splitmix64 (<https://prng.di.unimi.it/splitmix64.c>).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to one below.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let range = u64::try_from((most - least).as_micros()).unwrap_or(u64::MAX).max(1);
        least + Duration::from_micros(self.below(range))
    }
}
