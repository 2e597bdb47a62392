//! Linearizable reads on any server. The leader confirms that it still leads, by its lease or by a majority, and reports the end
//! of its log; the reader waits until it has applied that much. Reads that arrive during a round share the next one.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use berth_model::Index;
use berth_replication::{ReadError, peer::RequestError};
use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};

use super::{
    Cluster, LEADER_MAX, POLL_INTERVAL,
    wire::{PeerAnswer, PeerRequest},
};

/// How long a read waits for what agents observe that the leader shows already.
const OBSERVED_MAX: Duration = Duration::from_secs(1);

/// Questions to the leader, one after the other.
#[derive(Default)]
pub(super) struct ReadRounds {
    asking: Mutex<()>,
    begun: AtomicU64,
    /// The last one that succeeded.
    done: watch::Sender<u64>,
}

impl Cluster {
    /// Waits until a read of what this server publishes is linearizable.
    ///
    /// # Errors
    /// Why it is not: for users.
    pub async fn fresh(&self) -> Result<(), String> {
        if self.is_alone() {
            return Ok(());
        }
        let wanted = self.fresh.begun.load(Ordering::Acquire) + 1;
        let deadline = Instant::now() + LEADER_MAX;
        loop {
            if self.is_removed() {
                return Err(self.no_leader());
            }
            let _asking = self.fresh.asking.lock().await;
            if *self.fresh.done.borrow() >= wanted {
                return Ok(());
            }
            let round = self.fresh.begun.fetch_add(1, Ordering::AcqRel) + 1;
            match self.ask_position(OBSERVED_MAX).await {
                Ok(()) => {
                    self.fresh.done.send_replace(round);
                    return Ok(());
                }
                Err(why) if Instant::now() >= deadline => {
                    return Err(if self.has_leader() { why } else { self.no_leader() });
                }
                Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Waits until this server has applied all that was acknowledged by now; tries once.
    ///
    /// # Errors
    /// Why it has not: for users.
    pub async fn knows_log(&self) -> Result<(), String> {
        if self.is_alone() { Ok(()) } else { self.ask_position(Duration::ZERO).await }
    }

    /// Asks once, and waits for this server to come as far, so long at most for what agents observe.
    async fn ask_position(&self, observed_max: Duration) -> Result<(), String> {
        let (position, seen) = if self.replication.is_leader() {
            (self.replication.read_position().await.map_err(|error| error.to_string())?, None)
        } else {
            let leader = self.other_leader().ok_or_else(|| self.no_leader())?;
            match self.ask_leader(&leader, &PeerRequest::ReadPosition).await {
                Ok(PeerAnswer::Position(position, seen)) => (position, seen),
                Ok(PeerAnswer::Refused(why)) => return Err(why),
                Ok(_) => return Err(self.no_leader()),
                Err(RequestError::NotSent(why) | RequestError::Unknown(why) | RequestError::Refused(why)) => {
                    return Err(format!("the leader is not reached: {why}"));
                }
            }
        };
        let waited = self.replication.wait_applied(position, LEADER_MAX).await;
        waited.map_err(|error: ReadError| error.to_string())?;
        self.wait_published().await?;
        if let Some(seen) = seen {
            // What agents observe is in no log: a server that is late with it delays nobody for long.
            let mut published = self.published.clone();
            let wait_published = published.wait_for(|(published, _)| *published >= seen);
            let _ = tokio::time::timeout(observed_max, wait_published).await;
        }
        Ok(())
    }

    /// Waits until readers see all that is applied by now.
    async fn wait_published(&self) -> Result<(), String> {
        let applied = Index(self.applied.load(Ordering::Acquire));
        let mut published = self.published.clone();
        let wait_published =
            published.wait_for(|(published, cluster)| *published >= applied && *cluster != 0);
        match tokio::time::timeout(LEADER_MAX, wait_published).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err("this server has not caught up with the others yet: try again in a moment".to_owned()),
        }
    }

    /// Whether there is any state to be read, however old.
    pub fn has_state(&self) -> bool {
        let (published, cluster) = *self.published.borrow();
        published > Index::default() && cluster != 0
    }
}
