//! The one task that gives back what nobody cared for in time, ends leases that came to no use, and
//! tells of sessions that ended.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{join, join_all};

use crate::driver::Core;
use crate::session;

const LOOKS_EVERY: Duration = Duration::from_millis(250);
const AT_ONCE: usize = 64;

/// Runs until the driver is dropped.
pub(crate) async fn run(core: Weak<Core>) {
    loop {
        tokio::time::sleep(LOOKS_EVERY).await;
        let Some(core) = core.upgrade() else { return };
        look(&core).await;
    }
}

async fn look(core: &Arc<Core>) {
    core.retire_ended();
    let left = core.standing.left_behind(AT_ONCE);
    // What fails is tried again in a while.
    let give_back = left.iter().map(|ticket| async {
        let _ = core.give_back(ticket, None).await;
        core.standing.was_reaped(ticket.owner);
    });
    let spares = core.spares.take();
    let end = spares.iter().map(|lease| async {
        if session::revoke(&core.link, lease.id).await.is_err() {
            core.spares.put_back(*lease);
        }
    });
    join(join_all(give_back), join_all(end)).await;
}
