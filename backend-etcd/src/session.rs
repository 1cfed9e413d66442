//! A lease shared by the kept-alive claims of a process.
//!
//! ```text
//!   open: granted, epoch put ----> [ alive ] -- keepalive answered: counts from its start
//!                                     |
//!            deadline passed, or the server says it is gone, or its epoch's key is
//!                                     v
//!                                 [ ended ] ----> its claims are lost; it is revoked
//! ```
//!
//! Nothing leads back to *alive*: once its guards may have been told that they are lost, no
//! keepalive may give them their keys back.
//!
//! The *epoch* is the revision of a key on the lease itself. Each claim compares it. Rewriting that
//! key so makes every claim fail that was sent before and has not landed: that is how a clean-up
//! becomes certain though the lease lives on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use leasehold_api::{BootClock, Clock, Instant, Owner, margin};

use crate::error::Failure;
use crate::keepalive::keep_alive;
use crate::link::Link;

/// A shared lease.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) epoch_key: String,
    state: Mutex<State>,
    /// One keepalive at a time, unless it is silent.
    keeping: tokio::sync::Mutex<()>,
    ended: AtomicBool,
    /// No claim can land on it: its epoch's key is gone, and perhaps it is itself.
    sealed: AtomicBool,
    asked_to_go: AtomicBool,
    /// The server has said that it is gone.
    revoked: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// What the server granted.
    ttl: Duration,
    /// When the last request was sent.
    asked: Instant,
    /// When the last request was sent that the server answered.
    answered: Instant,
    epoch: i64,
    bumped: Instant,
    /// Claims that were sent and not answered, and over which epoch; the latest counts.
    unanswered: HashMap<Owner, i64>,
}

/// Whether an unanswered claim can still land, and what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// None of this owner can.
    Never,
    /// One may, unless the epoch is rewritten now; this is the one to compare.
    Bump(i64),
    /// One may, and the epoch was rewritten a moment ago; when it may be again.
    Soon(Instant),
    /// One may, on a lease that has ended for us and perhaps not for the server.
    Perhaps,
}

/// How often the epoch is rewritten at most: each time, claims that are on their way fail and are
/// sent again. One rewriting is for all claims before it.
const BUMPED_EVERY: Duration = Duration::from_millis(50);

impl Session {
    pub(crate) fn new(
        id: i64,
        epoch_key: String,
        ttl: Duration,
        answered: Instant,
        epoch: i64,
    ) -> Self {
        let bumped = Instant::from_origin(Duration::ZERO);
        let (asked, unanswered) = (answered, HashMap::new());
        let state = State { ttl, asked, answered, epoch, bumped, unanswered };
        let keeping = tokio::sync::Mutex::default();
        let [ended, sealed, asked_to_go, revoked] = [false; 4].map(AtomicBool::new);
        let state = Mutex::new(state);
        Self { id, epoch_key, state, keeping, ended, sealed, asked_to_go, revoked }
    }

    /// Whether its deadline has not passed, and nobody has seen it gone.
    pub(crate) fn is_alive(&self) -> bool {
        let passed = {
            let state = self.state();
            BootClock.now() >= state.deadline()
        };
        if passed {
            self.ended.store(true, Ordering::SeqCst);
        }
        !self.ended.load(Ordering::SeqCst)
    }

