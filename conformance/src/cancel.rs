//! Dropping a future at each of its awaits.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// What is left of a future that was polled a number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled<T> {
    /// It ended within that many polls.
    Ended(T),
    /// It did not, and was dropped.
    Dropped,
}

/// Polls a future `polls` times, each time after it was woken, and drops it unless it ended.
///
/// # Cancel safety
///
/// Dropping it drops the future.
pub async fn drop_after<T>(polls: usize, future: impl Future<Output = T>) -> Polled<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(Polled::Dropped);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Polled::Ended(value)),
            // Without polls left nothing more is waited for: the drop comes right after a poll.
            Poll::Pending if left == 0 => Poll::Ready(Polled::Dropped),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Polls a future `polls` times, and drops it unless it ended when it is woken once more: what it
/// was woken for has happened, and it never gets to see it.
///
/// # Cancel safety
///
/// Dropping it drops the future.
pub async fn drop_woken<T>(polls: usize, future: impl Future<Output = T>) -> Polled<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(Polled::Dropped);
        }
        left -= 1;
        future.as_mut().poll(context).map(Polled::Ended)
    })
    .await
}

/// Polls a future until it ends. Answers how many polls that took, too.
///
/// # Cancel safety
///
/// Dropping it drops the future.
pub async fn count_polls<T>(future: impl Future<Output = T>) -> (usize, T) {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|context| {
        polls += 1;
        future.as_mut().poll(context).map(|value| (polls, value))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::{Polled, count_polls, drop_after, drop_woken};
    use tokio::task::yield_now;

    #[tokio::test]
    async fn a_future_ends_if_its_polls_suffice_and_is_dropped_if_not() {
        let three = || async {
            yield_now().await;
            yield_now().await;
            7
        };
        for polls in 0..3 {
            assert_eq!(drop_after(polls, three()).await, Polled::Dropped, "{polls}");
        }
        assert_eq!(drop_after(3, three()).await, Polled::Ended(7));
        assert_eq!(count_polls(three()).await, (3, 7));
    }

    #[tokio::test]
    async fn a_woken_future_is_dropped_before_it_sees_why() {
        let gate = tokio::sync::Notify::new();
        let woken = async {
            tokio::join!(drop_woken(1, gate.notified()), async {
                yield_now().await;
                gate.notify_one();
            })
            .0
        };
        assert_eq!(woken.await, Polled::Dropped);
        // What it was woken for went to nobody, and so to the next.
        gate.notify_one();
        assert_eq!(drop_woken(1, gate.notified()).await, Polled::Ended(()));
    }
}
