//! A guard and a client in a forked child: they refuse, and leave the parent's lease alone.
#![cfg(unix)]

use std::sync::Arc;

use leasehold::{ErrorKind, Locks};
use leasehold_memory::Memory;

#[test]
fn a_forked_child_refuses_and_leaves_the_lease_to_the_parent() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locks = runtime.block_on(async { Locks::with_backend(Arc::new(Memory::new())) });
    let guard = runtime.block_on(locks.lock("n").unwrap().acquire()).unwrap();
    let dropped_in_child = runtime.block_on(locks.lock("m").unwrap().acquire()).unwrap();
    let lock = locks.lock("n").unwrap();
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            let forked = |result: Result<(), leasehold::Error>| {
                result.is_err_and(|error| error.kind() == ErrorKind::Forked)
            };
            let refuses = !guard.is_held()
                && guard.remaining().is_zero()
                && forked(guard.token().map(drop))
                && forked(locks.lock("n").map(drop))
                && forked(runtime.block_on(lock.try_acquire()).map(drop))
                && forked(runtime.block_on(lock.acquire()).map(drop))
                && forked(runtime.block_on(guard.run(async {})))
                && forked(runtime.block_on(guard.release()))
                && forked(runtime.block_on(locks.close()));
            drop(dropped_in_child);
            std::process::exit(if refuses { 0 } else { 1 });
        }
        fork::Fork::Parent(child) => {
            let status = fork::waitpid(child).unwrap();
            assert!(fork::WIFEXITED(status) && fork::WEXITSTATUS(status) == 0, "{status}");
        }
    }
    assert!(guard.is_held() && dropped_in_child.is_held());
    runtime.block_on(guard.release()).unwrap();
}
