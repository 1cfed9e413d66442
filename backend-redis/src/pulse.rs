//! A stream that knows whether its peer still answers, and spares system calls.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// From how many bytes on a write doesn't wait for more. Less would cost a system call for every few
/// requests, on both sides; more would let client and server wait for each other in turn.
pub(crate) const GATHER: usize = 16 * 1024;

/// What is known of a connection's peer.
///
/// A link can swallow everything without a reset, and callers drop their calls long before TCP
/// gives up. So what counts is the bytes: since when something was sent with nothing heard after.
#[derive(Debug)]
pub(crate) struct Pulse {
    born: Instant,
    /// Milliseconds after `born`, plus one, of the first write since the last read; 0 for none.
    asked: AtomicU64,
    writes: AtomicU64,
    /// Requests that wait for their answer.
    under_way: AtomicUsize,
    ended: AtomicBool,
}

impl Pulse {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            born: Instant::now(),
            asked: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        })
    }

    /// Notes that the connection can't be used any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether the connection ended, or was silent for `limit` after something was sent.
    pub(crate) fn is_lost(&self, limit: Duration) -> bool {
        self.ended.load(Ordering::Acquire) || self.is_silent(limit)
    }

    /// Whether nothing was heard for `limit` after something was sent.
    pub(crate) fn is_silent(&self, limit: Duration) -> bool {
        let silent = match self.asked.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            asked => self.born.elapsed().saturating_sub(Duration::from_millis(asked - 1)),
        };
        silent > limit
    }

    /// Ends soon after the connection is lost in that sense.
    pub(crate) async fn lost(&self, limit: Duration) {
        let look = (limit / 4).max(Duration::from_millis(10));
        while !self.is_lost(limit) {
            tokio::time::sleep(look).await;
        }
    }

    /// How often something was written. Unchanged since before a request: that was not sent.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }

    /// A request is under way for as long as what this answers is kept.
    pub(crate) fn request(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    fn sent(&self) {
        self.writes.fetch_add(1, Ordering::Release);
        if self.asked.load(Ordering::Relaxed) == 0 {
            let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
            self.asked.store(now + 1, Ordering::Relaxed);
        }
    }

    fn heard(&self) {
        if self.asked.load(Ordering::Relaxed) != 0 {
            self.asked.store(0, Ordering::Relaxed);
        }
    }
}

/// A request that waits for its answer.
pub(crate) struct UnderWay<'a>(&'a Pulse);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that feeds a [`Pulse`], and gathers what is written at about the same time.
#[derive(Debug)]
pub(crate) struct Pulsed<S> {
    stream: S,
    pulse: Arc<Pulse>,
    gathered: bool,
}

impl<S> Pulsed<S> {
    pub(crate) fn new(stream: S, pulse: Arc<Pulse>) -> Self {
        Self { stream, pulse, gathered: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Pulsed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.pulse.heard();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Pulsed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Once round the run queue, so that the callers that are ready share this write. A single
        // caller would wait for nobody.
        let alone = self.pulse.under_way.load(Ordering::Relaxed) <= 1;
        self.gathered = !self.gathered && !alone && bytes.len() < GATHER;
        if self.gathered {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.pulse.sent();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::{Pulse, Pulsed};
    use futures_util::FutureExt;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn silence_counts_from_the_first_byte_sent_and_ends_with_a_byte_heard() {
        let (near, mut far) = tokio::io::duplex(64);
        let pulse = Pulse::new();
        let mut near = Pulsed::new(near, pulse.clone());
        let limit = Duration::from_millis(5);
        std::thread::sleep(limit * 2);
        assert!(!pulse.is_lost(limit) && pulse.writes() == 0, "nothing was asked");
        near.write_all(b"ask").await.unwrap();
        assert_eq!(pulse.writes(), 1);
        std::thread::sleep(limit * 2);
        near.write_all(b"ask again").await.unwrap();
        assert!(pulse.is_lost(limit), "asked and not answered");
        assert!(!pulse.is_lost(Duration::from_secs(60)));
        far.write_all(b"!").await.unwrap();
        near.read_u8().await.unwrap();
        assert!(!pulse.is_lost(limit), "answered, although nobody waited for it");
        pulse.end();
        assert!(pulse.is_lost(Duration::from_secs(60)));
    }

    #[tokio::test]
    async fn a_write_waits_for_others_only_where_there_are_others() {
        let (near, _far) = tokio::io::duplex(64);
        let pulse = Pulse::new();
        let mut near = Pulsed::new(near, pulse.clone());
        let one = pulse.request();
        assert!(near.write_all(b"a").now_or_never().is_some(), "at once");
        let other = pulse.request();
        assert!(near.write_all(b"a").now_or_never().is_none(), "once round");
        near.write_all(b"a").await.unwrap();
        drop((one, other));
        assert!(near.write_all(b"a").now_or_never().is_some(), "at once again");
        assert_eq!(pulse.writes(), 3);
    }
}
