//! What becomes of which messages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::message::Message;
use super::state::{Fired, Shared};

/// What becomes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// It goes on.
    #[default]
    Pass,
    /// It waits, and all behind it, until it is [delivered](super::Proxy::deliver) or
    /// [discarded](super::Proxy::discard).
    Hold,
    /// It disappears; nobody is told. What comes after it arrives: see
    /// [a lost answer](crate::proxy#a-lost-answer). As the standing action it is a black hole.
    Drop,
    /// It disappears, and so does all that comes after it in this direction of this connection: a
    /// black hole that begins at this message.
    Silence,
    /// It goes on twice. The second answer to a request sent twice is kept from the client. Not in
    /// [gRPC](crate::proxy#grpc), where it goes on once.
    Duplicate,
    /// It goes on this long after it arrived.
    Delay(Duration),
    /// It goes on some time after it arrived, between these two: each message has a time of its own,
    /// by chance. What came before it still goes first.
    Jitter(Duration, Duration),
    /// It disappears, and its connection is closed on both sides after what was before it.
    Cut,
    /// This many bytes of it go on, then its connection is closed on both sides.
    Truncate(usize),
    /// It disappears, and its receiver sees the end of the stream: this direction of the connection
    /// is closed after what was before it, and the other goes on.
    HalfClose,
}

/// Which messages a rule takes, and how many of them.
///
/// Made by [`any`](Self::any), [`answers`](Self::answers), [`pushes`](Self::pushes),
/// [`command`](Self::command), [`contains`](Self::contains) or [`when`](Self::when); takes one
/// message unless told otherwise.
#[must_use = "it does nothing until `Proxy::on`"]
pub struct Match {
    test: Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>,
    skip: u64,
    left: Option<u64>,
}

impl Match {
    /// Every message.
    pub fn any() -> Self {
        Self::when(|_| true)
    }

    /// Requests, and the answers to them: every message but the pushed.
    pub fn answers() -> Self {
        Self::when(|message| !message.push)
    }

    /// Messages that the server sent of itself.
    pub fn pushes() -> Self {
        Self::when(|message| message.push)
    }

    /// Requests with this command, and answers to them. Case does not matter.
    pub fn command(name: &str) -> Self {
        let name = name.to_ascii_uppercase();
        Self::when(move |message| message.command().as_deref() == Some(&name))
    }

    /// Requests that have these bytes in them, and answers to such; pushed messages that have them.
    pub fn contains(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::when(move |message| message.contains(&bytes))
    }

    /// Messages for which this is true. It must not call the proxy.
    pub fn when(test: impl Fn(&Message<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { test: Box::new(test), skip: 0, left: Some(1) }
    }

    /// Only those for which this is true as well. It must not call the proxy.
    pub fn and(mut self, more: impl Fn(&Message<'_>) -> bool + Send + Sync + 'static) -> Self {
        let test = self.test;
        self.test = Box::new(move |message| test(message) && more(message));
        self
    }

    /// Leaves the first `count` of them alone.
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Takes `count` of them.
    pub fn times(mut self, count: u64) -> Self {
        self.left = Some(count);
        self
    }

    /// Takes all of them.
    pub fn always(mut self) -> Self {
        self.left = None;
        self
    }

    /// Whether the rule takes this message; counts it if so.
    pub(super) fn takes(&mut self, message: &Message<'_>) -> bool {
        if self.left == Some(0) || !(self.test)(message) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        true
    }

    /// Whether it takes no more.
    pub(super) fn spent(&self) -> bool {
        self.left == Some(0)
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Match")
            .field("skip", &self.skip)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// A rule that was given to a proxy. It stays in force when this is dropped.
#[derive(Clone)]
pub struct Rule {
    pub(super) shared: Arc<Shared>,
    pub(super) fired: Fired,
}

impl Rule {
    /// Waits until it has taken a message.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; wait again.
    pub async fn fired(&self) {
        self.fired_times(1).await;
    }

    /// Waits until it has taken this many messages since it was made.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; wait again.
    pub async fn fired_times(&self, count: u64) {
        self.shared.until(|_| (self.count() >= count).then_some(())).await;
    }

    /// How many messages it has taken.
    pub fn count(&self) -> u64 {
        self.fired.count()
    }

    /// Ends it. Messages that it holds stay held.
    pub fn remove(&self) {
        self.shared.change(|state| state.rules.retain(|rule| !rule.fired.is(&self.fired)));
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("count", &self.count()).finish_non_exhaustive()
    }
}
