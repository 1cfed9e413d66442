//! The contract between `leasehold` and its drivers.
//!
//! Users of locks want the crate `leasehold`. This crate is for those who write a driver for
//! another store, or who want to know exactly what a driver promises. Each clause below is shown
//! by at least one check of `leasehold-conformance`, which names it.
//!
//! Words: a *claim* is what is asked for, a *grant* what is answered, a *lease* what is then held;
//! the *owner* is a random id of one acquisition; the *token* is the fencing token. "The store's
//! clock" is the only clock that lets a lease expire.
//!
//! # 1. Acquire
//!
//! 1. An acquire **must** be one atomic attempt and **must not** wait for a holder.
//! 2. At most one unexpired lease a name **must** exist, by the store's clock alone. No expiry
//!    decision may come from a client's wall clock.
//! 3. It **must** be idempotent by owner: asked again by the owner that holds the name, it answers
//!    the same token, and **must not** re-arm the lease; the validity says what remains.
//! 4. A lease **must** end at its TTL after the grant unless it is renewed, and never before its
//!    validity says.
//! 5. Names **must** be told apart to the last byte: not trimmed, folded, cut or nested.
//! 6. A held name **must** be an answer (`Held`), not an error. `holder` and `free_in` may be
//!    unknown, but what is answered **must** be true.
//! 7. A closed name (5.6) **must** be `Held` without a holder.
//!
//! # 2. Validity
//!
//! 1. `remaining` **must** be a lower bound of what the store will keep.
//! 2. `from` **must** be the start of the attempt that was granted, or of the renewal that was
//!    answered, by the driver's own `clock()`; never its end.
//! 3. Policy alone computes the deadline ([`Validity::deadline`]).
//! 4. The clock **must** count the time that the machine is suspended, where the system has such a
//!    clock.
//!
//! # 3. Tokens
//!
//! 1. A token **must** be strictly greater than every token granted before it for the name, over
//!    release, expiry, eviction, reconnect and a restart of the store.
//! 2. It **must** be strictly greater than `claim.above`.
//! 3. It **must** be kept and answered to the last digit, up to 2^53 - 1.
//! 4. A source **must** start at microseconds since 1970, and be at least the store's own clock in
//!    microseconds where the store has one, so that tokens can be carried to another backend.
//! 5. `raise_tokens` **must** make every later grant strictly greater, and never lower a source.
//! 6. `fencing_token` **must** be at least every token granted for the name before the call; it is
//!    `None` only if the source never granted any.
//! 7. A renewal **must** keep the token.
//! 8. What happens to tokens when the store loses data **must** stand in the profile.
//!
//! # 4. Renew
//!
//! 1. A renewal **must** re-arm to the lease's TTL, counted from now; it never adds.
//! 2. It **must** happen only if owner and token still hold and the lease has not expired, in one
//!    atomic step.
//! 3. It **must not** create or revive a lease, or change another's.
//! 4. `renew_all` **must** answer one result a lease, in their order; one that fails **must not**
//!    fail the others.
//! 5. A loss that the driver sees by itself **must** be told to each client that listens
//!    ([`Losses`]), of all locks and from when it began to listen; several clients may use one
//!    driver. What is told **must** be true.
//!
//! # 5. Release
//!
//! 1. A release **must** compare and free in one atomic step. With a token, owner and token must
//!    match; without, it frees any lease and any queue place of that owner.
//! 2. It **must** be safe to repeat, and safe at any time; another's lease stays untouched.
//! 3. If the name is free after the call, the first in the queue **must** be woken, even when the
//!    caller never held it.
//! 4. `settled` **must** be false while an earlier request of this owner, sent by this client, can
//!    still land.
//! 5. It **must** work without any state that the driver keeps by owner.
//! 6. With `reopen_after` the record **must** become a closed one with my owner and that expiry:
//!    acquire says `Held` without a holder, renew says `NotMine`, a repeat says released and
//!    changes nothing. Closing wakes the first in the queue, who so learns when the name opens.
//!
//! # 6. Waiting
//!
//! 1. With `claim.queue` an acquire **must**, before it looks, subscribe and open a *slot* for
//!    this owner that latches a wake-up.
//! 2. If held, the claim **must** enter the store's wait list, or re-arm its place there and keep
//!    its position (that of its first entry).
//! 3. A failed subscription is no error: the slot is then woken by time only.
//! 4. A release **must** wake one waiter, not all; one that gives up after it was woken **must**
//!    pass the wake-up on (its release by owner does).
//! 5. `wake` **must** end once the slot was woken, also if that was before it was called.
//! 6. A grant, or a release by owner, **must** close the slot, and nothing of a waiter may stay
//!    behind.
//! 7. A waiter **must** be right with every message lost: messages only make waiting faster.
//!
//! # 7. Hand-over
//!
//! 1. `hand_over` **must** release my lease and grant the claim with no time between in which two
//!    hold; the token **must** rise.
//! 2. If my lease is not mine any more it **must** change nothing and say so.
//! 3. With `yield_to_others` and others queued it **must** release, queue the claim behind them,
//!    and wake one of them. Where the queue is first come, first served ([`Order::Fifo`]) it does so
//!    unasked.
//! 4. A claim that was granted by a hand-over whose answer was lost **must** be found by `acquire`
//!    with the same owner (1.3).
//!
//! # 8. Cancellation and bounds
//!
//! 1. Every method may be dropped at any await. What was sent may still land; nothing else may
//!    break: no lock poisoned, no connection left in the middle of an answer, no slot leaked that
//!    a release by owner does not close.
//! 2. Policy drops an acquire or a release after a third of the TTL (10 s at most). A renewal is
//!    repeated after a sixth, and dropped after the whole. A driver bounds a call itself only where
//!    dropping it is not enough.
//! 3. A request that may have taken effect **must** be [`ErrorKind::Indeterminate`]; one that
//!    surely did not **must not**.
//!
//! # 9. Errors, secrets, input
//!
//! 1. Each driver **must** map its client's errors by one table to [`ErrorKind`]; what it does not
//!    know is `Unclassified`, never "try again".
//! 2. Secrets **must not** appear in `Debug`, `Display`, logs or errors.
//! 3. Bad input **must** be refused before anything is sent, and the message says what is allowed.
//!
//! # 10. For callers
//!
//! 1. An owner is used for one acquisition. Retry with the same owner; with a fresh one only
//!    once the old one is released by owner.
//! 2. After an error of an acquire, or a dropped one, call `release` by owner. Until it is settled
//!    the claim may still land; it then lives one TTL from landing at most.
//! 3. After an unanswered hand-over, release the old lease by ticket and let the claim `acquire`.
//! 4. Pass the token to the store that is written to, and let it refuse a lower one. No lock with
//!    a timeout stops a paused holder from waking up late.

mod backend;
mod claim;
mod clock;
mod error;
mod lease;
mod losses;
mod name;
mod profile;

pub use async_trait::async_trait;
pub use backend::Backend;
pub use claim::{Acquired, Claim, HandedOver, Names, Released, Renewal};
pub use clock::{BootClock, Clock, Instant, TokioClock};
pub use error::{Error, ErrorKind, Operation};
pub use lease::{
    Grant, Holder, Label, Lease, Loss, Metadata, Owner, Ticket, Token, Ttl, Validity, margin,
};
pub use losses::{LossTeller, Losses};
pub use name::LockName;
pub use profile::{Guarantee, Order, Profile, Scope, Waking};
