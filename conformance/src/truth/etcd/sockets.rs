//! Connections, which etcd does not count.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use super::EtcdTruth;

/// A connection that is up, in the kernel's list.
const ESTABLISHED: &str = "01";

impl EtcdTruth {
    /// How many connections this process has open to the servers: a driver's in the same process,
    /// or those of a proxy in it. On Linux.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn connections(&self) -> io::Result<usize> {
        let mut ours = BTreeSet::new();
        for entry in fs::read_dir("/proc/self/fd")? {
            // One may be closed meanwhile.
            if let Ok(target) = fs::read_link(entry?.path()) {
                ours.insert(target.to_string_lossy().into_owned());
            }
        }
        let mut count = 0;
        for list in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
            // A machine may be without the second.
            let Ok(list) = fs::read_to_string(list) else { continue };
            let fields = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            count += fields
                .filter(|fields| {
                    let [_, _, remote, ESTABLISHED, _, _, _, _, _, inode, ..] = fields[..] else {
                        return false;
                    };
                    self.is_a_member(remote) && ours.contains(&format!("socket:[{inode}]"))
                })
                .count();
        }
        Ok(count)
    }

    fn is_a_member(&self, remote: &str) -> bool {
        let port = remote.rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
        self.members.iter().any(|member| Some(member.address().port()) == port)
    }
}
