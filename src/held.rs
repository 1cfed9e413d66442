//! One held lease: its state word, its deadline, its loss.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use leasehold_api::{Claim, Grant, Holder, Instant, Lease, Loss, Metadata, Validity, margin};
use tokio_util::sync::CancellationToken;

use crate::terms::Terms;

/// A lease of this client, from its grant until the store was told of its end.
///
/// The word is the deadline in nanoseconds of the driver's clock, or, below [`LOWEST_DEADLINE`],
/// why it is over. Every change is a compare-and-swap from a live word, so that renewal, loss and
/// release are in one order and nothing leads back to live.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) lease: Lease,
    /// What it tells people of itself: its parts are shared, so a held lock has little of it.
    metadata: Metadata,
    word: AtomicU64,
    lost: CancellationToken,
    granted_at: Instant,
    min_hold: Duration,
    /// When `max_hold` makes it lost, and when it is over.
    max: Option<(Instant, Instant)>,
    /// The task that acquired it, to tell of a task that waits for itself.
    task: Option<tokio::task::Id>,
    /// An earlier claim of its owner was never answered, and may still land.
    strays: bool,
    /// What the word was when it was ended.
    ended_before: AtomicU64,
}

/// Why a lease is not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// Its guard let it go.
    Ended,
    /// It was lost before.
    Lost(Loss),
}

const ENDED: u64 = 0;
const LOWEST_DEADLINE: u64 = 16;
/// The words of losses: a loss at index i is the word i + 1.
const LOSSES: [Loss; 6] =
    [Loss::Deadline, Loss::Gone, Loss::TakenOver, Loss::SessionGone, Loss::MaxHold, Loss::Closed];

fn word_of(loss: Loss) -> u64 {
    let at = LOSSES.iter().position(|known| *known == loss);
    // A loss that a later version of the contract adds is reported as a plain one.
    at.map_or_else(|| word_of(Loss::Gone), |at| at as u64 + 1)
}

fn over(word: u64) -> Over {
    let lost = |at: u64| LOSSES.get(usize::try_from(at).ok()?).copied();
    word.checked_sub(1).and_then(lost).map_or(Over::Ended, Over::Lost)
}

fn nanos(at: Instant) -> u64 {
    u64::try_from(at.since_origin().as_nanos()).unwrap_or(u64::MAX)
}

impl Held {
    /// A granted claim. Its deadline may have passed already: the first look tells.
    pub(crate) fn new(
        claim: &Claim,
        terms: &Terms,
        grant: Grant,
        task: Option<tokio::task::Id>,
        unanswered_since: Option<Instant>,
    ) -> Self {
        let mut lease = Lease::new(claim.name.clone(), claim.owner, grant.token, claim.ttl);
        lease.keep_alive = claim.keep_alive;
        let mut metadata = claim.metadata.clone();
        metadata.since = SystemTime::now();
        let granted_at = grant.validity.from;
        let max = terms.max_hold.map(|max_hold| {
            let end = unanswered_since.unwrap_or(granted_at).saturating_add(max_hold);
            (end.saturating_sub(margin(max_hold.min(claim.ttl.get()))), end)
        });
        let held = Self {
            lease,
            metadata,
            word: AtomicU64::new(0),
            lost: CancellationToken::new(),
            granted_at,
            min_hold: terms.min_hold,
            max,
            task,
            strays: unanswered_since.is_some(),
            ended_before: AtomicU64::new(0),
        };
        held.word.store(held.deadline_word(&grant.validity), Ordering::Release);
        held
    }

    fn deadline_word(&self, validity: &Validity) -> u64 {
        let deadline = validity.deadline(self.lease.ttl);
        let deadline = self.max.map_or(deadline, |(lost_at, _)| deadline.min(lost_at));
        nanos(deadline).max(LOWEST_DEADLINE)
    }

