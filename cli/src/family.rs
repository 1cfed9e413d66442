//! The processes below one process: who they are, and how they are ended.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal,
};

/// When what does not end is killed again, for what it forks meanwhile must go too: at first, and
/// at most.
pub(crate) const AGAIN: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_millis(500));

/// A process as `/proc` shows it. Number and start together are its identity: numbers are used
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// It has ended, all its threads, and was not reaped.
    ended: bool,
    parent: i32,
    group: i32,
    session: i32,
    started: u64,
}

/// Who was found below a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// All, also those that have ended and were not reaped, and those of other users.
    all: usize,
    /// Those that got the signal.
    signalled: usize,
}

/// Processes that are none of the command's: their number and their start.
#[derive(Debug, Default)]
pub(crate) struct Others(HashMap<i32, u64>);

impl Others {
    /// All that are below this process now.
    ///
    /// # Errors
    ///
    /// The system's, where they can't be looked at.
    pub(crate) fn below_us() -> io::Result<Self> {
        let all = processes()?;
        let us = getpid().as_raw_pid();
        let below = all.iter().filter(|&(&number, _)| is_below(number, us, &Self::default(), &all));
        Ok(Self(below.map(|(&number, seen)| (number, seen.started)).collect()))
    }

    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    fn have(&self, number: i32, seen: Seen) -> bool {
        self.0.get(&number) == Some(&seen.started)
    }
}

/// Sends a signal to every process below `root`, also to those that left its group or session, but
/// not to `but` and those below them. Where `root` is a child subreaper, those whose parent has
/// ended are below it too.
///
/// Processes that are forked meanwhile are missed: [`kill_all_below`] repeats it.
///
/// # Errors
///
/// The system's, where they can't be looked at; nobody got the signal then.
pub(crate) fn signal_all_below(root: Pid, but: &Others, signal: Signal) -> io::Result<Found> {
    let all = processes()?;
    let mut found = Found::default();
    let below: HashSet<i32> = all
        .keys()
        .copied()
        .filter(|&number| is_below(number, root.as_raw_pid(), but, &all))
        .collect();
    if signal == Signal::KILL {
        kill_groups(&below, &all);
    }
    for number in &below {
        let seen = all[number];
        found.all += 1;
        found.signalled += usize::from(!seen.ended && signal_one(*number, seen, signal));
    }
    Ok(found)
}

