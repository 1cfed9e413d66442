//! The supervising process: a small process between `leasehold` and the command, which ends the
//! command in time also when `leasehold` is killed or stopped.
//!
//! It knows nothing of locks. It has limits on the boot clock, which `leasehold` moves with each
//! renewal, and a channel whose end is `leasehold`'s end. As a child subreaper it becomes the
//! parent of what the command's processes leave behind, whatever group they are in.
//!
//! ```text
//!             limits.terminate                 limits.kill
//!   [running] ----------------> [terminating] -------------+
//!      |  \                          |                      v
//!      |   `-- channel ends, Kill, no grace ----------> [killing] (SIGKILL again after 10 ms,
//!      |                             |                      |      then ever later, to 500 ms)
//!      |                             |                      |
//!      | the command ends            | no child is left     | no child is left
//!      v                             v                      v
//!   [left over: SIGTERM] ---------> told: ended <-----------+
//!      |  after as long as from terminate to kill           ^
//!      `----------------------> [killing] -------------------
//! ```

use std::ffi::OsString;
use std::io::{self, ErrorKind::WouldBlock};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_api::{BootClock, Clock, Instant};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid};
use tokio::signal::unix::{SignalKind, signal};

use crate::channel::{Channel, Ended, Limits, News, Order};
use crate::exit::Failure;
use crate::family::{AGAIN, Others, kill_all_below, signal_all_below};
use crate::signals::Passed;

/// The first word of the supervising process.
pub(crate) const VERB: &str = "__supervise";

/// The `main` of the supervising process. Its standard input is the channel.
///
/// # Errors
///
/// What the system refuses before the command is started; `leasehold` sees the channel end.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn supervise(command: Vec<OsString>) -> Result<u8, Failure> {
    // Its own name: `pkill -9 leasehold` leaves it what has to be ended.
    rustix::thread::set_name(c"lock-supervisor")?;
    let channel = Channel::new(io::stdin().as_fd().try_clone_to_owned()?)?;
    rustix::process::set_child_subreaper(Some(getpid()))?;
    // Whoever signals both of us means the command, and `leasehold` passes it on.
    let _caught = Passed::catch()?;
    let Some((Order::Limits(limits), Some(input))) = channel.receive_with().await? else {
        return Ok(0); // it ended before it said what to do
    };
    // Before the start, so that no end is missed.
    let mut children = signal(SignalKind::child())?;
    if BootClock.now() >= limits.terminate() {
        channel.send(&News::Late)?;
        return Ok(0);
    }
    let mut family = match start(command, input) {
        Ok(leader) => Family::new(leader, limits),
        Err(error) => {
            channel.send(&News::Failed(error.raw_os_error(), error.to_string()))?;
            return Ok(0);
        }
    };
    let _ = channel.send(&News::Started(family.leader.as_raw_pid()));
    let mut alone = false;
    loop {
        if family.reap() == Left::Nobody {
            break;
        }
        // What can't be sent now, because `leasehold` is stopped, is sent later.
        let unsent = family.stopped.is_some_and(|signal| {
            channel.send(&News::Stopped(signal)).is_err_and(|error| error.kind() == WouldBlock)
        });
        if !unsent {
            family.stopped = None;
        }
        tokio::select! {
            biased;
            order = channel.receive(), if !alone => match order {
                Ok(Some(order)) => family.obey(order),
                Ok(None) | Err(_) => {
                    alone = true;
                    family.obey(Order::Kill);
                }
            },
            () = BootClock.sleep_until(family.alarm()) => family.ring(),
            _ = children.recv() => {}
            _ = channel.writable(), if unsent => {}
        }
    }
    // Without anybody to tell, all is done.
    let ended = News::Ended(family.ended());
    while channel.send(&ended).is_err_and(|error| error.kind() == WouldBlock) {
        channel.writable().await?;
    }
    Ok(0)
}

/// Starts the command in a process group of its own.
fn start(command: Vec<OsString>, input: OwnedFd) -> io::Result<Pid> {
    let mut command = command.into_iter();
    let program = command.next().ok_or(io::ErrorKind::InvalidInput)?;
    let mut started = Command::new(program);
    let child = started.args(command).stdin(Stdio::from(input)).process_group(0).spawn()?;
    // It is reaped by number, with all that it leaves.
    Ok(Pid::from_child(&child))
}

