//! Which owners have claims that were sent and never answered.
//!
//! On one connection the server takes requests in order, so a release that is answered there came
//! after every claim that was sent there. A claim that was sent on an earlier connection may still
//! sit in some buffer and land after the release. Only a claim that ends without an answer costs
//! anything here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leasehold_api::Owner;

/// A claim that never landed is forgotten after its TTL twice, and this.
const KEEP: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    claims: Mutex<HashMap<Owner, Claim>>,
    count: AtomicUsize,
}

#[derive(Debug)]
struct Claim {
    /// The oldest connection on which one was sent; `None` if none was.
    generation: Option<u64>,
    until: Instant,
}

impl Unanswered {
    /// Watches a claim from its start until [`Asked::answered`].
    pub(crate) fn asked(&self, owner: Owner, ttl: Duration) -> Asked<'_> {
        Asked { of: self, owner, generation: None, ttl, answered: false }
    }

    /// Whether no claim of this owner can land after a release that was answered on `generation`;
    /// `None` where no claim of this owner went without an answer here.
    pub(crate) fn settled(&self, owner: Owner, generation: u64) -> Option<bool> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut claims = self.claims();
        let settled = claims.get(&owner)?.generation.is_none_or(|sent| sent == generation);
        if settled {
            claims.remove(&owner);
            self.count.store(claims.len(), Ordering::Release);
        }
        Some(settled)
    }

    fn add(&self, owner: Owner, generation: Option<u64>, ttl: Duration) {
        let now = Instant::now();
        let until = now + 2 * ttl + KEEP;
        let mut claims = self.claims();
        if claims.len() == claims.capacity() {
            claims.retain(|_, claim| claim.until > now);
        }
        let claim = claims.entry(owner).or_insert(Claim { generation, until });
        claim.generation = match (claim.generation, generation) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        claim.until = until;
        self.count.store(claims.len(), Ordering::Release);
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<Owner, Claim>> {
        self.claims.lock().expect("nothing panics while it holds this lock")
    }
}

/// A claim under way; dropped without an answer, it is remembered.
#[derive(Debug)]
#[must_use = "dropping it says that the claim was not answered"]
pub(crate) struct Asked<'a> {
    of: &'a Unanswered,
    owner: Owner,
    generation: Option<u64>,
    ttl: Duration,
    answered: bool,
}

impl Asked<'_> {
    /// Notes the connection on which it is about to be sent.
    pub(crate) fn sent(&mut self, generation: u64) {
        self.generation = Some(generation);
    }

    pub(crate) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.of.add(self.owner, self.generation, self.ttl);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Unanswered;
    use leasehold_api::Owner;
    use std::time::Duration;

    const TTL: Duration = Duration::from_secs(1);

    #[test]
    fn an_answered_claim_leaves_nothing() {
        let claims = Unanswered::default();
        let mut asked = claims.asked(Owner::from_bits(1), TTL);
        asked.sent(1);
        asked.answered();
        assert!(claims.claims().is_empty());
        assert_eq!(claims.settled(Owner::from_bits(1), 2), None);
    }

    #[test]
    fn a_release_settles_the_claims_of_its_own_connection_only() {
        let claims = Unanswered::default();
        let [early, late, both, unsent] = [1, 2, 3, 4].map(Owner::from_bits);
        for (owner, generation) in [(early, 1), (late, 2), (both, 1), (both, 2)] {
            claims.asked(owner, TTL).sent(generation);
        }
        drop(claims.asked(both, TTL));
        drop(claims.asked(unsent, TTL));
        assert_eq!(claims.settled(early, 2), Some(false));
        assert_eq!(claims.settled(early, 2), Some(false), "saying it again changes nothing");
        assert_eq!(claims.settled(late, 2), Some(true));
        assert_eq!(claims.settled(both, 2), Some(false));
        assert_eq!(claims.settled(unsent, 2), Some(true));
        assert_eq!(claims.settled(Owner::from_bits(5), 2), None);
        assert_eq!(claims.claims().len(), 2, "what is settled is forgotten");
    }
}
