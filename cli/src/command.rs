//! The command and its supervising process, as `leasehold` sees them.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use leasehold::Guard;
use leasehold_api::{BootClock, Clock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid};
use tokio::signal::unix::{SignalKind, signal};

use crate::channel::{Channel, Ended, Limits, News, Order};
use crate::exit::{CANNOT_RUN, Failure, NOT_FOUND};
use crate::family::{AGAIN, Others, kill_all_below};
use crate::output::say;
use crate::signals::Passed;
use crate::supervise::VERB;
use crate::target::VARIABLE;
use crate::terminal::Terminal;

/// A command under a lock.
#[derive(Debug)]
pub(crate) struct Command {
    channel: Channel,
    supervisor: Pid,
    /// The command's process group, once it runs.
    group: Option<Pid>,
    terminal: Option<Terminal>,
    sent: Limits,
    /// What was below this process before: a shell may have become it by `exec`. What that forks
    /// from now on, and leaves, can't be told from what the command leaves.
    before: Others,
    interrupted: Option<i32>,
}

impl Command {
    /// Starts the supervising process, which starts the command.
    ///
    /// # Errors
    ///
    /// What the system refuses; the command was not started then.
    pub(crate) fn start(
        command: &[OsString],
        guard: &Guard,
        token: leasehold::Token,
        limits: Limits,
        url: Option<&str>,
    ) -> Result<Self, Failure> {
        // Where our caller ignores it, ended children would vanish, and their numbers be free.
        let _ = signal(SignalKind::child())?;
        // If the supervisor is killed, what it supervised becomes ours.
        rustix::process::set_child_subreaper(Some(getpid()))?;
        let before = Others::below_us()?;
        let (channel, theirs) = Channel::pair()?;
        // The running program, also where its file has been replaced.
        let mut supervisor = std::process::Command::new("/proc/self/exe");
        supervisor.arg0("leasehold").arg(VERB).args(command);
        supervisor.stdin(Stdio::from(theirs)).process_group(0);
        supervisor.env("LEASEHOLD_NAME", guard.name().as_str());
        supervisor.env("LEASEHOLD_TOKEN", token.to_string());
        supervisor.env("LEASEHOLD_OWNER", guard.owner().to_string());
        match url {
            Some(url) => supervisor.env(VARIABLE, url),
            None => supervisor.env_remove(VARIABLE),
        };
        let child = supervisor.spawn().map_err(|error| {
            cannot_start(command, error.raw_os_error(), &error.to_string()) // too many words, say
        })?;
        drop(supervisor); // and with it our copy of the supervisor's end
        channel.send_with(&Order::Limits(limits), Some(io::stdin().as_fd()))?;
        Ok(Self {
            channel,
            supervisor: Pid::from_child(&child),
            group: None,
            terminal: Terminal::open(),
            sent: limits,
            before,
            interrupted: None,
        })
    }

    /// What the supervisor tells next; `None` if it has ended without a word.
    ///
    /// Dropped at any await, nothing is lost.
    pub(crate) async fn news(&self) -> Option<News> {
        self.channel.receive().await.ok().flatten()
    }

    /// Moves the command's limits.
    pub(crate) fn limit(&mut self, limits: Limits) {
        // Stopped, as by its own command, it would tell no end, and the lock would be kept for
        // ever.
        let _ = rustix::process::kill_process(self.supervisor, Signal::CONT);
        // Unsent because the supervisor is stopped, the older and stricter ones hold.
        if self.sent != limits && self.channel.send(&Order::Limits(limits)).is_ok() {
            self.sent = limits;
        }
    }

    /// Passes a signal on to the command's group.
    pub(crate) fn pass_on(&self, number: i32) {
        let _ = self.channel.send(&Order::Signal(number));
    }

    /// The command runs. As a job in the foreground it gets that foreground at once; not as a part
    /// of a pipeline, whose other parts need the terminal too, nor as a script's background job,
    /// which ignores SIGINT.
    pub(crate) fn started(&mut self, group: i32, signals: &Passed) {
        self.group = Pid::from_raw(group);
        let in_front = io::stdin().is_terminal()
            && io::stdout().is_terminal()
            && !signals.ignores(Signal::INT.as_raw());
        if let (Some(terminal), Some(group)) = (&mut self.terminal, self.group)
            && in_front
            && terminal.give(group)
        {
            // It may have been stopped because it read before.
            self.pass_on(Signal::CONT.as_raw());
        }
    }

