//! How a waiter learns that it is its turn: slots, and the one subscription that fills them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leasehold_api::Owner;
use redis::{ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, Value};
use secrecy::ExposeSecret;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::error::Failure;
use crate::link::Target;
use crate::opening::Step;
use crate::trace::{self, Works};
use crate::wire::{CLIENT_NAME, Socket, by, open};

/// How often a subscription that somebody waits on is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(5);
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The waiters of this process, and their subscription.
#[derive(Debug)]
pub(crate) struct Wakes {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    target: Arc<Target>,
    channel: String,
    slots: Mutex<HashMap<Owner, Arc<Slot>>>,
    opened: Notify,
    subscribed: watch::Sender<Subscribed>,
}

#[derive(Debug, Default)]
struct Slot {
    woken: Notify,
    /// Its claim has not looked at the store yet, so it can't have missed anything.
    before_look: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscribed {
    NotYet,
    Yes,
    Failed,
}

impl Wakes {
    /// Waiters that hear `channel`. Nothing is opened before somebody waits.
    pub(crate) fn new(target: Arc<Target>, channel: String) -> Self {
        let subscribed = watch::Sender::new(Subscribed::NotYet);
        let (slots, opened) = (Mutex::default(), Notify::new());
        let shared = Arc::new(Shared { target, channel, slots, opened, subscribed });
        Self { shared, task: Mutex::new(None) }
    }

    /// Opens a slot and sees that there is a subscription, for which it waits at most `patience`.
    ///
    /// Waiting spares a look at the store and no more: a subscription that comes later wakes
    /// everybody, so nothing that was missed before it stays missed.
    pub(crate) async fn open(&self, owner: Owner, patience: Duration) {
        let slot = self.shared.slots().entry(owner).or_default().clone();
        slot.before_look.store(true, Ordering::SeqCst);
        self.shared.opened.notify_one();
        self.run();
        if *self.shared.subscribed.borrow() == Subscribed::NotYet {
            let mut subscribed = self.shared.subscribed.subscribe();
            let known = subscribed.wait_for(|subscribed| *subscribed != Subscribed::NotYet);
            let _ = tokio::time::timeout(patience, known).await;
        }
        slot.before_look.store(false, Ordering::SeqCst);
    }

    pub(crate) fn has(&self, owner: Owner) -> bool {
        self.shared.slots().contains_key(&owner)
    }

    /// Closes a slot; says whether there was one.
    pub(crate) fn close(&self, owner: Owner) -> bool {
        self.shared.slots().remove(&owner).is_some()
    }

    /// Ends once the slot was woken, also if that was before; never if there is no slot.
    pub(crate) async fn woken(&self, owner: Owner) {
        let slot = self.shared.slots().get(&owner).cloned();
        match slot {
            Some(slot) => slot.woken.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Sees that the subscription's task runs: it may have ended with the runtime it ran on.
    fn run(&self) {
        let mut task = self.task();
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            self.shared.subscribed.send_replace(Subscribed::NotYet);
            *task = Some(tokio::spawn(self.shared.clone().listen()));
        }
    }

    fn task(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.task.lock().expect("nothing panics while it holds this lock")
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        if let Some(task) = self.task().take() {
            task.abort();
        }
    }
}

impl Shared {
    /// Keeps the subscription open for as long as somebody waits.
    async fn listen(self: Arc<Self>) {
        let mut pause = BACK_OFF.0;
        let (options, works) = (&self.target.options, Works::default());
        loop {
            match self.subscribe().await {
                Ok(socket) => {
                    let opened = tokio::time::Instant::now();
                    self.wake_all(); // before `Yes` lets those look who waited for it
                    self.subscribed.send_replace(Subscribed::Yes);
                    trace::subscribed(options, &works);
                    self.end_of(socket).await;
                    self.subscribed.send_replace(Subscribed::NotYet);
                    trace::unsubscribed(options);
                    if opened.elapsed() > BACK_OFF.1 {
                        pause = BACK_OFF.0;
                    } else {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(BACK_OFF.1);
                    }
                }
                Err(failure) => {
                    self.subscribed.send_replace(Subscribed::Failed);
                    trace::no_subscription(options, &failure, &works);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BACK_OFF.1);
                }
            }
            while self.slots().is_empty() {
                self.opened.notified().await;
            }
        }
    }

    async fn subscribe(self: &Arc<Self>) -> Result<Socket, Failure> {
        let options = &self.target.options;
        let mut info = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_skip_set_lib_name();
        if let Some(password) = &options.password {
            info = info.set_password(password.expose_secret());
        }
        if let Some(user) = &options.user {
            info = info.set_username(user);
        }
        let listener = Arc::downgrade(self);
        let pushes = Box::new(move |push: PushInfo| {
            if let Some(shared) = listener.upgrade() {
                shared.hear(&push);
            }
        });
        let until = tokio::time::Instant::now() + options.connect_timeout;
        let mut socket = open(&self.target, &info, Some(pushes), until).await?;
        let subscribing = async {
            let name = redis::cmd("CLIENT").arg("SETNAME").arg(CLIENT_NAME).take();
            socket.connection.send_packed_command(&name).await?;
            socket.connection.subscribe(&self.channel).await
        };
        let subscribed = by(until, subscribing).await;
        subscribed.map_err(|source| self.target.unopened(Step::Greet, source))?;
        Ok(socket)
    }

    /// Ends when the subscription does, or when it no longer answers.
    async fn end_of(&self, mut socket: Socket) {
        loop {
            tokio::select! {
                () = socket.task.ended() => return,
                () = tokio::time::sleep(PING_EVERY) => {}
            }
            if self.slots().is_empty() {
                continue;
            }
            let ping = redis::cmd("PING");
            let answer = socket.connection.send_packed_command(&ping);
            if by(tokio::time::Instant::now() + self.target.options.timeout, answer).await.is_err()
            {
                return;
            }
        }
    }

    fn hear(&self, push: &PushInfo) {
        let (PushKind::Message, [_, Value::BulkString(owner)]) = (&push.kind, &*push.data) else {
            return;
        };
        let owner = std::str::from_utf8(owner).ok().and_then(|owner| owner.parse().ok());
        if let Some(slot) = owner.and_then(|owner: Owner| self.slots().get(&owner).cloned()) {
            slot.woken.notify_one();
        }
    }

    /// Messages may have been lost before the subscription: who has looked by then looks again.
    fn wake_all(&self) {
        for slot in self.slots().values() {
            if !slot.before_look.load(Ordering::SeqCst) {
                slot.woken.notify_one();
            }
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Owner, Arc<Slot>>> {
        self.slots.lock().expect("nothing panics while it holds this lock")
    }
}
