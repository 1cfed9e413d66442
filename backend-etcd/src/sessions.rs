//! The shared leases of a client: one for each length, in whole seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use etcd_client::{LeaseGrantOptions, PutOptions};
use leasehold_api::{BootClock, Clock, Owner};

use crate::error::Failure;
use crate::floor::revision;
use crate::keys::Keys;
use crate::link::Link;
use crate::session::{Late, Session};
use crate::spare::Spares;

/// How many lengths have a shared lease.
const MOST: usize = 8;

/// The shared leases of a client.
#[derive(Debug)]
pub(crate) struct Sessions {
    keys: Arc<Keys>,
    link: Link,
    spares: Arc<Spares>,
    by_length: Mutex<HashMap<i64, Arc<Session>>>,
    /// Those that have ended and may still be there.
    retired: Mutex<Vec<Arc<Session>>>,
    /// Those that have ended, until somebody is told.
    untold: Mutex<Vec<Arc<Session>>>,
    /// One at a time is opened.
    opening: tokio::sync::Mutex<()>,
}

impl Sessions {
    pub(crate) fn new(keys: Arc<Keys>, link: Link, spares: Arc<Spares>) -> Self {
        let (by_length, retired, untold) = (Mutex::default(), Mutex::default(), Mutex::default());
        let opening = tokio::sync::Mutex::default();
        Self { keys, link, spares, by_length, retired, untold, opening }
    }

    /// The session for claims of so many seconds, fresh enough to join: at least two thirds of it
    /// are left. `None` if there are too many lengths already.
    pub(crate) async fn join(&self, seconds: i64) -> Result<Option<Arc<Session>>, Failure> {
        loop {
            let session = match self.alive(seconds) {
                Some(session) => session,
                None => match self.open(seconds).await? {
                    Some(session) => session,
                    None => return Ok(None),
                },
            };
            if session.is_fresh() {
                return Ok(Some(session));
            }
            match session.keep_alive(&self.link, false).await {
                Ok(_) => return Ok(Some(session)),
                Err(failure) if failure.is_no_lease() => {} // it has ended; another one is opened
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The session with this lease.
    pub(crate) fn find(&self, lease: i64) -> Option<Arc<Session>> {
        self.by_length().values().find(|session| session.id == lease).cloned()
    }

    /// Whether a claim of this owner can still land, on any of them; on which.
    pub(crate) fn late(&self, owner: Owner) -> Option<(Arc<Session>, Late)> {
        let alive: Vec<_> = self.by_length().values().cloned().collect();
        let retired = self.retired().clone();
        let late = |session: Arc<Session>| {
            let late = session.late(owner);
            (late != Late::Never).then_some((session, late))
        };
        alive.into_iter().chain(retired).find_map(late)
    }

    /// Takes the sessions that have ended out of use, and answers all of whom nobody was told yet.
    /// Revokes those that are over, in the background.
    pub(crate) fn retire_ended(&self) -> Vec<Arc<Session>> {
        self.retire();
        for session in self.retired().iter().filter(|session| session.is_to_be_revoked()) {
            let (link, session) = (self.link.clone(), session.clone());
            tokio::spawn(async move { session.revoke(&link).await });
        }
        std::mem::take(&mut *self.untold())
    }

    /// Takes the sessions that have ended out of use.
    fn retire(&self) {
        let mut ended = Vec::new();
        self.by_length().retain(|_, session| {
            let alive = session.is_alive();
            if !alive {
                ended.push(session.clone());
            }
            alive
        });
        let mut retired = self.retired();
        retired.retain(|session| !session.is_gone());
        retired.extend(ended.iter().cloned());
        self.untold().extend(ended);
    }

    /// Whether this lease was one of ours, and nobody may keep it alive any more.
    pub(crate) fn has_retired(&self, lease: i64) -> bool {
        self.retired().iter().any(|session| session.id == lease)
    }

    fn alive(&self, seconds: i64) -> Option<Arc<Session>> {
        self.by_length().get(&seconds).filter(|session| session.is_alive()).cloned()
    }

    async fn open(&self, seconds: i64) -> Result<Option<Arc<Session>>, Failure> {
        let _one_at_a_time = self.opening.lock().await;
        if let Some(session) = self.alive(seconds) {
            return Ok(Some(session));
        }
        {
            self.retire();
            let sessions = self.by_length();
            if sessions.len() >= MOST && !sessions.contains_key(&seconds) {
                return Ok(None);
            }
        }
        let begun = BootClock.now();
        let patience = Duration::from_secs(1);
        // Dropped or refused before others know of it, nobody would.
        let spare = self.spares.ask(seconds);
        let id = spare.id();
        let granted = self
            .link
            .call(patience, |client| {
                let mut leases = client.lease_client();
                let with_id = Some(LeaseGrantOptions::new().with_id(id));
                async move { leases.grant(seconds, with_id).await }
            })
            .await?;
        let ttl = Duration::from_secs(granted.ttl().unsigned_abs());
        let epoch_key = self.keys.session(id);
        let put = self
            .link
            .call(patience, |client| {
                let (mut kv, key) = (client.kv_client(), epoch_key.as_str());
                let on_it = Some(PutOptions::new().with_lease(id));
                async move { kv.put(key, "", on_it).await }
            })
            .await?;
        let epoch = i64::try_from(revision(put.header())?).unwrap_or(i64::MAX);
        let session = Arc::new(Session::new(id, epoch_key, ttl, begun, epoch));
        self.retire();
        self.by_length().insert(seconds, session.clone());
        spare.keep();
        Ok(Some(session))
    }

    fn untold(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        self.untold.lock().expect("nothing panics while it holds this lock")
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        self.retired.lock().expect("nothing panics while it holds this lock")
    }

    fn by_length(&self) -> MutexGuard<'_, HashMap<i64, Arc<Session>>> {
        self.by_length.lock().expect("nothing panics while it holds this lock")
    }
}
