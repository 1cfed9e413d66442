//! Loopback ports that stay ours while a server is down.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Below the range from which systems take the local ports of outgoing connections: else one of
/// those could sit on a server's port while it restarts.
const RANGE: Range<u16> = 15_000..32_000;

/// A free port on 127.0.0.1 that no other test process picks until this is dropped.
///
/// A lock on a file keeps it; the kernel frees that also when this process is killed.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Picks a free port.
    ///
    /// # Errors
    ///
    /// If the lock files cannot be made, or every port is taken.
    pub(crate) fn reserve() -> io::Result<Self> {
        // Of this user: another user's files could not be opened.
        let user = rustix::process::getuid().as_raw();
        let directory = std::env::temp_dir().join(format!("leasehold-ports-{user}"));
        fs::create_dir_all(&directory)?;
        let first = RandomState::new().build_hasher().finish() as usize % RANGE.len();
        for number in round(RANGE, first) {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(directory.join(number.to_string()))?;
            let ours = file.try_lock().is_ok();
            if ours && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: file });
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port"))
    }

    /// Its number.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// The range from its `first` element on, once round.
fn round(range: Range<u16>, first: usize) -> impl Iterator<Item = u16> {
    range.clone().skip(first).chain(range.take(first))
}

#[cfg(test)]
mod tests {
    use super::{Port, round};

    #[test]
    fn a_reserved_port_is_not_given_twice() {
        let ports: Vec<_> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<_> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
    }

    #[test]
    fn the_search_starts_anywhere_and_sees_each_port_once() {
        assert_eq!(round(3..8, 2).collect::<Vec<_>>(), [5, 6, 7, 3, 4]);
    }
}
