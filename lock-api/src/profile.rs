//! What a driver, as configured, says of itself.

use std::fmt;
use std::time::Duration;

/// What exclusion and token order survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guarantee {
    /// Two holders may overlap once in a blue moon: after a failover, a lost store, a stepped
    /// clock. Work is then done twice, and that is all.
    Efficiency,
    /// No token repeats or falls, and exclusion survives, under a crash and restart of any node
    /// and the loss of a minority of nodes. Exempt is only an operator's restore of old data.
    Correctness,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Efficiency => "efficiency",
            Self::Correctness => "correctness",
        })
    }
}

/// Over what a backend excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The tasks of one process.
    Process,
    /// The processes of one host.
    Host,
    /// All that reach the store.
    Network,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Host => "host",
            Self::Network => "network",
        })
    }
}

/// What a driver says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// The backend's name, as errors carry it.
    pub backend: &'static str,
    /// What exclusion and token order survive.
    pub guarantee: Guarantee,
    /// Why the guarantee is not a higher one; empty where it is the highest.
    pub because: String,
    /// Over what it excludes.
    pub scope: Scope,
    /// The shortest TTL it keeps; a shorter one is refused.
    pub ttl_floor: Duration,
    /// TTLs are rounded up to a multiple of this.
    pub ttl_granularity: Duration,
    /// What happens to tokens when the store loses data.
    pub tokens_on_data_loss: &'static str,
    /// How a waiter learns that it may try again before its time.
    pub waking: Waking,
    /// The order in which waiting processes are served.
    pub order: Order,
    /// Whose clock decides that a lease has expired.
    pub expiry_clock: &'static str,
    /// Whether `inspect`, `list` and `evict` are there.
    pub operator: bool,
    /// What an operator should know of this configuration; empty where nothing.
    pub warnings: Vec<String>,
}

impl Profile {
    /// A profile of the most modest promises: efficiency, one process, no waking, no order.
    #[must_use]
    pub fn new(backend: &'static str) -> Self {
        Self {
            backend,
            guarantee: Guarantee::Efficiency,
            because: String::new(),
            scope: Scope::Process,
            ttl_floor: Duration::from_millis(10),
            ttl_granularity: Duration::from_millis(1),
            tokens_on_data_loss: "unknown",
            waking: Waking::Time,
            order: Order::None,
            expiry_clock: "unknown",
            operator: false,
            warnings: Vec::new(),
        }
    }
}

/// How a waiter learns that it may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Waking {
    /// By time only.
    Time,
    /// By a message to one waiter a release, and by time.
    Message,
}

/// The order in which waiting processes are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// None.
    None,
    /// First come, first woken; one that comes at the right moment may still barge in.
    Woken,
    /// First come, first served.
    Fifo,
}