/// Kills the process groups of the sessions that began below us. The kernel does that in one step,
/// so who forks itself away faster than anybody can look is caught too, also by what one that has
/// ended tells of its group.
///
/// A session is inherited, and left by beginning another: whoever is in one that is not ours, and
/// is below us, is there with descendants of ours only. Ours is 0 in a pid namespace that it began
/// outside of.
fn kill_groups(below: &HashSet<i32>, all: &HashMap<i32, Seen>) {
    let Some(us) = all.get(&getpid().as_raw_pid()) else { return };
    let theirs = below.iter().map(|number| all[number]);
    let groups: HashSet<i32> =
        theirs.filter(|seen| seen.session != us.session).map(|seen| seen.group).collect();
    for group in groups {
        // No other group has this number yet: all other numbers would have to be used first.
        if let Some(group) = Pid::from_raw(group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Kills every process below `root`, and again what those forked meanwhile, until none is found or
/// it is hopeless for now. Answers whether there may be anybody left, if only to be reaped.
pub(crate) fn kill_all_below(root: Pid, but: &Others) -> bool {
    const ROUNDS: usize = 20;
    kill_children(root, but);
    let mut found = Found::default();
    let mut in_vain = 0;
    for _ in 0..ROUNDS {
        // Who can't be looked at, as without a free descriptor, may be there.
        let Ok(now) = signal_all_below(root, but, Signal::KILL) else { return true };
        found = now;
        in_vain = if found.signalled == 0 { in_vain + 1 } else { 0 };
        // One that was there may have been gone, and its child not there yet, when it was looked
        // at.
        if found.all == 0 || in_vain == 2 {
            break;
        }
    }
    found.all > 0
}

/// Kills the children of `root`, a child subreaper, again and again until no new one comes: whoever
/// forks itself away, and be it into a new session each time, becomes one of them at each step, and
/// a look at them is much faster than one at all processes (`man 5 proc_pid_children`; not every
/// kernel has it). By number: our own are not reaped meanwhile, and of the supervisor's, which
/// reaps too, numbers do not come round in the moment since they were read.
fn kill_children(root: Pid, but: &Others) {
    const LONGEST: Duration = Duration::from_millis(30);
    const QUIET_AFTER: usize = 3;
    let list = format!("/proc/{root}/task/{root}/children", root = root.as_raw_pid());
    let begun = Instant::now();
    let (mut last, mut same) = (String::new(), 0);
    while same < QUIET_AFTER && begun.elapsed() < LONGEST {
        let Ok(children) = std::fs::read_to_string(&list) else { return };
        let numbers = children.split_ascii_whitespace().filter_map(|number| number.parse().ok());
        for number in numbers.filter(|number| !but.0.contains_key(number)) {
            if let Some(child) = Pid::from_raw(number) {
                let _ = kill_process(child, Signal::KILL);
            }
        }
        same = if children == last { same + 1 } else { 0 };
        last = children;
    }
}

/// Whether `/proc` shows this process and its relations: it may be missing, or that of another pid
/// namespace, with other numbers.
pub(crate) fn can_see_processes() -> bool {
    let us = getpid().as_raw_pid();
    let shown = std::fs::read_link("/proc/self").unwrap_or_default();
    shown.to_str() == Some(&us.to_string()) && matches!(look_at(us), Ok(Some(_)))
}

fn is_below(number: i32, root: i32, but: &Others, all: &HashMap<i32, Seen>) -> bool {
    let mut at = number;
    // Reads of `/proc` are not one snapshot: the bound stands against a ring.
    for _ in 0..all.len() {
        match all.get(&at) {
            Some(&seen) if but.have(at, seen) => return false,
            Some(seen) if seen.parent == root => return true,
            Some(seen) => at = seen.parent,
            None => return false,
        }
    }
    false
}

/// Answers whether it got the signal.
///
/// The descriptor is opened before the process is looked at again, so that the signal can't reach
/// another process that got the number meanwhile. Old kernels have none: then by number.
fn signal_one(number: i32, seen: Seen, signal: Signal) -> bool {
    let Some(pid) = Pid::from_raw(number) else { return false };
    let descriptor = pidfd_open(pid, PidfdFlags::empty());
    // It has ended: that is what is wanted. Or it can't be looked at now: it will be tried again.
    if !look_at(number).is_ok_and(|now| now.is_some_and(|now| now.started == seen.started)) {
        return false;
    }
    match descriptor {
        Ok(descriptor) => pidfd_send_signal(descriptor, signal).is_ok(),
        Err(_) => kill_process(pid, signal).is_ok(),
    }
}

fn processes() -> io::Result<HashMap<i32, Seen>> {
    let mut all = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(seen) = look_at(number)? {
            all.insert(number, seen);
        }
    }
    Ok(all)
}

/// `None` for a process that has ended, or whom `/proc` does not show us (`hidepid`).
fn look_at(number: i32) -> io::Result<Option<Seen>> {
    match std::fs::read(format!("/proc/{number}/stat")) {
        Ok(stat) => Ok(parse(&stat)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Reads `/proc/PID/stat` (`man 5 proc_pid_stat`): the second field, a name in parentheses, may
/// hold any bytes; the third is the state, the fourth the parent, the fifth the group, the sixth
/// the session, the 20th how many threads there are, the 22nd the start. A process whose first
/// thread has ended is shown as a zombie while its others run.
fn parse(stat: &[u8]) -> Option<Seen> {
    let behind_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[behind_name..]).ok()?;
    let mut rest = rest.split_ascii_whitespace();
    let first_has_ended = matches!(rest.next()?, "Z" | "X");
    let parent = rest.next()?.parse().ok()?;
    let group = rest.next()?.parse().ok()?;
    let session = rest.next()?.parse().ok()?;
    let threads: u32 = rest.nth(13)?.parse().ok()?;
    let started = rest.nth(1)?.parse().ok()?;
    Some(Seen { ended: first_has_ended && threads <= 1, parent, group, session, started })
}

#[cfg(test)]
mod tests {
    use super::{Others, Seen, is_below, parse, processes, signal_all_below};
    use rustix::process::{Pid, Signal};
    use std::collections::HashMap;
    use std::process::Command;

    #[test]
    fn a_name_of_any_bytes_does_not_shift_the_fields() {
        let stat = b"77 (a) 1 (b\xff) S 12 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 2 3";
        let seen = Seen { ended: false, parent: 12, group: 77, session: 77, started: 9876 };
        assert_eq!(parse(stat), Some(seen));
        assert_eq!(parse(b"77 (a"), None);
    }

    #[test]
    fn a_process_has_ended_when_all_its_threads_have() {
        let stat = |state, threads| {
            format!("7 (a) {state} 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 9 1 2")
        };
        let ended = |state, threads| parse(stat(state, threads).as_bytes()).unwrap().ended;
        assert!(ended("Z", 1) && ended("X", 0));
        assert!(!ended("Z", 2), "its first thread has ended, another runs");
        assert!(!ended("S", 1));
    }

    #[test]
    fn below_is_over_any_number_of_generations() {
        let seen = |parent| Seen { ended: false, parent, group: 1, session: 1, started: 0 };
        let all = HashMap::from([(2, seen(1)), (3, seen(2)), (4, seen(3)), (9, seen(1))]);
        let none = Others::default();
        assert!(is_below(4, 2, &none, &all) && is_below(3, 2, &none, &all));
        assert!(!is_below(2, 2, &none, &all) && !is_below(9, 2, &none, &all));
        let others = |started| Others(HashMap::from([(3, started)]));
        assert!(!is_below(4, 1, &others(0), &all) && is_below(9, 1, &others(0), &all));
        // Another process got the number.
        assert!(is_below(4, 1, &others(7), &all));
    }

    #[test]
    fn a_grandchild_is_signalled_too() {
        let mut shell = Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let root = Pid::from_child(&shell);
        let none = Others::default();
        let any_below = || {
            let all = processes().unwrap();
            all.keys().any(|&number| is_below(number, root.as_raw_pid(), &none, &all))
        };
        while !any_below() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // All below the shell: the sleep. Its end ends the wait, and so the shell.
        signal_all_below(root, &none, Signal::KILL).unwrap();
        assert!(shell.wait().unwrap().code().is_some(), "the shell itself got no signal");
    }
}
