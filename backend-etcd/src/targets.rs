//! The watches of a stream: which number is over what.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use leasehold_api::{LockName, Owner};

/// The number of the watch that a stream begins with; it is over nothing.
pub(crate) const FIRST: i64 = 1;

/// The numbers of a client's watches. None is given twice, also not to another stream: a
/// cancellation may come late, and must not end another's watch.
#[derive(Debug)]
pub(crate) struct Numbers(AtomicI64);

/// What a watch is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Line(LockName),
    Key(Owner),
}

/// The watches of one stream.
#[derive(Debug, Default)]
pub(crate) struct Targets(HashMap<i64, Target>);

impl Default for Numbers {
    fn default() -> Self {
        Self(AtomicI64::new(FIRST + 1))
    }
}

impl Targets {
    /// A number for a watch that is about to be asked for.
    pub(crate) fn add(&mut self, numbers: &Numbers, target: Target) -> i64 {
        let id = numbers.0.fetch_add(1, Ordering::Relaxed);
        self.0.insert(id, target);
        id
    }

    pub(crate) fn get(&self, id: i64) -> Option<&Target> {
        self.0.get(&id)
    }

    /// Takes a watch out; says whether it was one of this stream's.
    pub(crate) fn remove(&mut self, id: i64) -> bool {
        self.0.remove(&id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST, Numbers, Target, Targets};
    use leasehold_api::{LockName, Owner};

    #[test]
    fn a_late_cancellation_ends_no_watch_of_the_next_stream() {
        let (numbers, name) = (Numbers::default(), LockName::new("a").unwrap());
        let (mut ended, mut next) = (Targets::default(), Targets::default());
        let [key, line] = [Target::Key(Owner::from_bits(1)), Target::Line(name)]
            .map(|to| ended.add(&numbers, to));
        let other = next.add(&numbers, Target::Key(Owner::from_bits(2)));
        assert!(key != FIRST && line != FIRST && other != FIRST);
        assert!(!next.remove(key) && !next.remove(line), "it is no number of this stream's");
        assert_eq!(next.get(other), Some(&Target::Key(Owner::from_bits(2))));
        assert!(next.remove(other) && next.get(other).is_none());
    }
}
