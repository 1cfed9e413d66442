//! What `leasehold` and its supervisor tell each other: whole messages over a socket pair. When
//! one of them ends, however, the other reads the end of the stream at once.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use leasehold_api::Instant;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// When the command must get SIGTERM, and when it must get SIGKILL, in milliseconds of the
/// boot clock, which all processes of one machine share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    terminate: u64,
    kill: u64,
}

/// To the supervisor. The first one carries the command's standard input.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Order {
    Limits(Limits),
    /// Pass this signal on to the command's process group.
    Signal(i32),
    /// The lock is gone: end everything now.
    Kill,
}

/// From the supervisor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum News {
    /// The command runs, as the leader of the process group of this number.
    Started(i32),
    /// It was stopped by this signal, as by Ctrl-Z.
    Stopped(i32),
    /// The command could not be started: the system's error number, and its text.
    Failed(Option<i32>, String),
    /// The limit was over before the command was started.
    Late,
    /// The command and all that it left are gone.
    Ended(Ended),
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// Its exit status, or 128 + the signal that ended it, as shells say it.
    pub(crate) status: u8,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// The supervisor ended it, because of the lock.
    pub(crate) because_of_the_lock: bool,
}

impl Limits {
    pub(crate) fn new(terminate: Instant, kill: Instant) -> Self {
        // Down to whole milliseconds: what is computed twice of one deadline is the same then.
        let millis = |at: Instant| u64::try_from(at.since_origin().as_millis()).unwrap_or(u64::MAX);
        Self { terminate: millis(terminate), kill: millis(kill) }
    }

    /// The earlier of each.
    pub(crate) fn stricter(self, other: Self) -> Self {
        Self { terminate: self.terminate.min(other.terminate), kill: self.kill.min(other.kill) }
    }

    pub(crate) fn terminate(self) -> Instant {
        Instant::from_origin(std::time::Duration::from_millis(self.terminate))
    }

    pub(crate) fn kill(self) -> Instant {
        Instant::from_origin(std::time::Duration::from_millis(self.kill))
    }
}

/// One end of the socket pair. It keeps the bounds of messages, which the type does not know.
#[derive(Debug)]
pub(crate) struct Channel(UnixStream);

impl Channel {
    const LONGEST: usize = 4096;

    /// One end for this process, and the other for a child; neither is inherited by accident.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self::new(ours)?, theirs))
    }

    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixStream::from_std(socket)?))
    }

    /// Sends without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` where the other process is stopped and reads nothing.
    pub(crate) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, None)
    }

    /// Waits until a message that was refused with `WouldBlock` may be taken.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.0.writable().await
    }

    /// Sends a message that carries an open file.
    pub(crate) fn send_with(
        &self,
        message: &impl Serialize,
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut carried = SendAncillaryBuffer::new(&mut space);
        let files = file.as_slice();
        if !files.is_empty() {
            carried.push(SendAncillaryMessage::ScmRights(files));
        }
        let parts = [IoSlice::new(&text)];
        let sent = rustix::net::sendmsg(&self.0, &parts, &mut carried, SendFlags::NOSIGNAL);
        if sent == Err(Errno::AGAIN) {
            // So that `writable` waits.
            let _ = self.0.try_io(Interest::WRITABLE, || {
                Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock))
            });
        }
        sent?;
        Ok(())
    }

    /// The next message; `None` once the other process has ended.
    ///
    /// Dropped at any await, no message is lost.
    pub(crate) async fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        Ok(self.receive_with().await?.map(|(message, _)| message))
    }

    /// The next message, and the open file that it carries.
    pub(crate) async fn receive_with<T: DeserializeOwned>(
        &self,
    ) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let read = || {
            let mut text = [0; Self::LONGEST];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut carried = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut text)];
            let received =
                rustix::net::recvmsg(&self.0, &mut parts, &mut carried, RecvFlags::CMSG_CLOEXEC)?;
            let file = carried.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut files) => files.next(),
                _ => None,
            });
            Ok((text[..received.bytes].to_vec(), file))
        };
        let (text, file) = match self.0.async_io(Interest::READABLE, read).await {
            // The other process ended with something of ours unread. That is told once, and before
            // what it sent last.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.0.async_io(Interest::READABLE, read).await?
            }
            received => received?,
        };
        if text.is_empty() {
            return Ok(None);
        }
        Ok(Some((serde_json::from_slice(&text)?, file)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_conformance::cancel::{Polled, drop_after, drop_woken};

    use super::{Channel, Ended, News, Order};

    fn both() -> (Channel, Channel) {
        let (ours, theirs) = Channel::pair().unwrap();
        (ours, Channel::new(theirs).unwrap())
    }

    #[tokio::test]
    async fn the_last_message_of_a_process_that_ended_arrives_also_if_it_left_ours_unread() {
        let (ours, theirs) = both();
        ours.send(&Order::Signal(15)).unwrap();
        theirs
            .send(&News::Ended(Ended { status: 7, signal: None, because_of_the_lock: false }))
            .unwrap();
        drop(theirs);
        let last = ours.receive::<News>().await.unwrap();
        assert!(matches!(last, Some(News::Ended(Ended { status: 7, .. }))), "{last:?}");
        assert!(ours.receive::<News>().await.unwrap().is_none(), "the end is not seen");
    }

    /// The next message of three: a signal's number.
    async fn number(ours: &Channel) -> i32 {
        let received = tokio::time::timeout(Duration::from_secs(20), ours.receive::<Order>());
        match received.await.expect("a message was lost").unwrap() {
            Some(Order::Signal(number)) => number,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_receive_that_is_dropped_loses_no_message() {
        for polls in 0..4 {
            let (ours, theirs) = both();
            // Without a message, and with one that comes later.
            assert_eq!(drop_after(polls.min(1), number(&ours)).await, Polled::Dropped);
            theirs.send(&Order::Signal(1)).unwrap();
            theirs.send(&Order::Signal(2)).unwrap();
            let mut seen = Vec::new();
            if let Polled::Ended(number) = drop_after(polls, number(&ours)).await {
                seen.push(number);
            }
            while seen.len() < 2 {
                seen.push(number(&ours).await);
            }
            // Woken by one that it does not get to see.
            let woken = async {
                tokio::task::yield_now().await;
                theirs.send(&Order::Signal(3)).unwrap();
            };
            let (dropped, ()) = tokio::join!(drop_woken(1, number(&ours)), woken);
            assert_eq!(dropped, Polled::Dropped);
            seen.push(number(&ours).await);
            assert_eq!(seen, [1, 2, 3], "{polls} polls");
            // The end is not lost either.
            drop(theirs);
            let ended = ours.receive::<Order>();
            if let Polled::Ended(end) = drop_after(polls, ended).await {
                assert!(end.unwrap().is_none(), "{polls} polls");
            }
            assert!(ours.receive::<Order>().await.unwrap().is_none(), "{polls} polls");
        }
    }

    /// The error that is told before it is.
    #[tokio::test]
    async fn a_receive_that_is_dropped_at_a_reset_leaves_the_last_message() {
        for polls in 0..4 {
            let (ours, theirs) = both();
            ours.send(&Order::Kill).unwrap();
            theirs.send(&Order::Signal(1)).unwrap();
            drop(theirs);
            let number = match drop_after(polls, number(&ours)).await {
                Polled::Ended(number) => number,
                Polled::Dropped => number(&ours).await,
            };
            assert_eq!(number, 1, "{polls} polls");
        }
    }
}
