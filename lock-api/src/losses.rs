//! Losses that a driver sees by itself, and who hears of them.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::lease::{Loss, Owner};

/// What one client hears of the losses that a driver sees by itself. [Clause 4.5](crate#4-renew).
#[async_trait]
pub trait Losses: fmt::Debug + Send {
    /// The next loss; never, where the driver sees none.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any await: the next call gives what this one would have given.
    async fn next(&mut self) -> (Owner, Loss);
}

/// Tells losses to all who listen: what a driver needs that sees any.
#[derive(Default)]
pub struct LossTeller(Mutex<Vec<mpsc::UnboundedSender<(Owner, Loss)>>>);

impl LossTeller {
    /// Tells a loss to each who listens by now; nobody has to.
    pub fn tell(&self, owner: Owner, loss: Loss) {
        self.listeners().retain(|listener| listener.send((owner, loss)).is_ok());
    }

    /// Hears all that is told from now on.
    pub fn listen(&self) -> Box<dyn Losses> {
        let (listener, told) = mpsc::unbounded_channel();
        let mut listeners = self.listeners();
        // Also where nothing is ever told.
        listeners.retain(|listener| !listener.is_closed());
        listeners.push(listener);
        Box::new(Told(told))
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<mpsc::UnboundedSender<(Owner, Loss)>>> {
        // No step panics half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LossTeller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossTeller").field("listeners", &self.listeners().len()).finish()
    }
}

#[derive(Debug)]
struct Told(mpsc::UnboundedReceiver<(Owner, Loss)>);

#[async_trait]
impl Losses for Told {
    async fn next(&mut self) -> (Owner, Loss) {
        match self.0.recv().await {
            Some(loss) => loss,
            // The driver is gone.
            None => std::future::pending().await,
        }
    }
}

/// Of a driver that sees none.
#[derive(Debug)]
pub(crate) struct NoLosses;

#[async_trait]
impl Losses for NoLosses {
    async fn next(&mut self) -> (Owner, Loss) {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::LossTeller;
    use crate::lease::{Loss, Owner};
    use futures_util::FutureExt;

    #[tokio::test]
    async fn each_who_listens_hears_all_and_who_stops_costs_nothing() {
        let teller = LossTeller::default();
        let [first, second] = [1, 2].map(Owner::from_bits);
        teller.tell(first, Loss::Gone);
        let (mut one, mut two, three) = (teller.listen(), teller.listen(), teller.listen());
        assert!(one.next().now_or_never().is_none(), "it was told before");
        teller.tell(first, Loss::Gone);
        drop(three);
        teller.tell(second, Loss::SessionGone);
        for listener in [&mut one, &mut two] {
            assert_eq!(listener.next().await, (first, Loss::Gone));
            assert_eq!(listener.next().await, (second, Loss::SessionGone));
        }
        assert_eq!(format!("{teller:?}"), "LossTeller { listeners: 2 }");
        drop((one, two));
        let kept = teller.listen();
        assert_eq!(format!("{teller:?}"), "LossTeller { listeners: 1 }");
        drop((teller, kept));
    }
}
