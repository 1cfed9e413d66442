//! The floor of all tokens: a number in the store that only rises. A token is the floor that its
//! claim compared, plus the claim's create revision.
//!
//! Why tokens rise: revisions rise, the floor never falls, and a claim lands only if the floor is
//! still the one it compared. Of two claims of a name the later has the higher revision and no
//! lower floor.
//!
//! The floor follows the clock: a client that finds the tokens more than a minute behind its own
//! clock raises it. That is what lets tokens rise after a snapshot was restored, when revisions go
//! back; no decision about who holds a lock comes from it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp, TxnOpResponse};
use leasehold_api::Token;

use crate::error::Failure;
use crate::keys::Keys;
use crate::link::Link;
use crate::trace;

/// How far tokens may fall behind the clock, and how far a raise overshoots, in microseconds.
const MINUTE: u64 = 60_000_000;

/// The floor, as far as this client knows.
#[derive(Debug)]
pub(crate) struct Floor {
    keys: Arc<Keys>,
    link: Link,
    known: Mutex<Option<Known>>,
    /// Not each task of a process raises it.
    raising: tokio::sync::Mutex<()>,
}

/// What is known of the store at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// The floor in the store.
    pub(crate) floor: u64,
    /// The highest revision that was seen.
    pub(crate) revision: u64,
    /// No token up to this one may be granted again.
    pub(crate) highest: u64,
}

impl Known {
    /// The lowest token that may come next.
    fn next(self) -> u64 {
        self.floor.saturating_add(self.revision).saturating_add(1)
    }
}

impl Floor {
    pub(crate) fn new(keys: Arc<Keys>, link: Link) -> Self {
        Self { keys, link, known: Mutex::default(), raising: tokio::sync::Mutex::default() }
    }

    /// A floor to claim over: above every token that is known, above `above`, and not far behind
    /// the clock.
    pub(crate) async fn to_claim(&self, above: Option<Token>) -> Result<Known, Failure> {
        let above = above.map_or(0, Token::get);
        let enough = |known: Known| {
            let next = known.next();
            let wants = above.max(known.highest);
            let behind = next.saturating_add(MINUTE) < now();
            (wants < next && !behind).then_some(known)
        };
        if let Some(known) = self.known().and_then(enough) {
            return Ok(known);
        }
        let _one_at_a_time = self.raising.lock().await;
        let known = match self.known() {
            Some(known) => known,
            None => self.read().await?,
        };
        match enough(known) {
            Some(known) => Ok(known),
            None => self.raise_above(above.max(known.highest)).await,
        }
    }

    /// Raises the floor so that every later claim's token is above `above`; answers what is then
    /// known.
    pub(crate) async fn raise(&self, above: Token) -> Result<Known, Failure> {
        let _one_at_a_time = self.raising.lock().await;
        let known = self.read().await?;
        if above.get() < known.next() { Ok(known) } else { self.raise_above(above.get()).await }
    }

    /// Reads it; 0 if there is none.
    pub(crate) async fn read(&self) -> Result<Known, Failure> {
        let answer = self
            .link
            .call(PATIENCE, |client| {
                let mut kv = client.kv_client();
                let key = self.keys.floor();
                async move { kv.get(key, None).await }
            })
            .await?;
        let revision = revision(answer.header())?;
        let floor = answer.kvs().first().map(|kv| read(kv.value())).transpose()?;
        Ok(self.learn(floor.unwrap_or(0), revision))
    }

    /// What a transaction of another kind answered.
    pub(crate) fn learn(&self, floor: u64, revision: u64) -> Known {
        let mut known = self.known_mut();
        let highest = known.map_or(0, |known| known.highest);
        let learnt = match *known {
            Some(known) if known.floor == floor => {
                Known { floor, revision: revision.max(known.revision), highest }
            }
            // A floor that differs is another one's, or of another time: its revision counts.
            _ => Known { floor, revision, highest },
        };
        *known.insert(learnt)
    }

