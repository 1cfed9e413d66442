//! The processes below one process: who they are, and how they are ended.

use std::collections::HashMap;

use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

/// A process as `/proc` shows it. Number and start together are its identity: numbers are used
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// It has ended, and was not reaped.
    ended: bool,
    parent: i32,
    started: u64,
}

/// Who was found below a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// All, also those that have ended and were not reaped, and those of other users.
    pub(crate) all: usize,
    /// Those that got the signal.
    pub(crate) signalled: usize,
}

/// Sends a signal to every process below `root`, also to those that left its group or session, but
/// not to those below `but`. Where `root` is a child subreaper, those whose parent has ended are
/// below it too.
///
/// Processes that are forked meanwhile are missed: [`kill_all_below`] repeats it.
pub(crate) fn signal_all_below(root: Pid, but: &[i32], signal: Signal) -> Found {
    let all = processes();
    let mut found = Found::default();
    for (&number, seen) in &all {
        if is_below(number, root.as_raw_pid(), but, &all) {
            found.all += 1;
            found.signalled += usize::from(!seen.ended && signal_one(number, *seen, signal));
        }
    }
    found
}

/// Kills every process below `root`, and again what those forked meanwhile, until none is found or
/// it is hopeless for now. Answers whether there is anybody left, if only to be reaped.
pub(crate) fn kill_all_below(root: Pid, but: &[i32]) -> bool {
    const ROUNDS: usize = 20;
    let mut found = Found::default();
    for _ in 0..ROUNDS {
        found = signal_all_below(root, but, Signal::KILL);
        if found.signalled == 0 {
            break;
        }
    }
    found.all > 0
}

/// The children of this process.
pub(crate) fn children() -> Vec<i32> {
    let us = getpid().as_raw_pid();
    processes().iter().filter(|(_, seen)| seen.parent == us).map(|(&number, _)| number).collect()
}

/// Whether `/proc` shows this process and its relations: it may be missing, or that of another pid
/// namespace, with other numbers.
pub(crate) fn can_see_processes() -> bool {
    let us = getpid().as_raw_pid();
    let shown = std::fs::read_link("/proc/self").unwrap_or_default();
    shown.to_str() == Some(&us.to_string()) && look_at(us).is_some()
}

fn is_below(number: i32, root: i32, but: &[i32], all: &HashMap<i32, Seen>) -> bool {
    let mut at = number;
    // Reads of `/proc` are not one snapshot: the bound stands against a ring.
    for _ in 0..all.len() {
        match all.get(&at) {
            _ if but.contains(&at) => return false,
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
/// another process that got the number meanwhile. Old kernels have none, and what is short of
/// descriptors can't open one: then by number.
fn signal_one(number: i32, seen: Seen, signal: Signal) -> bool {
    let Some(pid) = Pid::from_raw(number) else { return false };
    let descriptor = pidfd_open(pid, PidfdFlags::empty());
    if look_at(number).is_none_or(|now| now.started != seen.started) {
        return false; // it has ended: that is what is wanted
    }
    match descriptor {
        Ok(descriptor) => pidfd_send_signal(descriptor, signal).is_ok(),
        Err(_) => kill_process(pid, signal).is_ok(),
    }
}

fn processes() -> HashMap<i32, Seen> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|number| Some((number, look_at(number)?)))
        .collect()
}

fn look_at(number: i32) -> Option<Seen> {
    parse(&std::fs::read(format!("/proc/{number}/stat")).ok()?)
}

/// Reads `/proc/PID/stat` (`man 5 proc_pid_stat`): the second field, a name in parentheses, may
/// hold any bytes; the third is the state, the fourth the parent, the 22nd the start.
fn parse(stat: &[u8]) -> Option<Seen> {
    let behind_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[behind_name..]).ok()?;
    let mut rest = rest.split_ascii_whitespace();
    Some(Seen {
        ended: matches!(rest.next()?, "Z" | "X"),
        parent: rest.next()?.parse().ok()?,
        started: rest.nth(17)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Seen, is_below, parse, processes, signal_all_below};
    use rustix::process::{Pid, Signal};
    use std::collections::HashMap;
    use std::process::Command;

    #[test]
    fn a_name_of_any_bytes_does_not_shift_the_fields() {
        let stat = b"77 (a) 1 (b\xff) S 12 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 2 3";
        assert_eq!(parse(stat), Some(Seen { ended: false, parent: 12, started: 9876 }));
        assert_eq!(parse(b"77 (a"), None);
    }

    #[test]
    fn below_is_over_any_number_of_generations() {
        let seen = |parent| Seen { ended: false, parent, started: 0 };
        let all = HashMap::from([(2, seen(1)), (3, seen(2)), (4, seen(3)), (9, seen(1))]);
        assert!(is_below(4, 2, &[], &all) && is_below(3, 2, &[], &all));
        assert!(!is_below(2, 2, &[], &all) && !is_below(9, 2, &[], &all));
        assert!(!is_below(4, 1, &[3], &all) && is_below(9, 1, &[3], &all));
    }

    #[test]
    fn a_grandchild_is_signalled_too() {
        let mut shell = Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let root = Pid::from_child(&shell);
        let any_below = || {
            processes().keys().any(|&number| is_below(number, root.as_raw_pid(), &[], &processes()))
        };
        while !any_below() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // All below the shell: the sleep. Its end ends the wait, and so the shell.
        signal_all_below(root, &[], Signal::KILL);
        assert!(shell.wait().unwrap().code().is_some(), "the shell itself got no signal");
    }
}
