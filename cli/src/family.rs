//! The processes below one process: who they are, and how they are ended.

use std::collections::HashMap;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// A process as `/proc` shows it. Number and start together are its identity: numbers are used
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    parent: i32,
    started: u64,
}

/// Sends a signal to every process below `root`, also to those that left its group or session.
/// Where `root` is a child subreaper, those whose parent has ended are below it too.
///
/// Processes that are forked meanwhile are missed: whoever wants an end to all repeats it until
/// none is left.
pub(crate) fn signal_all_below(root: Pid, signal: Signal) {
    let all = processes();
    for (&number, seen) in &all {
        if is_below(number, root.as_raw_pid(), &all) {
            signal_one(number, *seen, signal);
        }
    }
}

/// Whether the system shows this process's relations.
pub(crate) fn can_see_processes() -> bool {
    look_at(getpid().as_raw_pid()).is_some()
}

fn is_below(number: i32, root: i32, all: &HashMap<i32, Seen>) -> bool {
    let mut at = number;
    // Reads of `/proc` are not one snapshot: the bound stands against a ring.
    for _ in 0..all.len() {
        match all.get(&at) {
            Some(seen) if seen.parent == root => return true,
            Some(seen) => at = seen.parent,
            None => return false,
        }
    }
    false
}

/// The descriptor is opened before the process is looked at again, so that the signal can't reach
/// another process that got the number meanwhile.
fn signal_one(number: i32, seen: Seen, signal: Signal) {
    let Some(pid) = Pid::from_raw(number) else { return };
    if let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty())
        && look_at(number).is_some_and(|now| now.started == seen.started)
    {
        // It may have ended: that is what is wanted.
        let _ = pidfd_send_signal(descriptor, signal);
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
    parse(&std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?)
}

/// Reads `/proc/PID/stat` (`man 5 proc_pid_stat`): the second field, a name in parentheses, may
/// hold anything; the fourth is the parent, the 22nd the start.
fn parse(stat: &str) -> Option<Seen> {
    let mut rest = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    Some(Seen { parent: rest.nth(1)?.parse().ok()?, started: rest.nth(17)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::{Seen, is_below, parse, processes, signal_all_below};
    use rustix::process::{Pid, Signal};
    use std::collections::HashMap;
    use std::process::Command;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = "77 (a) 1 (b) S 12 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 2 3";
        assert_eq!(parse(stat), Some(Seen { parent: 12, started: 9876 }));
        assert_eq!(parse("77 (a"), None);
    }

    #[test]
    fn below_is_over_any_number_of_generations() {
        let seen = |parent| Seen { parent, started: 0 };
        let all = HashMap::from([(2, seen(1)), (3, seen(2)), (4, seen(3)), (9, seen(1))]);
        assert!(is_below(4, 2, &all) && is_below(3, 2, &all));
        assert!(!is_below(2, 2, &all) && !is_below(9, 2, &all));
    }

    #[test]
    fn a_grandchild_is_signalled_too() {
        let mut shell = Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let root = Pid::from_child(&shell);
        let any_below =
            || processes().keys().any(|&number| is_below(number, root.as_raw_pid(), &processes()));
        while !any_below() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // All below the shell: the sleep. Its end ends the wait, and so the shell.
        signal_all_below(root, Signal::KILL);
        assert!(shell.wait().unwrap().code().is_some(), "the shell itself got no signal");
    }
}