    /// Notes that this token was granted over this floor, or seen.
    pub(crate) fn granted(&self, token: Token, revision: u64) {
        if let Some(known) = &mut *self.known_mut() {
            known.revision = known.revision.max(revision);
            known.highest = known.highest.max(token.get());
        }
    }

    /// A claim landed at a revision that was passed long ago: the store went back in time.
    pub(crate) fn went_back(&self, revision: u64) {
        if let Some(known) = &mut *self.known_mut() {
            known.highest = known.highest.max(known.next());
            known.revision = revision;
        }
    }

    /// Compares and swaps until the floor is high enough.
    ///
    /// Invariant: the floor only rises; who raises it has seen the floor that it replaces.
    async fn raise_above(&self, above: u64) -> Result<Known, Failure> {
        for _ in 0..ROUNDS {
            let known = match self.known() {
                Some(known) => known,
                None => self.read().await?,
            };
            let near_the_end = above.saturating_add(2 * MINUTE) > Token::MAX.get();
            let known = if near_the_end { self.read().await? } else { known };
            let wants = above.max(known.highest);
            // Two revisions on at least, the next claim's token is just above.
            let exact = (wants + 1).saturating_sub(known.revision + 2);
            let generous = exact.max(now().saturating_sub(known.revision)).max(known.floor);
            let overshoot = if wants < known.next() { 0 } else { MINUTE };
            let roomy = generous.saturating_add(overshoot);
            let room = |floor: u64| floor.saturating_add(known.revision + 2) <= Token::MAX.get();
            let floor = if room(roomy) { roomy } else { exact.max(known.floor) };
            if !room(floor) {
                return Err(Failure::Exhausted);
            }
            let key = self.keys.floor();
            let is_the_same = match known.floor {
                0 => Compare::create_revision(key, CompareOp::Equal, 0),
                floor => Compare::value(key, CompareOp::Equal, floor.to_string()),
            };
            let swap = Txn::new()
                .when([is_the_same])
                .and_then([TxnOp::put(key, floor.to_string(), None::<PutOptions>)])
                .or_else([TxnOp::get(key, None)]);
            let answer = self
                .link
                .call(PATIENCE, |client| {
                    let (mut kv, swap) = (client.kv_client(), swap.clone());
                    async move { kv.txn(swap).await }
                })
                .await?;
            let revision = revision(answer.header())?;
            if answer.succeeded() {
                trace::floor_raised(&self.link.options().place(), floor);
                return Ok(self.learn(floor, revision));
            }
            let found = match answer.op_responses().first() {
                Some(TxnOpResponse::Get(get)) => get.kvs().first().map(|kv| read(kv.value())),
                _ => return Err(Failure::Answer("the floor was not answered")),
            };
            let found = self.learn(found.transpose()?.unwrap_or(0), revision);
            if wants < found.next() && found.floor > 0 {
                return Ok(found);
            }
        }
        Err(Failure::Contended)
    }

    fn known(&self) -> Option<Known> {
        *self.known_mut()
    }

    fn known_mut(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().expect("nothing panics while it holds this lock")
    }
}

const PATIENCE: Duration = Duration::from_secs(1);

/// How often a swap is tried whose floor others keep raising.
const ROUNDS: usize = 16;

/// Reads the floor's value.
pub(crate) fn read(value: &[u8]) -> Result<u64, Failure> {
    let floor = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    floor.ok_or(Failure::Answer("the token floor in the store is no number"))
}

/// The revision of an answer's header.
pub(crate) fn revision(header: Option<&etcd_client::ResponseHeader>) -> Result<u64, Failure> {
    let revision = header.and_then(|header| u64::try_from(header.revision()).ok());
    revision.ok_or(Failure::Answer("the answer names no revision"))
}

/// Microseconds since 1970 by this machine's clock.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX).min(Token::MAX.get())
}
