//! What is held: token, owner, lease, ticket, holder, and the deadline.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::clock::Instant;
use crate::error::{Error, Operation};
use crate::name::LockName;

/// A fencing token: a number below 2^53, strictly greater than every token granted before it for
/// the same name.
///
/// Below 2^53 every language that keeps numbers as doubles (Lua, JavaScript, many JSON readers)
/// still has it to the last digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// The highest token.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Checks a token.
    ///
    /// # Errors
    ///
    /// [`BadInput`](crate::ErrorKind::BadInput) for 0 or a number of 2^53 or more.
    pub fn new(token: u64) -> Result<Self, Error> {
        if token == 0 || token > Self::MAX.0 {
            let message = format!("token {token} is not within 1 to {}", Self::MAX.0);
            return Err(Error::bad_input(Operation::Tokens, message));
        }
        Ok(Self(token))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Who acquires: 128 random bits, chosen before the first byte is sent, fresh for each
/// acquisition and stable over its retries. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(u128);

impl Owner {
    /// A fresh owner, from the operating system's random source (so a forked child draws others).
    ///
    /// # Panics
    ///
    /// If the operating system has no random bits to give.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives random bits");
        Self(u128::from_ne_bytes(bytes))
    }

    /// The owner of these bits.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Owner {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(bits) if digits => Ok(Self(bits)),
            _ => Err(Error::bad_input(Operation::Inspect, "an owner is 32 hexadecimal digits")),
        }
    }
}

/// How long a lease lasts without renewal, by the store's clock: whole milliseconds, 1 ms to 30
/// days. A driver's own floor may be higher ([`Profile::ttl_floor`](crate::Profile)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl {
    millis: u64,
}

impl Ttl {
    /// The longest TTL: 30 days.
    pub const MAX: Self = Self { millis: 30 * 24 * 60 * 60 * 1000 };

    /// Checks a TTL; a part of a millisecond is rounded up, so the store never keeps less than
    /// was asked.
    ///
    /// # Errors
    ///
    /// [`BadInput`](crate::ErrorKind::BadInput) for zero or more than 30 days.
    pub fn new(ttl: Duration) -> Result<Self, Error> {
        if ttl.is_zero() || ttl > Self::MAX.get() {
            let message = format!("a TTL of {ttl:?} is not within 1 ms to 30 days");
            return Err(Error::bad_input(Operation::Configure, message));
        }
        let millis = u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Ok(Self { millis })
    }

    /// The TTL as a duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_millis(self.millis)
    }

    /// The TTL in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.millis
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

/// A held name: what a renewal needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// What is held.
    pub name: LockName,
    /// Who holds it.
    pub owner: Owner,
    /// The token it was granted with.
    pub token: Token,
    /// What a renewal re-arms to.
    pub ttl: Ttl,
    /// Whether it will be renewed until it is released.
    pub keep_alive: bool,
}

impl Lease {
    /// A lease that is kept alive.
    #[must_use]
    pub fn new(name: LockName, owner: Owner, token: Token, ttl: Ttl) -> Self {
        Self { name, owner, token, ttl, keep_alive: true }
    }

    /// What a release of this lease needs.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket { name: self.name.clone(), owner: self.owner, token: Some(self.token) }
    }
}

/// What a release needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ticket {
    /// What is released.
    pub name: LockName,
    /// Whose it is.
    pub owner: Owner,
    /// The token, where it is known. Without it, whatever that owner has of the name goes.
    pub token: Option<Token>,
}

impl Ticket {
    /// The ticket that frees any lease and any queue place of `owner`.
    #[must_use]
    pub fn by_owner(name: LockName, owner: Owner) -> Self {
        Self { name, owner, token: None }
    }
}

/// A short text of the caller's beside a lease: at most 128 bytes, no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label(Arc<str>);

impl Label {
    /// The longest label, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 128;

    /// Checks a label.
    ///
    /// # Errors
    ///
    /// [`BadInput`](crate::ErrorKind::BadInput) for one over 128 bytes or with a control
    /// character.
    pub fn new(label: &str) -> Result<Self, Error> {
        let has = if label.contains(char::is_control) {
            "a control character".to_owned()
        } else if label.len() > Self::MAX_BYTES {
            format!("{} bytes", label.len())
        } else {
            return Ok(Self(label.into()));
        };
        let message = format!(
            "the label has {has}; allowed are up to {} bytes of UTF-8 without control characters",
            Self::MAX_BYTES
        );
        Err(Error::bad_input(Operation::Configure, message))
    }

    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a holder tells people about itself. Decides nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The caller's label.
    pub label: Option<Label>,
    /// The holder's host name; empty where unknown.
    pub host: Arc<str>,
    /// The holder's process id, on its own host (or in its own container).
    pub pid: u32,
    /// When the claim was made, by the claiming host's wall clock.
    pub since: SystemTime,
}

impl Metadata {
    /// Metadata of this process, from now on, without host and label.
    #[must_use]
    pub fn of_this_process() -> Self {
        // The empty `Arc<str>` of the standard library is not allocated anew.
        let host = Arc::default();
        Self { label: None, host, pid: std::process::id(), since: SystemTime::now() }
    }
}