    /// The command was stopped. Where it only wants the terminal, it gets it; else, by Ctrl-Z, this
    /// process stops with it, so that the shell sees it, and the two go on together. Nothing is
    /// renewed meanwhile. Stopped by other means, it stays so, and keeps its lock.
    pub(crate) fn stopped(&mut self, signal: i32, guard: &Guard) {
        let (Some(terminal), Some(group)) = (&mut self.terminal, self.group) else { return };
        match Signal::from_named_raw(signal) {
            Some(Signal::TTIN | Signal::TTOU) if terminal.give(group) => {}
            Some(Signal::TSTP | Signal::TTIN | Signal::TTOU) => {
                let left = Duration::from_secs(guard.remaining().as_secs());
                say(&format!("stopped; unless continued within {left:?}, the lock is lost"));
                terminal.take_back();
                let _ = rustix::process::kill_current_process_group(Signal::TSTP);
                terminal.give(group);
            }
            _ => return,
        }
        self.pass_on(Signal::CONT.as_raw());
    }

    /// The command has ended: the terminal is ours again.
    pub(crate) fn ended(&mut self, ended: Ended) {
        let had_it = self.terminal.as_mut().is_some_and(Terminal::take_back);
        let of_keys = [Signal::INT, Signal::QUIT].map(Signal::as_raw);
        self.interrupted = ended.signal.filter(|signal| had_it && of_keys.contains(signal));
    }

    /// The signal by which a key ended the command, while it had the terminal's foreground.
    pub(crate) fn was_interrupted(&self) -> Option<i32> {
        self.interrupted
    }

    /// The lock is gone: ends the command, by the supervisor and, in case that is stopped, here.
    pub(crate) fn kill(&self) {
        let _ = self.channel.send(&Order::Kill);
        kill_all_below(self.supervisor, &Others::default());
    }

    /// Ends the supervisor and all that it left, which are our children then. Answers whether all
    /// are gone. It gives up some time after the lock is lost, and not before: it must not be
    /// released while anything runs.
    pub(crate) async fn end_all(&self, guard: &Guard) -> bool {
        const GIVE_UP: Duration = Duration::from_secs(5);
        let _ = rustix::process::kill_process(self.supervisor, Signal::KILL);
        let mut again = AGAIN.0;
        let mut end = BootClock.now().saturating_add(GIVE_UP);
        loop {
            let found = kill_all_below(getpid(), &self.before);
            let any_child = loop {
                match rustix::process::wait(WaitOptions::NOHANG) {
                    Ok(Some(_)) => {}
                    Ok(None) => break true,
                    Err(error) => break error != Errno::CHILD,
                }
            };
            // The kernel knows better than `/proc`, which may hide one (`hidepid`).
            let left = if self.before.are_none() { any_child } else { found };
            if !left {
                return true;
            }
            if guard.is_held() {
                end = BootClock.now().saturating_add(GIVE_UP);
            } else if BootClock.now() >= end {
                return false;
            }
            tokio::time::sleep(again).await;
            again = (again * 2).min(AGAIN.1);
        }
    }
}

/// Why a command could not be started, with the status that shells give it.
pub(crate) fn cannot_start(command: &[OsString], errno: Option<i32>, text: &str) -> Failure {
    let program = command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
    let status = match errno.map(io::Error::from_raw_os_error).map(|error| error.kind()) {
        Some(io::ErrorKind::NotFound) => NOT_FOUND,
        _ => CANNOT_RUN,
    };
    Failure::new(status, format!("can't run `{program}`: {text}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_api::Instant;
    use leasehold_conformance::cancel::{Polled, drop_after, drop_woken};
    use rustix::process::getpid;

    use super::Command;
    use crate::channel::{Channel, Limits, News};
    use crate::family::Others;

    #[tokio::test]
    async fn news_whose_future_is_dropped_are_told_by_the_next() {
        let (channel, theirs) = Channel::pair().unwrap();
        let theirs = Channel::new(theirs).unwrap();
        let never = Instant::from_origin(Duration::MAX);
        let command = Command {
            channel,
            supervisor: getpid(),
            group: None,
            terminal: None,
            sent: Limits::new(never, never),
            before: Others::default(),
            interrupted: None,
        };
        let group = async || {
            let news = tokio::time::timeout(Duration::from_secs(20), command.news());
            match news.await.expect("news were lost") {
                Some(News::Started(group)) => Some(group),
                Some(other) => panic!("{other:?}"),
                None => None,
            }
        };
        for (polls, number) in (0..4).zip(100..) {
            assert_eq!(drop_after(polls.min(1), group()).await, Polled::Dropped);
            let woken = async {
                tokio::task::yield_now().await;
                theirs.send(&News::Started(number)).unwrap();
            };
            let (dropped, ()) = tokio::join!(drop_woken(1, group()), woken);
            assert_eq!(dropped, Polled::Dropped);
            let told = match drop_after(polls, group()).await {
                Polled::Ended(told) => told,
                Polled::Dropped => group().await,
            };
            assert_eq!(told, Some(number), "{polls} polls");
        }
        drop(theirs);
        let _ = drop_after(1, group()).await;
        assert_eq!(group().await, None);
    }
}
