//! The terminal, and whose process group has its foreground.

use std::fs::File;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
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
        Some(Self { device, given: None })
    }

    /// Gives the foreground to this group, if it is ours. Answers whether the group has it now.
    pub(crate) fn give(&mut self, group: Pid) -> bool {
        let foreground = tcgetpgrp(&self.device).ok();
        if foreground == Some(getpgrp()) && tcsetpgrp(&self.device, group).is_ok() {
            self.given = Some(group);
            return true;
        }
        foreground == Some(group)
    }

    /// Takes the foreground back, if the group that it was given to still has it.
    pub(crate) fn take_back(&mut self) {
        if let Some(group) = self.given.take()
            && tcgetpgrp(&self.device).ok() == Some(group)
        {
            // A background process that does this gets SIGTTOU, unless it blocks it.
            let mut blocked = SigSet::empty();
            blocked.add(Signal::SIGTTOU);
            let before = blocked.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
            let _ = tcsetpgrp(&self.device, getpgrp());
            if let Ok(before) = before {
                let _ = before.thread_set_mask();
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
