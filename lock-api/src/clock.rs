//! The clock that validities and deadlines count by.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;

/// A point on a [`Clock`]: the time since that clock's own origin.
///
/// Instants of two clocks mean nothing to each other. They never leave the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The instant `since_origin` after the clock's origin.
    #[must_use]
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// Time since the clock's origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// `self + time`, or the last instant there is.
    #[must_use]
    pub const fn saturating_add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    /// `self - time`, or the origin.
    #[must_use]
    pub const fn saturating_sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }

    /// Time from `earlier` to `self`; zero where `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{:?}", self.0)
    }
}

/// A clock that only goes forward and counts the time the machine was suspended.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The instant now.
    fn now(&self) -> Instant;

    /// Ends at `at` or soon after, never before. Where `now` counts suspend and the timer does
    /// not, an implementation re-reads it at least once a second.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    async fn sleep_until(&self, at: Instant);
}

/// The clock in production: counts suspend where the system has such a clock.
///
/// `CLOCK_BOOTTIME` on Linux and Android; elsewhere the system's monotonic clock (macOS counts
/// sleep in it). A freeze of the whole virtual machine is not counted: the guest's clock stands
/// still with it.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl BootClock {
    const RECHECK: Duration = Duration::from_secs(1);
}

#[async_trait]
impl Clock for BootClock {
    #[cfg(unix)]
    fn now(&self) -> Instant {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const ID: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const ID: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(ID);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Instant(Duration::new(seconds, nanos))
    }

    #[cfg(not(unix))]
    fn now(&self) -> Instant {
        static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
        Instant(ORIGIN.get_or_init(std::time::Instant::now).elapsed())
    }

    async fn sleep_until(&self, at: Instant) {
        loop {
            let left = at.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(Self::RECHECK)).await;
        }
    }
}

/// Tokio's clock, which tests can pause. Used by the memory driver.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioClock;

impl TokioClock {
    /// One origin a process, a day back, so that tests may subtract. It is real time: the runtime
    /// that asks first may be a paused one whose clock ran far ahead of the others.
    fn origin() -> tokio::time::Instant {
        const BACK: Duration = Duration::from_secs(24 * 60 * 60);
        static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
        let origin = ORIGIN.get_or_init(|| {
            let now = std::time::Instant::now();
            now.checked_sub(BACK).unwrap_or(now)
        });
        tokio::time::Instant::from_std(*origin)
    }
}

#[async_trait]
impl Clock for TokioClock {
    fn now(&self) -> Instant {
        // Never near the origin, however young the process or the machine is.
        const OFFSET: Duration = Duration::from_secs(1);
        Instant(tokio::time::Instant::now().saturating_duration_since(Self::origin()) + OFFSET)
    }

    async fn sleep_until(&self, at: Instant) {
        let left = at.since(self.now());
        if !left.is_zero() {
            tokio::time::sleep(left).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BootClock, Clock, Instant, TokioClock};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn tokio_clock_follows_paused_time() {
        let start = TokioClock.now();
        TokioClock.sleep_until(start.saturating_add(Duration::from_secs(3600))).await;
        assert_eq!(TokioClock.now().since(start), Duration::from_secs(3600));
    }

    #[tokio::test]
    async fn boot_clock_sleeps_until_and_not_before() {
        let until = BootClock.now().saturating_add(Duration::from_millis(20));
        BootClock.sleep_until(until).await;
        assert!(BootClock.now() >= until);
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let origin = Instant::from_origin(Duration::ZERO);
        assert_eq!(origin.saturating_sub(Duration::MAX), origin);
        assert_eq!(
            origin.saturating_add(Duration::MAX).saturating_add(Duration::MAX).since_origin(),
            Duration::MAX
        );
        assert_eq!(origin.since(origin.saturating_add(Duration::from_secs(1))), Duration::ZERO);
    }
}
