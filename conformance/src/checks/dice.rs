//! What chance decides, the same in each run.

use std::time::Duration;

/// Numbers that look random, from a seed (splitmix64, by Sebastiano Vigna).
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`, which is not 0.
    pub(super) fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// An index below `length`, which is not 0.
    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("it is below a length")
    }

    /// A time shorter than this.
    pub(super) fn part_of(&mut self, time: Duration) -> Duration {
        let nanos = u64::try_from(time.as_nanos()).expect("times of a check are short");
        Duration::from_nanos(self.below(nanos.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn every_side_comes_up_and_no_other() {
        let mut dice = Dice::seeded(1);
        let mut sides = [0; 6];
        for _ in 0..6_000 {
            sides[dice.index(6)] += 1;
        }
        assert!(sides.iter().all(|count| (800..1_200).contains(count)), "{sides:?}");
    }
}
