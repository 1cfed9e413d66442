//! What a client waits for and what it holds, and what it is told of that (`stream.rs` tells).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leasehold_api::{LockName, Loss, LossTeller, Losses, Owner};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::holdings::{Holding, Holdings};
use crate::keys::Keys;
use crate::line::{First, Line, Mine, Place, Watched};
use crate::link::Link;
use crate::targets::Numbers;

/// What a client waits for and holds, and the task that watches it.
#[derive(Debug)]
pub(crate) struct Watches {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the task shares with those who ask.
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) keys: Arc<Keys>,
    lines: Mutex<HashMap<LockName, Line>>,
    /// Lines that are not watched yet.
    fresh: Mutex<Vec<LockName>>,
    pub(crate) holdings: Arc<Holdings>,
    /// Watches that nobody needs any more.
    cancelled: Mutex<Vec<i64>>,
    /// There is something to watch, or to watch no more.
    pub(crate) wanted: Notify,
    lost: LossTeller,
    pub(crate) numbers: Numbers,
}

impl Watches {
    pub(crate) fn new(link: Link, keys: Arc<Keys>, holdings: Arc<Holdings>) -> Self {
        let (lines, fresh, cancelled) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (wanted, lost, numbers) = (Notify::new(), LossTeller::default(), Numbers::default());
        let shared =
            Shared { link, keys, lines, fresh, holdings, cancelled, wanted, lost, numbers };
        Self { shared: Arc::new(shared), task: Mutex::default() }
    }

    /// Opens a slot, once the line is watched, for which it waits at most `patience`. A watch that
    /// opens later is no error: until then the slot is woken by time.
    pub(crate) async fn open(&self, name: &LockName, owner: Owner, patience: Duration) {
        let mut watched = {
            let mut lines = self.shared.lines();
            let line = lines.entry(name.clone()).or_insert_with(Line::new);
            // A slot keeps the line; what it knows is put aside once the watch is there.
            line.open(owner);
            line.watched.subscribe()
        };
        let is_watched = |watched: &Watched| matches!(watched, Watched::Yes(_));
        if !is_watched(&watched.borrow()) {
            self.shared.fresh().push(name.clone());
            self.shared.wanted.notify_one();
            let open = watched.wait_for(is_watched);
            let _ = timeout(patience, open).await;
            if let Some(line) = self.shared.lines().get_mut(name) {
                line.open_again(owner);
            }
        }
    }

    /// Whether the line is watched by now.
    pub(crate) fn is_watched(&self, name: &LockName) -> bool {
        let lines = self.shared.lines();
        lines.get(name).is_some_and(|line| matches!(*line.watched.borrow(), Watched::Yes(_)))
    }

    /// Opens a slot without waiting for anything; the line must be watched for it to be woken.
    pub(crate) fn open_now(&self, name: &LockName, owner: Owner) {
        self.shared.lines().entry(name.clone()).or_insert_with(Line::new).open(owner);
    }

    /// Closes a slot; says whether there was one.
    pub(crate) fn close(&self, name: &LockName, owner: Owner) -> bool {
        self.shared.lines().get_mut(name).is_some_and(|line| line.close(owner))
    }

    /// The claim stands in the store behind these.
    pub(crate) fn entered(
        &self,
        name: &LockName,
        owner: Owner,
        mine: Mine,
        before: impl IntoIterator<Item = Place>,
        revision: i64,
    ) {
        if let Some(line) = self.shared.lines().get_mut(name) {
            line.entered(owner, mine, before.into_iter().collect(), revision);
        }
    }

    /// Whether the claim is known to hold the name.
    pub(crate) fn first(&self, name: &LockName, owner: Owner) -> Option<First> {
        self.shared.lines().get(name)?.first(owner)
    }

    /// The claim's key in the queue, as far as it is known.
    pub(crate) fn mine(&self, name: &LockName, owner: Owner) -> Option<Mine> {
        self.shared.lines().get(name)?.mine(owner).cloned()
    }

    /// Ends once the slot was woken, also if that was before; never if there is no slot.
    pub(crate) async fn woken(&self, name: &LockName, owner: Owner) {
        let woken = self.shared.lines().get(name).and_then(|line| line.woken(owner));
        match woken {
            Some(woken) => woken.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Notes a grant, whose key comes under a watch if it is held for a while.
    pub(crate) fn holds(&self, owner: Owner, holding: Holding) {
        let (first, not_needed) = self.shared.holdings.add(owner, holding);
        self.shared.cancelled().extend(not_needed);
        if first || not_needed.is_some() {
            self.shared.wanted.notify_one();
        }
    }

    /// Forgets a lock that is held no more.
    pub(crate) fn forgets(&self, owner: Owner) {
        if let Some(id) = self.shared.holdings.remove(owner) {
            self.shared.cancelled().push(id);
            self.shared.wanted.notify_one();
        }
    }

    /// Tells a loss.
    pub(crate) fn tells(&self, owner: Owner, loss: Loss) {
        self.shared.tells(owner, loss);
    }

    /// Listens for the losses that are seen from now on.
    pub(crate) fn losses(&self) -> Box<dyn Losses> {
        self.shared.lost.listen()
    }

    /// Sees that the task runs: it may have ended with the runtime it ran on.
    pub(crate) fn run(&self) {
        let mut task = self.task.lock().expect("nothing panics while it holds this lock");
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            if task.is_some() {
                self.shared.breaks();
            }
            *task = Some(tokio::spawn(self.shared.clone().watch()));
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().expect("nothing panics under this lock").take() {
            task.abort();
        }
    }
}

impl Shared {
    /// Tells a loss.
    pub(crate) fn tells(&self, owner: Owner, loss: Loss) {
        self.lost.tell(owner, loss);
    }

    /// The stream has ended: nothing is watched.
    pub(crate) fn breaks(&self) {
        let mut lines = self.lines();
        for line in lines.values_mut() {
            line.breaks();
        }
        *self.fresh() = lines.keys().cloned().collect();
        drop(lines);
        self.holdings.break_watches();
    }

    pub(crate) fn lines(&self) -> MutexGuard<'_, HashMap<LockName, Line>> {
        self.lines.lock().expect("nothing panics while it holds this lock")
    }

    pub(crate) fn fresh(&self) -> MutexGuard<'_, Vec<LockName>> {
        self.fresh.lock().expect("nothing panics while it holds this lock")
    }

    pub(crate) fn cancelled(&self) -> MutexGuard<'_, Vec<i64>> {
        self.cancelled.lock().expect("nothing panics while it holds this lock")
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches").field("link", &self.link).finish_non_exhaustive()
    }
}
