//! The signals that are passed on to the command.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are passed on, caught. Those that were ignored when this process started stay
/// ignored (`nohup`, a shell's background job), here and for the command.
#[derive(Debug)]
pub(crate) struct Passed {
    caught: Vec<(i32, Signal)>,
    /// A set of bits.
    ignored: u64,
}

impl Passed {
    /// Catches them, from now on until this process ends.
    pub(crate) fn catch() -> io::Result<Self> {
        let kinds = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let ignored = ignored_now();
        let wanted = kinds.into_iter().filter(|kind| !has(ignored, kind.as_raw_value()));
        let caught = wanted.map(|kind| Ok((kind.as_raw_value(), signal(kind)?)));
        Ok(Self { caught: caught.collect::<io::Result<_>>()?, ignored })
    }

    /// Whether this signal was ignored when this process started.
    pub(crate) fn ignores(&self, number: i32) -> bool {
        has(self.ignored, number)
    }

    /// Sends a signal to our process group, as a terminal does, and then ends by it.
    pub(crate) fn end_us_and_our_group_by(&self, number: i32) {
        if let Some(signal) = rustix::process::Signal::from_named_raw(number) {
            let _ = rustix::process::kill_current_process_group(signal); // caught by us
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
    }

    /// The next one's number.
    ///
    /// Dropped at any await, no signal is lost.
    pub(crate) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.caught {
                if let std::task::Poll::Ready(Some(())) = signal.poll_recv(context) {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// A write to a file that may not grow (`ulimit -f`) fails from now on, as on a full disk, and does
/// not end this process by SIGXFSZ. What it starts is ended by it as ever.
pub(crate) fn outlive_file_size_limits() -> io::Result<()> {
    let number = rustix::process::Signal::XFSZ.as_raw();
    if !has(ignored_now(), number) {
        signal_hook::flag::register(number, Arc::default())?;
    }
    Ok(())
}

/// The signals that this process ignores, as a set of bits: `SigIgn` in `man 5 proc_pid_status`.
fn ignored_now() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

fn has(set: u64, number: i32) -> bool {
    set & (1 << (number - 1)) != 0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_conformance::cancel::{Polled, drop_after, drop_woken};
    use rustix::process::{Signal, getpid, kill_process};

    use super::{Passed, has, ignored_now};

    #[test]
    fn what_this_process_ignores_is_read() {
        // Rust's runtime ignores SIGPIPE (13) in every program.
        assert!(has(ignored_now(), 13));
        assert!(!has(ignored_now(), 15));
    }

    #[tokio::test]
    async fn a_signal_whose_future_is_dropped_comes_with_the_next() {
        const LONG: Duration = Duration::from_secs(20);
        let mut passed = Passed::catch().unwrap();
        let raise = |signal| kill_process(getpid(), signal).unwrap();
        let (usr1, usr2) = (Signal::USR1.as_raw(), Signal::USR2.as_raw());
        for polls in 0..4 {
            assert_eq!(drop_after(polls.min(1), passed.next()).await, Polled::Dropped);
            // Woken by one that it does not get to see, while another comes.
            let woken = async {
                tokio::task::yield_now().await;
                raise(Signal::USR1);
                raise(Signal::USR2);
            };
            let (dropped, ()) = tokio::join!(drop_woken(1, passed.next()), woken);
            assert_eq!(dropped, Polled::Dropped);
            let mut seen = Vec::new();
            if let Polled::Ended(number) = drop_after(polls, passed.next()).await {
                seen.push(number);
            }
            while seen.len() < 2 {
                let next = tokio::time::timeout(LONG, passed.next()).await;
                seen.push(next.unwrap_or_else(|_| panic!("{polls} polls: {seen:?} only")));
            }
            seen.sort_unstable();
            assert_eq!(seen, [usr1, usr2], "{polls} polls");
        }
    }
}