/// Who holds a lock now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The holder's owner.
    pub owner: Owner,
    /// Its token.
    pub token: Token,
    /// What the store keeps of its lease, by the store's clock; `None` is "for ever" (a record
    /// without expiry).
    pub remaining: Option<Duration>,
    /// What it says of itself, where the store has it.
    pub metadata: Option<Metadata>,
}

impl Holder {
    /// A holder without metadata.
    #[must_use]
    pub fn new(owner: Owner, token: Token, remaining: Option<Duration>) -> Self {
        Self { owner, token, remaining, metadata: None }
    }

    /// Adds what it says of itself.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {} with token {}", self.owner, self.token)?;
        if let Some(metadata) = &self.metadata {
            write!(f, ", pid {}", metadata.pid)?;
            if !metadata.host.is_empty() {
                write!(f, " on {}", metadata.host)?;
            }
            if let Some(label) = &metadata.label {
                write!(f, ", label {}", label.as_str())?;
            }
        }
        Ok(())
    }
}

/// How long a grant or a renewal is good for: a lower bound of what the store will keep, and the
/// instant that counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// What the store keeps at least, counted from `from`.
    pub remaining: Duration,
    /// The start of the granting attempt, or of the answered renewal, by the driver's
    /// [`Clock`](crate::Clock): never its end.
    pub from: Instant,
}

impl Validity {
    /// The deadline: `from + min(ttl, remaining) - (ttl/100 + 2 ms)`.
    ///
    /// The margin covers a rate difference of one percent between the store's clock and this
    /// one, and the granularity of the two.
    #[must_use]
    pub fn deadline(&self, ttl: Ttl) -> Instant {
        let end = self.from.saturating_add(self.remaining.min(ttl.get()));
        end.saturating_sub(margin(ttl.get()))
    }
}

/// The safety margin taken off a lease of `ttl`: `ttl/100 + 2 ms`.
#[must_use]
pub fn margin(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// A granted claim: its token, and how long it is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The token.
    pub token: Token,
    /// How long it is valid.
    pub validity: Validity,
}

/// Why a lock is lost.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Its deadline passed: no renewal was answered in time, or none was asked for.
    Deadline,
    /// The store has no record of the lease: it expired there, was evicted or deleted.
    Gone,
    /// The store has another owner or another token.
    TakenOver,
    /// The session that carried the lease ended.
    SessionGone,
    /// The lock's own `max_hold` is reached.
    MaxHold,
    /// The client was closed.
    Closed,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "its deadline passed",
            Self::Gone => "the store no longer has its record",
            Self::TakenOver => "the store has another owner or token",
            Self::SessionGone => "the session that carried it ended",
            Self::MaxHold => "it was held for its max_hold",
            Self::Closed => "the client was closed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Label, Owner, Token, Ttl, Validity};
    use crate::clock::Instant;
    use std::time::Duration;

    #[test]
    fn tokens_are_below_two_to_the_53_and_printed_to_the_last_digit() {
        assert!(Token::new(0).is_err());
        assert!(Token::new(1 << 53).is_err());
        assert_eq!(Token::new((1 << 53) - 1).unwrap().to_string(), "9007199254740991");
    }

    #[test]
    fn owners_are_fresh_and_survive_text() {
        let owner = Owner::random();
        assert_ne!(owner, Owner::random());
        assert_eq!(owner.to_string().parse::<Owner>().unwrap(), owner);
        for bad in ["", "+0000000000000000000000000000000", "0", "g0000000000000000000000000000000"]
        {
            assert!(bad.parse::<Owner>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ttls_round_up_to_a_millisecond_and_stay_within_limits() {
        assert_eq!(Ttl::new(Duration::from_nanos(1)).unwrap().as_millis(), 1);
        assert_eq!(Ttl::new(Duration::from_micros(1001)).unwrap().as_millis(), 2);
        assert_eq!(Ttl::new(Duration::from_millis(999)).unwrap().as_millis(), 999);
        for bad in [Duration::ZERO, Duration::MAX, Ttl::MAX.get() + Duration::from_nanos(1)] {
            assert!(Ttl::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn labels_are_short_and_printable() {
        assert!(Label::new(&"x".repeat(128)).is_ok());
        assert!(Label::new(&"x".repeat(129)).is_err());
        assert!(Label::new("a\tb").is_err());
    }

    #[test]
    fn the_deadline_counts_the_shorter_of_ttl_and_remaining_less_the_margin() {
        let from = Instant::from_origin(Duration::from_secs(100));
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        let deadline = |millis| {
            let validity = Validity { remaining: Duration::from_millis(millis), from };
            validity.deadline(ttl).since(from)
        };
        assert_eq!(deadline(20_000), Duration::from_millis(9_898));
        assert_eq!(deadline(10_000), Duration::from_millis(9_898));
        assert_eq!(deadline(5_000), Duration::from_millis(4_898));
        assert_eq!(deadline(50), Duration::ZERO);
    }
}
