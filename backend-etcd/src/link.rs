//! The connection that carries all requests: one to one member at a time, the next member's when
//! that one fails or is silent.
//!
//! The client library would spread requests over all members, one connection each, and would go on
//! asking one that is silent.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use leasehold_api::{BootClock, Clock, Error, Instant};
use secrecy::ExposeSecret;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::Failure;
use crate::keepalive::Terms;
use crate::options::Options;
#[cfg(feature = "tls")]
use crate::tls::Tls;
use crate::trace::{self, Works};

/// How often an idle connection with open streams is tried, and for how long an answer is awaited.
///
/// A server of default settings takes no more than one try in 5 s for good manners, and none where
/// no stream is open: asked each 2 s, etcd 3.4.23 ended a watch after 8 s.
const PROBE: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(2));

/// The current connection, or the way to the next one.
#[derive(Debug, Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    options: Options,
    connect: ConnectOptions,
    state: Mutex<State>,
    /// One attempt to connect at a time.
    opening: tokio::sync::Mutex<()>,
    /// The generation of the connection, for those who have streams on it.
    generation: watch::Sender<u64>,
    works: Works,
    terms: Terms,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

#[derive(Debug)]
struct State {
    wire: Option<Arc<Wire>>,
    generation: u64,
    /// Which member is, or comes, next.
    member: usize,
}

/// A connection to one member.
pub(crate) struct Wire {
    pub(crate) client: Client,
    pub(crate) generation: u64,
    member: usize,
    /// When it last answered, in nanoseconds of the boot clock; 0 is never.
    heard: AtomicU64,
}

impl Link {
    /// A link to the members of these options, beginning with any of them. Reads the files of TLS;
    /// nothing is sent.
    pub(crate) fn new(options: Options, first: usize) -> Result<Self, Error> {
        #[cfg_attr(not(feature = "tls"), expect(unused_mut, reason = "TLS changes it"))]
        let mut connect = connect_options(&options);
        #[cfg(feature = "tls")]
        let tls = match &options.tls {
            Some(files) => Some(Tls::new(&options, files)?),
            None => None,
        };
        #[cfg(feature = "tls")]
        if let Some(tls) = &tls {
            connect = connect.with_tls(tls.options.clone());
        }
        let member = first % options.endpoints.len();
        let state = Mutex::new(State { wire: None, generation: 0, member });
        Ok(Self(Arc::new(Shared {
            options,
            connect,
            state,
            opening: tokio::sync::Mutex::default(),
            generation: watch::Sender::new(0),
            works: Works::default(),
            terms: Terms::default(),
            #[cfg(feature = "tls")]
            tls,
        })))
    }

