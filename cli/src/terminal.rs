//! The terminal, and whose process group has its foreground.

use std::fs::File;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal that controls this process. While the command runs, its group has the foreground
/// where this process had it: keys such as Ctrl-C reach the command, and only it may read.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: File,
    /// The group that has been given the foreground.
    given: Option<Pid>,
}

impl Terminal {
    /// `None` without a terminal.
    pub(crate) fn open() -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/tty").ok()?;
        // A background process that takes the foreground, or writes where `stty tostop` is set, is
        // stopped by SIGTTOU, unless it blocks it. Children get a mask of their own.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        blocked.thread_block().ok()?;
        Some(Self { device, given: None })
    }

    /// Gives the foreground to this group, if it is ours. Answers whether the group has it now.
    pub(crate) fn give(&mut self, group: Pid) -> bool {
        let foreground = tcgetpgrp(&self.device).ok();
        if foreground.is_some() && foreground == ours() && tcsetpgrp(&self.device, group).is_ok() {
            self.given = Some(group);
            return true;
        }
        foreground == Some(group)
    }

    /// Takes the foreground back, if the group that it was given to still has it. Answers that.
    pub(crate) fn take_back(&mut self) -> bool {
        let had_it =
            self.given.take().is_some_and(|group| tcgetpgrp(&self.device).ok() == Some(group));
        if let Some(group) = ours().filter(|_| had_it) {
            let _ = tcsetpgrp(&self.device, group);
        }
        had_it
    }
}

/// Our process group; `None` in a pid namespace that it was formed outside of, where it has no
/// number.
fn ours() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
