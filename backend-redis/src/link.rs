//! The connection that carries all commands: opened once for all who ask, replaced when lost.
//!
//! `redis::aio::ConnectionManager` is close, but it can't be told to give up a connection that
//! swallows everything, has no generation to order requests by, retries a wrong password as often
//! as a refused connection, and fails the call that finds an idle connection closed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leasehold_api::{BootClock, Clock, Instant};
use redis::{RedisError, Value};
use tokio::sync::watch;

use crate::error::Failure;
use crate::opening::{Opening, Step};
use crate::options::Options;
use crate::scripts::Call;
use crate::trace::{self, Works};
use crate::wire::Wire;

/// How often a request is tried again that surely was not sent.
const RETRIES: usize = 2;

/// How to reach the server; checked, and with the files of TLS read.
pub(crate) struct Target {
    pub(crate) options: Options,
    /// `host:port`, for people.
    pub(crate) place: Arc<str>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::tls::Tls>,
}

impl Target {
    /// Checks the options and reads the files they name; nothing is sent.
    pub(crate) fn new(options: Options) -> Result<Self, leasehold_api::Error> {
        options.check()?;
        #[cfg(feature = "tls")]
        let tls = match &options.tls {
            Some(files) => Some(crate::tls::Tls::new(&options.host, files)?),
            None => None,
        };
        let place = options.place().into();
        Ok(Self {
            options,
            place,
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// A connection to it that could not be opened.
    pub(crate) fn unopened(&self, step: Step, source: RedisError) -> Failure {
        #[cfg(feature = "tls")]
        let step = if crate::tls::wants_certificate(&source) { Step::Certificate } else { step };
        Failure::Open(Opening::new(step, self, source))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

/// Between attempts to connect. Callers have a back-off of their own; this is for all together.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// The current connection, or the way to the next one.
#[derive(Debug, Clone)]
pub(crate) struct Link(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    target: Arc<Target>,
    state: Mutex<State>,
    generations: AtomicU64,
    works: Works,
}

#[derive(Debug)]
enum State {
    /// Not open; and when and why it could not be opened last.
    Down(Option<(Instant, Failure)>),
    Opening(watch::Receiver<Option<Opened>>),
    Up(Arc<Wire>),
}

type Opened = Result<Arc<Wire>, Failure>;

/// What a script answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// When it was sent.
    pub(crate) from: Instant,
    /// On which connection.
    pub(crate) generation: u64,
}

impl Link {
    pub(crate) fn new(target: Arc<Target>) -> Self {
        let state = Mutex::new(State::Down(None));
        let generations = AtomicU64::new(0);
        Self(Arc::new(Shared { target, state, generations, works: Works::default() }))
    }

    /// The connection, opened first if there is none that works.
    ///
    /// One attempt at a time, in a task of its own: who waits for it shares it, and who stops
    /// waiting doesn't stop it. It ends by the connect timeout.
    pub(crate) async fn wire(&self) -> Opened {
        loop {
            let mut opening = {
                let mut state = self.state();
                match &*state {
                    State::Up(wire) if !wire.is_lost() => return Ok(wire.clone()),
                    // Many who ask don't make many attempts.
                    State::Down(Some((at, failure)))
                        if BootClock.now().since(*at) < SHORTEST_PAUSE =>
                    {
                        return Err(failure.clone());
                    }
                    // A task that died with its runtime has closed its end.
                    State::Opening(opening) if opening.has_changed().is_ok() => opening.clone(),
                    _ => {
                        let opening = self.open();
                        *state = State::Opening(opening.clone());
                        opening
                    }
                }
            };
            if let Ok(opened) = opening.wait_for(Option::is_some).await {
                return opened.clone().expect("waited for some");
            }
            self.task_ended(&opening);
        }
    }

    /// Runs a script on the connection; `sending` hears on which.
    pub(crate) async fn script(
        &self,
        call: &Call,
        mut sending: impl FnMut(u64) + Send,
    ) -> Result<Answer, Failure> {
        let mut retries = RETRIES;
        loop {
            let wire = self.wire().await?;
            sending(wire.generation);
            match wire.script(call).await {
                // It had ended, which nobody had noticed yet.
                Err(Failure::Unsent(..)) if retries > 0 => retries -= 1,
                answer => return answer,
            }
        }
    }

    /// The task that was to connect ended without a word: with its runtime, or by a panic, as where
    /// no thread is left for the resolver. That counts as an attempt that failed, or many who ask
    /// would make another at once, and again.
    fn task_ended(&self, opening: &watch::Receiver<Option<Opened>>) {
        let mut state = self.state();
        if matches!(&*state, State::Opening(current) if current.same_channel(opening)) {
            let ended = std::io::Error::other("the task that connects has ended");
            let failure = self.0.target.unopened(Step::Dial, ended.into());
            *state = State::Down(Some((BootClock.now(), failure)));
        }
    }

    fn open(&self) -> watch::Receiver<Option<Opened>> {
        let (sender, receiver) = watch::channel(None);
        let link = self.clone();
        tokio::spawn(async move {
            let generation = link.0.generations.fetch_add(1, Ordering::Relaxed);
            let opened = Wire::open(&link.0.target, generation).await.map(Arc::new);
            let (options, works) = (&link.0.target.options, &link.0.works);
            match &opened {
                Ok(_) => trace::connected(options, generation, works),
                Err(failure) => trace::no_connection(options, generation, failure, works),
            }
            *link.state() = match &opened {
                Ok(wire) => State::Up(wire.clone()),
                Err(failure) => State::Down(Some((BootClock.now(), failure.clone()))),
            };
            sender.send_replace(Some(opened));
        });
        receiver
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, State, Target, watch};
    use crate::options::Options;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_task_that_ends_without_a_word_is_an_attempt_that_failed() {
        let target = Target::new(Options::new("127.0.0.1", 1)).unwrap();
        let link = Link::new(Arc::new(target));
        let (sender, receiver) = watch::channel(None);
        *link.state() = State::Opening(receiver);
        let waits = link.wire();
        let ends = async { drop(sender) };
        let (opened, ()) = tokio::join!(biased; waits, ends);
        assert!(opened.unwrap_err().may_pass());
        assert!(matches!(&*link.state(), State::Down(Some(_))), "it is not tried again at once");
    }
}
