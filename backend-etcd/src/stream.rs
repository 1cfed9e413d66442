//! The one watch stream of a client: over the lines that it waits in, and over the keys it holds.
//!
//! ```text
//!   nothing to watch ---> [ closed ] <--- ended, went silent, or requests go to another member
//!        ^                    | somebody waits, or holds for half a second
//!        | all idle           v
//!        +--------------- [ open ]: each line from now on, each held key from its grant on
//! ```
//!
//! The client library opens no stream again by itself, so this does. A stream that ends breaks all
//! lines: their waiters look for themselves.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    EventType, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream,
};
use leasehold_api::{BootClock, Clock, Instant, LockName, Loss, Owner};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::error::Failure;
use crate::holdings::Holding;
use crate::line::{Event, Watched, What};
use crate::link::Wire;
use crate::targets::{FIRST, Target, Targets};
use crate::trace;
use crate::watch::Shared;

const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How often idle lines are looked for.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// A stream that is open.
struct Stream {
    ask: mpsc::UnboundedSender<Ask>,
    targets: Targets,
}

/// What is asked of the server on a stream.
enum Ask {
    Watch(String, WatchOptions),
    Cancel(i64),
}

impl Stream {
    /// Whoever sends it ends with the stream, so it is sent or not needed.
    fn ask(&self, ask: Ask) {
        let _ = self.ask.send(ask);
    }
}

/// Sends what is asked for, while what is told is read: a server that has much to tell and is not
/// heard reads nothing either, and both would wait for ever.
async fn send(
    mut to: WatchRequestSender,
    mut asked: mpsc::UnboundedReceiver<Ask>,
) -> Result<(), Failure> {
    while let Some(ask) = asked.recv().await {
        match ask {
            Ask::Watch(key, options) => to.watch(key, Some(options)).await?,
            Ask::Cancel(id) => to.cancel(id).await?,
        }
    }
    Ok(())
}