    /// Sends a request and awaits its answer.
    ///
    /// What was surely not sent is sent to the next member, to each once. If nothing at all is
    /// heard for `patience`, the *next* requests go to another member; this one is still awaited,
    /// as a slow answer counts, until nothing was heard for the time limit.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the request may still land.
    pub(crate) async fn call<T, F>(
        &self,
        patience: Duration,
        request: impl Fn(&Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let limit = self.0.options.timeout;
        let mut others = self.0.options.endpoints.len();
        let mut new_token = self.0.options.user.is_some();
        loop {
            let wire = self.wire().await?;
            let answer = self.answer(&wire, patience.min(limit / 2), request(&wire.client));
            let failure = match answer.await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.wants_new_token() && std::mem::take(&mut new_token) {
                self.new_token(&wire).await?;
                continue;
            }
            let failure = match wire.was_heard() {
                true => failure,
                false => self.explained(wire.member, failure).await,
            };
            if failure.is_members() {
                self.leave(&wire);
                trace::member_failed(self.member_of(&wire), &failure, &self.0.works);
            }
            if failure.is_unsent() && others > 1 {
                others -= 1;
                continue;
            }
            return Err(failure);
        }
    }

    async fn answer<T>(
        &self,
        wire: &Wire,
        patience: Duration,
        request: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, Failure> {
        let limit = self.0.options.timeout;
        let mut request = std::pin::pin!(request);
        let (asked, mut left) = (BootClock.now(), false);
        loop {
            let silent_since = wire.heard_at().max(asked);
            let until = silent_since.saturating_add(if left { limit } else { patience });
            tokio::select! {
                biased;
                answer = &mut request => {
                    // A server's refusal is heard, too.
                    let answer = answer.map_err(Failure::from);
                    if answer.as_ref().err().is_none_or(|failure| !failure.is_members()) {
                        self.heard(wire);
                    }
                    return answer;
                }
                () = BootClock.sleep_until(until) => {}
            }
            if wire.heard_at().max(asked) > silent_since {
                continue;
            }
            if left {
                return Err(Failure::Silent(limit));
            }
            left = true;
            self.leave(wire);
        }
    }

    /// The connection, opened first if there is none.
    ///
    /// # Cancel safety
    ///
    /// Dropped while opening, the next who asks opens it.
    pub(crate) async fn wire(&self) -> Result<Arc<Wire>, Failure> {
        if let Some(wire) = &self.state().wire {
            return Ok(wire.clone());
        }
        let _one_at_a_time = self.0.opening.lock().await;
        let (mut member, generation) = {
            let state = self.state();
            if let Some(wire) = &state.wire {
                return Ok(wire.clone());
            }
            (state.member, state.generation)
        };
        let members = self.0.options.endpoints.len();
        let mut last = None;
        // With a user the client library asks for a session's token first; else it sends nothing.
        for _ in 0..members {
            let opened = match self.open(member).await {
                Err(failure) => Err(self.explained(member, failure).await),
                opened => opened,
            };
            match opened {
                Ok(client) => {
                    let heard = AtomicU64::new(0);
                    let wire = Arc::new(Wire { client, generation, member, heard });
                    let mut state = self.state();
                    state.member = member;
                    state.wire = Some(wire.clone());
                    return Ok(wire);
                }
                Err(failure) if failure.is_members() => {
                    last = Some(failure);
                    member = (member + 1) % members;
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(last.expect("there is a member"))
    }

    /// Asks for a new token of the session, where there is a user.
    pub(crate) async fn new_token(&self, wire: &Wire) -> Result<(), Failure> {
        if self.0.options.user.is_none() {
            return Ok(());
        }
        let limit = self.0.options.timeout;
        match timeout(limit, wire.client.refresh_token()).await {
            Ok(refreshed) => Ok(refreshed?),
            Err(_) => Err(Failure::Silent(limit)),
        }
    }

    /// Changes whenever requests go another way, so that streams may follow.
    pub(crate) fn generations(&self) -> watch::Receiver<u64> {
        self.0.generation.subscribe()
    }

    /// Lets the next request go to the next member (or anew to the only one).
    pub(crate) fn leave(&self, wire: &Wire) {
        let mut state = self.state();
        if state.generation == wire.generation {
            state.generation += 1;
            state.member = (wire.member + 1) % self.0.options.endpoints.len();
            state.wire = None;
            // Under the lock, so that who sees another than its connection's finds a newer one.
            self.0.generation.send_replace(state.generation);
        }
    }

    /// In which terms the members were seen.
    pub(crate) fn terms(&self) -> &Terms {
        &self.0.terms
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    async fn open(&self, member: usize) -> Result<Client, Failure> {
        let endpoint = &self.0.options.endpoints[member];
        let scheme = if self.0.options.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{endpoint}");
        let limit = self.0.options.connect_timeout;
        let opened = timeout(limit, Client::connect([url], Some(self.0.connect.clone()))).await;
        Ok(opened.map_err(|_| Failure::Silent(limit))??)
    }

    /// What is behind the end of a connection to a member that had not said a word on it.
    async fn explained(&self, member: usize, failure: Failure) -> Failure {
        if !failure.is_cut() {
            return failure;
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.0.tls {
            let complaint = tls.complaint(&self.0.options.endpoints[member]).await;
            return complaint.map_or(failure, Failure::Tls);
        }
        let _ = member; // without TLS it is all the same
        match failure {
            Failure::Said(error) => Failure::Mute(error),
            failure => failure,
        }
    }

    /// Notes that a member answers.
    fn heard(&self, wire: &Wire) {
        let now = u64::try_from(BootClock.now().since_origin().as_nanos()).unwrap_or(u64::MAX);
        if wire.heard.swap(now, Ordering::Relaxed) == 0 {
            trace::connected(self.member_of(wire), wire.generation, &self.0.works);
        }
    }

    fn member_of(&self, wire: &Wire) -> &str {
        &self.0.options.endpoints[wire.member]
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("nothing panics while it holds this lock")
    }
}

impl Wire {
    fn was_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed) > 0
    }

    fn heard_at(&self) -> Instant {
        Instant::from_origin(Duration::from_nanos(self.heard.load(Ordering::Relaxed)))
    }
}

impl fmt::Debug for Shared {
    // Without the client library's options, which hold the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("options", &self.options).finish_non_exhaustive()
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, member, .. } = self;
        f.debug_struct("Wire").field("generation", generation).field("member", member).finish()
    }
}

/// How the client library connects: in one attempt of `connect_timeout`, with a leader asked for,
/// and the session's token renewed when it has expired.
fn connect_options(options: &Options) -> ConnectOptions {
    let connect = ConnectOptions::new()
        .with_connect_timeout(options.connect_timeout)
        .with_keep_alive(PROBE.0, PROBE.1)
        .with_keep_alive_while_idle(false)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    match (&options.user, &options.password) {
        (Some(user), Some(password)) => connect.with_user(user, password.expose_secret()),
        _ => connect,
    }
}