    /// The server has it no more, or at least not its epoch.
    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.sealed.store(true, Ordering::SeqCst);
    }

    /// Whether nothing is on it any more: it was revoked, or has expired long ago.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone_in(&self.state())
    }

    fn is_gone_in(&self, state: &State) -> bool {
        let expired = BootClock.now().since(state.answered) > state.ttl * 3;
        expired || self.revoked.load(Ordering::SeqCst)
    }

    /// Whether it is to be revoked now; said once. Not before its TTL is over: that is what its
    /// grants' validities say.
    pub(crate) fn is_to_be_revoked(&self) -> bool {
        let is_over = {
            let state = self.state();
            BootClock.now() >= state.answered.saturating_add(state.ttl)
        };
        is_over && !self.asked_to_go.swap(true, Ordering::SeqCst)
    }

    /// If that fails it ends by itself.
    pub(crate) async fn revoke(&self, link: &Link) {
        if revoke(link, self.id).await.is_ok() {
            self.revoked.store(true, Ordering::SeqCst);
        }
    }

    /// What the server keeps of it at least, counted from `from`.
    pub(crate) fn remaining(&self, from: Instant) -> Duration {
        let state = self.state();
        state.ttl.saturating_sub(from.since(state.answered))
    }

    pub(crate) fn epoch(&self) -> i64 {
        self.state().epoch
    }

    /// Keeps it alive; answers from when its time counts, and how long it is.
    ///
    /// `always` asks even where another did so since this call began to wait for its turn.
    pub(crate) async fn keep_alive(
        &self,
        link: &Link,
        always: bool,
    ) -> Result<(Instant, Duration), Failure> {
        let came = BootClock.now();
        let _one_at_a_time = self.turn().await;
        {
            let state = self.state();
            let by_another = state.answered >= came || (!always && self.is_fresh_in(&state));
            if by_another && !self.ended.load(Ordering::SeqCst) {
                return Ok((state.answered, state.ttl));
            }
        }
        if !self.is_alive() {
            return Err(no_lease());
        }
        let begun = BootClock.now();
        let (id, ttl) = (self.id, {
            let mut state = self.state();
            state.asked = begun;
            state.ttl
        });
        match keep_alive(link, id, ttl).await {
            // An answer after the deadline comes too late: the guards are lost by then.
            Ok(_) if !self.is_alive() => Err(no_lease()),
            Ok(_) => {
                let mut state = self.state();
                state.answered = state.answered.max(begun);
                Ok((state.answered, state.ttl))
            }
            Err(failure) => {
                if failure.is_no_lease() {
                    self.end();
                }
                Err(failure)
            }
        }
    }

    /// The turn of the next keepalive: when no other is under way, or that one has had no answer
    /// for so long that requests go to another member. It may be silent for longer than the lease
    /// lasts.
    async fn turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        loop {
            let silent_from = self.state().silent_from();
            tokio::select! {
                biased;
                turn = self.keeping.lock() => return Some(turn),
                () = BootClock.sleep_until(silent_from) => {}
            }
            // One of those who wait goes; the others wait for it.
            let mut state = self.state();
            let now = BootClock.now();
            if now >= state.silent_from() {
                state.asked = now;
                return None;
            }
        }
    }

    /// Notes that a claim of this owner goes out over this epoch; says whether it is the only one
    /// that has no answer.
    pub(crate) fn asked(&self, owner: Owner, epoch: i64) -> bool {
        let mut state = self.state();
        let before = state.unanswered.insert(owner, epoch);
        before.is_none()
    }

    /// Notes that no claim of this owner is without an answer, or can land.
    pub(crate) fn answered(&self, owner: Owner) {
        self.state().unanswered.remove(&owner);
    }

    /// Whether a claim of this owner can still land.
    pub(crate) fn late(&self, owner: Owner) -> Late {
        let state = self.state();
        let now = BootClock.now();
        match state.unanswered.get(&owner) {
            None => Late::Never,
            Some(epoch) if *epoch < state.epoch => Late::Never,
            Some(_) if self.sealed.load(Ordering::SeqCst) => Late::Never,
            Some(_) if self.is_gone_in(&state) => Late::Never,
            Some(_) if self.ended.load(Ordering::SeqCst) => Late::Perhaps,
            Some(_) if now.since(state.bumped) >= BUMPED_EVERY => Late::Bump(state.epoch),
            Some(_) => Late::Soon(state.bumped.saturating_add(BUMPED_EVERY)),
        }
    }

    /// Notes that the epoch was rewritten.
    pub(crate) fn bumped(&self, epoch: i64) {
        let mut state = self.state();
        state.epoch = state.epoch.max(epoch);
        state.bumped = BootClock.now();
        let current = state.epoch;
        state.unanswered.retain(|_, epoch| *epoch >= current);
    }

    /// What another transaction saw of the epoch's key; without one the lease is gone.
    pub(crate) fn saw(&self, epoch: Option<i64>) {
        match epoch {
            Some(epoch) => {
                let mut state = self.state();
                state.epoch = state.epoch.max(epoch);
            }
            None => self.end(),
        }
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh_in(&self.state())
    }

    fn is_fresh_in(&self, state: &State) -> bool {
        BootClock.now().since(state.answered) < state.ttl / 3
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

/// Ends a lease; one that is gone is fine.
pub(crate) async fn revoke(link: &Link, lease: i64) -> Result<(), Failure> {
    let answer = link
        .call(Duration::from_secs(1), |client| {
            let mut leases = client.lease_client();
            async move { leases.revoke(lease).await }
        })
        .await;
    match answer {
        Err(failure) if !failure.is_no_lease() => Err(failure),
        _ => Ok(()),
    }
}

impl State {
    /// When a keepalive without an answer counts as silent: a little after its connection does.
    fn silent_from(&self) -> Instant {
        self.asked.saturating_add(self.ttl / 5)
    }

    fn deadline(&self) -> Instant {
        self.answered.saturating_add(self.ttl.saturating_sub(margin(self.ttl)))
    }
}

/// What the server would say of a lease that is gone.
pub(crate) fn no_lease() -> Failure {
    etcd_client::Error::LeaseKeepAliveError("the lease has ended".to_owned()).into()
}

#[cfg(test)]
mod tests {
    use super::{Late, Session};
    use leasehold_api::{BootClock, Clock, Owner};
    use std::time::Duration;

    fn session(ttl: Duration) -> Session {
        Session::new(7, "p:session/7".into(), ttl, BootClock.now(), 10)
    }

    #[test]
    fn a_session_whose_deadline_passed_is_never_alive_again() {
        let passed = session(Duration::ZERO);
        assert!(!passed.is_alive());
        passed.state().ttl = Duration::from_secs(60);
        assert!(!passed.is_alive(), "an answer that came later revived it");
        let gone = session(Duration::from_secs(60));
        assert!(gone.is_alive());
        gone.saw(None);
        assert!(!gone.is_alive());
    }

    #[test]
    fn one_bump_is_for_all_claims_before_it_and_the_next_waits_its_turn() {
        let session = session(Duration::from_secs(60));
        let [early, late, answered, never] = [1, 2, 3, 4].map(Owner::from_bits);
        session.asked(early, 10);
        session.asked(answered, 10);
        session.answered(answered);
        assert_eq!(session.late(answered), Late::Never);
        assert_eq!(session.late(never), Late::Never);
        assert_eq!(session.late(early), Late::Bump(10));
        session.bumped(20);
        assert_eq!(session.late(early), Late::Never);
        session.asked(late, 20);
        let soon = |late| matches!(late, Late::Soon(at) if at > BootClock.now());
        assert!(soon(session.late(late)), "it was bumped a moment ago");
        session.asked(early, 20);
        assert!(soon(session.late(early)), "asked again, it may land again");
    }

    #[test]
    fn what_remains_counts_from_the_last_answer() {
        let session = session(Duration::from_secs(9));
        let from = BootClock.now().saturating_add(Duration::from_secs(4));
        let remaining = session.remaining(from);
        assert!(remaining <= Duration::from_secs(5), "{remaining:?}");
        assert!(remaining > Duration::from_secs(4), "{remaining:?}");
    }
}