impl Shared {
    /// Keeps the stream open for as long as there is something to watch.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut pause = BACK_OFF.0;
        loop {
            self.something_to_watch().await;
            let began = BootClock.now();
            let ended = self.one_stream().await;
            self.breaks();
            let place = self.link.options().place();
            trace::watch_ended(&place, ended.as_ref().err());
            if ended.is_ok() || BootClock.now().since(began) > BACK_OFF.1 {
                pause = BACK_OFF.0;
            }
            if ended.is_err() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BACK_OFF.1);
            }
        }
    }

    async fn something_to_watch(&self) {
        loop {
            let (due, next) = {
                let mut lines = self.lines();
                let now = BootClock.now();
                lines.retain(|_, line| !line.is_idle(now));
                let idle = lines.is_empty();
                // What is due stays due: it is taken when the stream is open.
                let (due, next) = self.holdings.peek_due(now);
                (due || !idle, next)
            };
            if due {
                return;
            }
            let wanted = self.wanted.notified();
            match next {
                None => wanted.await,
                Some(at) => tokio::select! {
                    () = wanted => {}
                    () = BootClock.sleep_until(at) => {}
                },
            }
        }
    }

    /// Opens a stream and serves it until it ends, or requests go another way.
    async fn one_stream(&self) -> Result<(), Failure> {
        let mut generations = self.link.generations();
        let wire = self.link.wire().await?;
        if *generations.borrow_and_update() != wire.generation {
            return Ok(()); // they did meanwhile
        }
        let ended = self.stream_over(&wire, &mut generations).await;
        match &ended {
            // An open stream keeps the token that it was opened with, and the next one takes what
            // the client has then, which nobody else may have renewed.
            Err(failure) if failure.is_auth() => self.link.new_token(&wire).await?,
            // Who only waits or holds asks for nothing else that would find this out.
            Err(failure) if failure.is_members() => self.link.leave(&wire),
            _ => {}
        }
        ended
    }

    async fn stream_over(
        &self,
        wire: &Wire,
        generations: &mut watch::Receiver<u64>,
    ) -> Result<(), Failure> {
        let mut client = wire.client.watch_client();
        let limit = self.link.options().timeout;
        // A stream begins with a watch: one over a key that nobody writes.
        let opened =
            client.watch(self.keys.nothing(), Some(WatchOptions::new().with_watch_id(FIRST)));
        let opened = timeout(limit, opened).await.map_err(|_| Failure::Silent(limit))?;
        let (sender, mut answers) = opened?.split();
        self.cancelled().clear();
        let (ask, asked) = mpsc::unbounded_channel();
        let mut stream = Stream { ask, targets: Targets::default() };
        trace::watching(&self.link.options().place(), wire.generation);
        tokio::select! {
            biased;
            served = self.serve(&mut stream, &mut answers, generations) => served,
            sent = send(sender, asked) => sent,
        }
    }

    async fn serve(
        &self,
        stream: &mut Stream,
        answers: &mut WatchResponseStream,
        generations: &mut watch::Receiver<u64>,
    ) -> Result<(), Failure> {
        let mut tidy = tokio::time::interval(TIDY_EVERY);
        loop {
            self.ask_for_lines(stream);
            self.cancel(stream);
            let next = self.ask_for_keys(stream);
            let due = async {
                match next {
                    Some(at) => BootClock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = answers.message() => match answer? {
                    Some(answer) => self.told(stream, &answer).await?,
                    None => return Err(Failure::Answer("the watch stream ended")),
                },
                // Requests go to another member: this one may be silent for ever.
                _ = generations.changed() => return Ok(()),
                () = self.wanted.notified() => {}
                () = due => {}
                _ = tidy.tick() => {
                    if self.tidy(stream) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Each line that is not watched: from now on.
    ///
    /// Without a start revision, or the server would look for old events in turns of 100 ms.
    fn ask_for_lines(&self, stream: &mut Stream) {
        let fresh = std::mem::take(&mut *self.fresh());
        if fresh.is_empty() {
            return;
        }
        let mut lines = self.lines();
        for name in fresh {
            let Some(line) = lines.get_mut(&name) else { continue };
            if *line.watched.borrow() == Watched::No {
                let id = stream.targets.add(&self.numbers, Target::Line(name.clone()));
                line.watched.send_replace(Watched::Asked(id));
                let options = WatchOptions::new().with_watch_id(id).with_prefix();
                stream.ask(Ask::Watch(self.keys.line(&name), options));
            }
        }
    }

    /// Each key that was held long enough: from its grant on.
    fn ask_for_keys(&self, stream: &mut Stream) -> Option<Instant> {
        let (due, next) = self.holdings.take_due(BootClock.now());
        for (owner, holding) in due {
            self.ask_for_key(stream, owner, &holding, holding.since);
        }
        next
    }

    fn ask_for_key(&self, stream: &mut Stream, owner: Owner, holding: &Holding, since: i64) {
        let id = stream.targets.add(&self.numbers, Target::Key(owner));
        if !self.holdings.asked(owner, id, since) {
            stream.targets.remove(id); // it was released meanwhile
            return;
        }
        let options = WatchOptions::new().with_watch_id(id).with_start_revision(since + 1);
        stream.ask(Ask::Watch(self.keys.place(&holding.name, owner), options));
    }

    fn cancel(&self, stream: &mut Stream) {
        let cancelled = std::mem::take(&mut *self.cancelled());
        for id in cancelled {
            if stream.targets.remove(id) {
                stream.ask(Ask::Cancel(id));
            }
        }
    }

    /// Gives up what nobody waits for; says whether nothing is left to watch.
    fn tidy(&self, stream: &mut Stream) -> bool {
        let now = BootClock.now();
        let mut idle = Vec::new();
        let nothing_left = {
            let mut lines = self.lines();
            lines.retain(|_, line| {
                let is_idle = line.is_idle(now);
                if is_idle && let Watched::Asked(id) | Watched::Yes(id) = *line.watched.borrow() {
                    idle.push(id);
                }
                !is_idle
            });
            lines.is_empty() && self.holdings.is_empty()
        };
        self.cancelled().extend(idle);
        self.cancel(stream);
        nothing_left
    }

    /// The server says something of a watch.
    async fn told(&self, stream: &mut Stream, answer: &WatchResponse) -> Result<(), Failure> {
        let id = answer.watch_id();
        if answer.created() && answer.canceled() {
            return Err(Failure::refused_watch(answer.cancel_reason()));
        }
        let Some(target) = stream.targets.get(id).cloned() else { return Ok(()) };
        if answer.canceled() {
            stream.targets.remove(id);
            return match target {
                // It fell behind what was compacted.
                Target::Line(name) => {
                    if let Some(line) = self.lines().get_mut(&name) {
                        line.breaks();
                        self.fresh().push(name);
                    }
                    Ok(())
                }
                Target::Key(owner) => self.look_at_key(stream, owner, id).await,
            };
        }
        match target {
            Target::Line(name) => self.told_of_line(&name, id, answer),
            Target::Key(owner) => self.told_of_key(owner, id, answer),
        }
        Ok(())
    }

    fn told_of_line(&self, name: &LockName, id: i64, answer: &WatchResponse) {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(name) else { return };
        if answer.created() {
            line.watched.send_if_modified(|watched| {
                let mine = *watched == Watched::Asked(id);
                if mine {
                    *watched = Watched::Yes(id);
                }
                mine
            });
        }
        let key_begins = self.keys.line(name).len();
        for event in answer.events() {
            let Some(kv) = event.kv() else { continue };
            let what = match event.event_type() {
                EventType::Delete => What::Deleted,
                // A new key is behind all there are.
                EventType::Put if kv.version() == 1 => continue,
                EventType::Put => What::Changed,
            };
            let place = kv.key().get(key_begins..).unwrap_or_default().into();
            line.sees(&Event { revision: kv.mod_revision(), place, what });
        }
    }

    fn told_of_key(&self, owner: Owner, id: i64, answer: &WatchResponse) {
        if answer.created() {
            self.holdings.opened(owner, id);
        }
        for event in answer.events() {
            let loss = match event.event_type() {
                EventType::Delete => Loss::Gone,
                EventType::Put => Loss::TakenOver,
            };
            if self.holdings.lose_by(owner, id, loss) {
                self.tells(owner, loss);
            }
        }
    }

    /// What happened to a key since its grant has been compacted: whether it still stands as it
    /// was written tells the same.
    async fn look_at_key(&self, stream: &mut Stream, owner: Owner, id: i64) -> Result<(), Failure> {
        let Some(holding) = self.holdings.under(owner, id) else { return Ok(()) };
        let key = self.keys.place(&holding.name, owner);
        let found = self
            .link
            .call(Duration::from_secs(1), |client| {
                let (mut kv, key) = (client.kv_client(), key.as_str());
                async move { kv.get(key, None).await }
            })
            .await?;
        let loss = match found.kvs().first() {
            None => Loss::Gone,
            Some(kv) if kv.mod_revision() != holding.created => Loss::TakenOver,
            Some(_) => {
                let revision = found.header().map_or(holding.since, |header| header.revision());
                self.ask_for_key(stream, owner, &holding, revision);
                return Ok(());
            }
        };
        if self.holdings.lose_by(owner, id, loss) {
            self.tells(owner, loss);
        }
        Ok(())
    }
}
