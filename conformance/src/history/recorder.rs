//! Recording what clients do and see.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_api::{Claim, Clock, Grant, Instant, Lease, Ttl, Validity};

use super::{Event, History, What};

/// Records the events of many clients by one clock. Clones share the history.
#[derive(Debug, Clone)]
pub struct Recorder {
    clock: Arc<dyn Clock>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    /// A recorder on the clock of the drivers that it records, all of which must share it.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, events: Arc::default() }
    }

    /// Before an acquire is sent. The answer goes to what this returns.
    pub fn claim(&self, client: usize, claim: &Claim) -> Call<'_> {
        let call = Call {
            recorder: self,
            client,
            name: claim.name.as_str().to_owned(),
            owner: claim.owner.to_string(),
            ttl: claim.ttl,
        };
        call.add(What::Claim);
        call
    }

    /// Before a renewal is sent. The answer goes to what this returns.
    pub fn renewal(&self, client: usize, lease: &Lease) -> Call<'_> {
        let call = self.of_lease(client, lease);
        call.add(What::Renewal);
        call
    }

    /// Before a release is sent: from here on the client does nothing under the lock.
    pub fn release(&self, client: usize, lease: &Lease) {
        self.of_lease(client, lease).add(What::Release);
    }

    /// A loss that the client saw.
    pub fn lost(&self, client: usize, lease: &Lease) {
        self.of_lease(client, lease).add(What::Lost);
    }

    /// Something that was done to the store, the network or a process.
    pub fn fault(&self, what: &str) {
        let (name, owner) = (String::new(), String::new());
        self.add(Event { at: 0, client: 0, name, owner, what: What::Fault { fault: what.into() } });
    }

    /// Waits until the last recorded deadline of the lease has passed.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn deadline_passes(&self, lease: &Lease) {
        let owner = lease.owner.to_string();
        let until = self.events().iter().rev().find_map(|event| match event.what {
            What::Granted { until, .. } | What::Renewed { until } if event.owner == owner => {
                Some(until)
            }
            _ => None,
        });
        let until = Instant::from_origin(Duration::from_nanos(until.unwrap_or(0)));
        self.clock.sleep_until(until).await;
    }

    /// What was recorded so far.
    #[must_use]
    pub fn history(&self) -> History {
        History::new(self.events().clone())
    }

    /// Events at one instant get times a nanosecond apart, so that their order is kept.
    fn add(&self, event: Event) {
        let mut events = self.events();
        let after = events.last().map_or(0, |event| event.at + 1);
        let at = nanos(self.clock.now()).max(after);
        events.push(Event { at, ..event });
    }

    fn of_lease(&self, client: usize, lease: &Lease) -> Call<'_> {
        Call {
            recorder: self,
            client,
            name: lease.name.as_str().to_owned(),
            owner: lease.owner.to_string(),
            ttl: lease.ttl,
        }
    }

    fn events(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request of one client, to which an answer may come.
#[derive(Debug)]
pub struct Call<'a> {
    recorder: &'a Recorder,
    client: usize,
    name: String,
    owner: String,
    ttl: Ttl,
}

impl Call<'_> {
    /// The claim was granted.
    pub fn granted(&self, grant: &Grant) {
        let until = nanos(grant.validity.deadline(self.ttl));
        self.add(What::Granted { token: grant.token.get(), until });
    }

    /// Somebody else has the name.
    pub fn held(&self) {
        self.add(What::Held);
    }

    /// The renewal was answered.
    pub fn renewed(&self, validity: Validity) {
        self.add(What::Renewed { until: nanos(validity.deadline(self.ttl)) });
    }

    /// The answer says that the lease is lost.
    pub fn lost(&self) {
        self.add(What::Lost);
    }

    /// No answer came, or one that leaves it open: it may have happened.
    pub fn unknown(&self) {
        self.add(What::Unknown);
    }

    fn add(&self, what: What) {
        let (client, name, owner) = (self.client, self.name.clone(), self.owner.clone());
        self.recorder.add(Event { at: 0, client, name, owner, what });
    }
}

fn nanos(instant: Instant) -> u64 {
    u64::try_from(instant.since_origin().as_nanos()).unwrap_or(u64::MAX)
}
