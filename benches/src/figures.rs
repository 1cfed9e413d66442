//! Clocks, and what is made of many measurements.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time on a clock that all processes of this machine share.
pub(crate) fn now() -> Duration {
    time(ClockId::Monotonic)
}

/// The processor time that all threads of this process have used.
pub(crate) fn processor() -> Duration {
    time(ClockId::ProcessCPUTime)
}

fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// The processors' time since the machine started, in ticks: all of it, and what went to other
/// virtual machines ("steal" in proc(5)).
pub(crate) fn processors() -> std::io::Result<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).flat_map(str::parse).collect();
    Ok((ticks.iter().take(8).sum(), ticks.get(7).copied().unwrap_or(0)))
}

/// The value that so large a part of all does not exceed; zero of none.
pub(crate) fn quantile(values: &mut [Duration], part: f64) -> Duration {
    values.sort_unstable();
    let at = (values.len() as f64 * part) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// The value in the middle; zero of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Jain's index of fairness (R. Jain, D. Chiu, W. Hawe, 1984): 1 if all got the same, 1/n if one
/// got all.
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::{jain, median, quantile};
    use std::time::Duration;

    #[test]
    fn jain_is_one_for_equal_shares_and_one_nth_for_one_of_n() {
        assert!((jain(&[5, 5, 5, 5]) - 1.0).abs() < 1e-9);
        assert!((jain(&[8, 0, 0, 0]) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn quantiles_and_medians_are_of_the_sorted_values() {
        let mut values: Vec<_> = (0..100).rev().map(Duration::from_millis).collect();
        assert_eq!(quantile(&mut values, 0.99), Duration::from_millis(99));
        assert_eq!(quantile(&mut values, 0.5), Duration::from_millis(50));
        assert_eq!(quantile(&mut [], 0.5), Duration::ZERO);
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