#[derive(Debug, PartialEq, Eq)]
enum Left {
    Nobody,
    Somebody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// SIGTERM was sent because of the lock.
    Terminating,
    /// The command has ended by itself, and what it left got SIGTERM; SIGKILL follows then.
    LeftOver(Instant),
    Killing,
}

/// The command and all that it started.
#[derive(Debug)]
struct Family {
    leader: Pid,
    limits: Limits,
    phase: Phase,
    /// The command's own status, once it has ended.
    status: Option<u8>,
    signal: Option<i32>,
    because_of_the_lock: bool,
    /// The signal by which the command was stopped, until it is told.
    stopped: Option<i32>,
    /// Time from SIGTERM to SIGKILL.
    grace: Duration,
    /// Time between SIGKILLs, and when the next one is due: whatever happens meanwhile.
    again: Duration,
    again_at: Instant,
}

impl Family {
    fn new(leader: Pid, limits: Limits) -> Self {
        Self {
            leader,
            limits,
            phase: Phase::Running,
            status: None,
            signal: None,
            because_of_the_lock: false,
            stopped: None,
            grace: limits.kill().since(limits.terminate()),
            again: AGAIN.0,
            again_at: Instant::from_origin(Duration::ZERO),
        }
    }

    fn ended(&self) -> Ended {
        let killed = 128 + 9;
        Ended {
            status: self.status.unwrap_or(killed),
            signal: self.signal,
            because_of_the_lock: self.because_of_the_lock,
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Limits(limits) if self.phase == Phase::Running => self.limits = limits,
            // What was told to end must: a renewal that comes now does not take that back.
            Order::Limits(limits) => self.limits = self.limits.stricter(limits),
            Order::Signal(number) => self.pass_on(number),
            Order::Kill => {
                self.because_of_the_lock |= self.status.is_none();
                self.phase = Phase::Killing;
                self.kill();
            }
        }
    }

    /// To the command's group only, as a terminal would.
    fn pass_on(&self, number: i32) {
        // Its number can't have been used again before it was reaped.
        if self.status.is_none()
            && let Some(signal) = Signal::from_named_raw(number)
        {
            let _ = rustix::process::kill_process_group(self.leader, signal);
        }
    }

    /// When something is to be done, if nothing happens before.
    fn alarm(&self) -> Instant {
        match self.phase {
            Phase::Running => self.limits.terminate(),
            Phase::Terminating => self.limits.kill(),
            Phase::LeftOver(until) => until.min(self.limits.kill()),
            Phase::Killing => self.again_at,
        }
    }

    fn ring(&mut self) {
        match self.phase {
            Phase::Running => {
                self.because_of_the_lock = true;
                // Without a grace SIGTERM would only cost time.
                if self.limits.kill() <= BootClock.now() {
                    self.phase = Phase::Killing;
                    self.kill();
                } else {
                    self.phase = Phase::Terminating;
                    self.terminate();
                }
            }
            Phase::Terminating | Phase::LeftOver(_) => {
                self.phase = Phase::Killing;
                self.kill();
            }
            Phase::Killing => self.kill(),
        }
    }

    fn terminate(&self) {
        // Who can't be looked at now is killed when the grace is over.
        let _ = signal_all_below(getpid(), &Others::default(), Signal::TERM);
        // A stopped process gets it when it goes on.
        let _ = signal_all_below(getpid(), &Others::default(), Signal::CONT);
    }

    fn kill(&mut self) {
        // First the group, in one step.
        if self.status.is_none() {
            let _ = rustix::process::kill_process_group(self.leader, Signal::KILL);
        }
        kill_all_below(getpid(), &Others::default());
        self.again_at = BootClock.now().saturating_add(self.again);
        self.again = (self.again * 2).min(AGAIN.1);
    }

    /// Reaps all that has ended, the command and what it left.
    fn reap(&mut self) -> Left {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.leader => self.saw(status),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return Left::Nobody,
            }
        }
        if self.status.is_some() && self.phase == Phase::Running {
            self.phase = Phase::LeftOver(BootClock.now().saturating_add(self.grace));
            self.terminate();
        }
        Left::Somebody
    }

    fn saw(&mut self, status: WaitStatus) {
        if status.stopped() {
            self.stopped = status.stopping_signal();
        } else {
            self.signal = status.terminating_signal();
            let signalled = || self.signal.map(|signal| 128 + signal);
            let code = status.exit_status().or_else(signalled).unwrap_or(255);
            self.status = Some(u8::try_from(code).unwrap_or(255));
        }
    }
}