    /// The deadline, or why it is over. Past its deadline it is made lost here and now.
    pub(crate) fn live(&self, now: Instant) -> Result<Instant, Over> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word < LOWEST_DEADLINE {
                return Err(over(word));
            }
            if nanos(now) < word {
                return Ok(Instant::from_origin(Duration::from_nanos(word)));
            }
            let at_max = self.max.is_some_and(|(lost_at, _)| word >= nanos(lost_at));
            self.lose_from(word, if at_max { Loss::MaxHold } else { Loss::Deadline });
        }
    }

    /// Makes it lost if it is live.
    pub(crate) fn lose(&self, loss: Loss) {
        let mut word = self.word.load(Ordering::Acquire);
        while word >= LOWEST_DEADLINE && !self.lose_from(word, loss) {
            word = self.word.load(Ordering::Acquire);
        }
    }

    fn lose_from(&self, word: u64, loss: Loss) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let changed = self.word.compare_exchange(word, word_of(loss), success, failure).is_ok();
        if changed {
            self.lost.cancel();
        }
        changed
    }

    /// Moves the deadline to what a renewal answered, if it is live; never backwards.
    pub(crate) fn extend(&self, validity: &Validity, now: Instant) -> Result<(), Over> {
        let later = self.deadline_word(validity);
        loop {
            let word = nanos(self.live(now)?);
            if later <= word {
                return Ok(());
            }
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if self.word.compare_exchange(word, later, success, failure).is_ok() {
                return Ok(());
            }
        }
    }

    /// Ends it if it is live: from here on no check says held. The caller then tells the store.
    pub(crate) fn end(&self, now: Instant) -> Result<(), Over> {
        loop {
            let word = nanos(self.live(now)?);
            self.ended_before.store(word, Ordering::Release);
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if self.word.compare_exchange(word, ENDED, success, failure).is_ok() {
                return Ok(());
            }
        }
    }

    /// The deadline that an ended lease had. Past it the store may have given the name away, even
    /// if it was not told of the end.
    pub(crate) fn ended_before(&self) -> Instant {
        Instant::from_origin(Duration::from_nanos(self.ended_before.load(Ordering::Acquire)))
    }

    /// Fires when it is lost (by a look or by the keeper), not when it is released.
    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// When it should be renewed after it was armed so: at two thirds of its TTL before the end.
    pub(crate) fn renew_at(&self, validity: &Validity) -> Instant {
        let ttl = self.lease.ttl.get();
        let end = validity.from.saturating_add(validity.remaining.min(ttl));
        end.saturating_sub(ttl * 2 / 3)
    }

    /// How long the name stays closed when it is let go now.
    pub(crate) fn reopen_after(&self, now: Instant) -> Option<Duration> {
        let rest = self.closed_until()?.since(now);
        (!rest.is_zero()).then_some(rest)
    }

    /// Until when its `min_hold` keeps the name closed.
    pub(crate) fn closed_until(&self) -> Option<Instant> {
        let until = self.granted_at.saturating_add(self.min_hold);
        (!self.min_hold.is_zero()).then_some(until)
    }

    /// The end of its `max_hold`.
    pub(crate) fn max_end(&self) -> Option<Instant> {
        self.max.map(|(_, end)| end)
    }

    /// Whether something of its owner may land in the store after its end.
    pub(crate) fn strays(&self) -> bool {
        self.strays
    }

    /// This lease, as others are told of it.
    pub(crate) fn holder(&self, remaining: Option<Duration>) -> Holder {
        let Lease { owner, token, .. } = self.lease;
        Holder::new(owner, token, remaining).with_metadata(self.metadata.clone())
    }

    pub(crate) fn task(&self) -> Option<tokio::task::Id> {
        self.task
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, Over};
    use crate::terms::{Terms, Wishes};
    use leasehold_api::{Claim, Grant, Instant, LockName, Loss, Owner, Token, Ttl, Validity};
    use std::time::Duration;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    fn valid(from: u64) -> Validity {
        Validity { remaining: Duration::from_secs(1), from: at(from) }
    }

    /// Granted at 1,000 ms for 1 s: the deadline is at 1,988 ms.
    fn held(change: impl FnOnce(&mut Wishes)) -> Held {
        let mut wishes = Wishes { ttl: Duration::from_secs(1), ..Wishes::default() };
        change(&mut wishes);
        let terms: Terms = wishes.check("test", Duration::ZERO).unwrap();
        let ttl = Ttl::new(Duration::from_secs(1)).unwrap();
        let claim = Claim::new(LockName::new("n").unwrap(), Owner::random(), ttl);
        let grant = Grant { token: Token::new(7).unwrap(), validity: valid(1000) };
        Held::new(&claim, &terms, grant, None, None)
    }

    #[test]
    fn it_is_lost_at_its_deadline_and_never_live_again() {
        let held = held(|_| {});
        assert_eq!(held.live(at(1987)), Ok(at(1988)));
        assert!(!held.lost().is_cancelled());
        assert_eq!(held.live(at(1988)), Err(Over::Lost(Loss::Deadline)));
        assert!(held.lost().is_cancelled());
        let late = held.extend(&valid(1900), at(1989));
        assert_eq!(late, Err(Over::Lost(Loss::Deadline)));
        assert_eq!(held.live(at(1001)), Err(Over::Lost(Loss::Deadline)));
    }

    #[test]
    fn a_renewal_answered_after_the_deadline_finds_nothing_to_extend_without_a_look_before() {
        let held = held(|_| {});
        assert_eq!(held.extend(&valid(1900), at(2000)), Err(Over::Lost(Loss::Deadline)));
    }

    #[test]
    fn a_renewal_moves_the_deadline_only_forward() {
        let held = held(|_| {});
        held.extend(&valid(1300), at(1400)).unwrap();
        assert_eq!(held.live(at(1400)), Ok(at(2288)));
        held.extend(&valid(1200), at(1400)).unwrap();
        assert_eq!(held.live(at(1400)), Ok(at(2288)));
    }

    #[test]
    fn released_and_lost_exclude_each_other() {
        let released = held(|_| {});
        released.end(at(1500)).unwrap();
        released.lose(Loss::TakenOver);
        assert_eq!(released.live(at(1500)), Err(Over::Ended));
        assert!(!released.lost().is_cancelled());
        assert_eq!(released.extend(&valid(1500), at(1500)), Err(Over::Ended));

        let lost = held(|_| {});
        lost.lose(Loss::TakenOver);
        lost.lose(Loss::Gone);
        assert_eq!(lost.end(at(1500)), Err(Over::Lost(Loss::TakenOver)));
    }

    #[test]
    fn max_hold_caps_every_deadline() {
        let held = held(|w| w.max_hold = Some(Duration::from_millis(1500)));
        held.extend(&valid(1900), at(1950)).unwrap();
        // A hundredth of the TTL, which is the shorter one, and 2 ms before 2,500.
        assert_eq!(held.live(at(2487)), Ok(at(2488)));
        assert_eq!(held.live(at(2488)), Err(Over::Lost(Loss::MaxHold)));
        assert_eq!(held.max_end(), Some(at(2500)));
    }

    #[test]
    fn renewal_is_due_a_third_after_arming_and_at_once_for_a_grant_found_late() {
        let held = held(|_| {});
        let third = held.renew_at(&valid(1000)).since(at(1000));
        assert!(third.abs_diff(Duration::from_secs(1) / 3) < Duration::from_micros(1));
        let found = Validity { remaining: Duration::from_millis(500), from: at(1500) };
        assert!(held.renew_at(&found) < at(1500));
    }

    #[test]
    fn min_hold_counts_from_the_grant() {
        let held = held(|w| w.min_hold = Duration::from_millis(400));
        assert_eq!(held.reopen_after(at(1100)), Some(Duration::from_millis(300)));
        assert_eq!(held.reopen_after(at(1400)), None);
    }
}
