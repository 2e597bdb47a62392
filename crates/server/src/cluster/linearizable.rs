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

/// How long a read waits for observed state that the leader has published already.
const OBSERVED_MAX: Duration = Duration::from_secs(1);

/// Rounds of asking the leader for its position, one after the other.
#[derive(Default)]
pub(super) struct ReadRounds {
    /// Held during a round.
    turn: Mutex<()>,
    /// How many rounds have begun.
    started: AtomicU64,
    /// The number of the last round that succeeded.
    succeeded: watch::Sender<u64>,
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
        // A round that is under way may have asked before this read began: only a later one counts.
        let round_needed = self.fresh.started.load(Ordering::Acquire) + 1;
        let deadline = Instant::now() + LEADER_MAX;
        loop {
            if self.is_removed() {
                return Err(self.no_leader());
            }
            // Not without end: while no leader answers, each reader before this one tries until its own deadline.
            let Ok(_turn) = tokio::time::timeout_at(deadline, self.fresh.turn.lock()).await else {
                return Err(self.no_answer());
            };
            if *self.fresh.succeeded.borrow() >= round_needed {
                return Ok(());
            }
            let round = self.fresh.started.fetch_add(1, Ordering::AcqRel) + 1;
            let asked = tokio::time::timeout_at(deadline, self.ask_position(OBSERVED_MAX)).await;
            match asked.unwrap_or_else(|_| Err(self.no_answer())) {
                Ok(()) => {
                    self.fresh.succeeded.send_replace(round);
                    return Ok(());
                }
                Err(why) if Instant::now() >= deadline => {
                    return Err(if self.has_leader() { why } else { self.no_leader() });
                }
                Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Why a read is not linearizable that has waited as long as it may: for users.
    fn no_answer(&self) -> String {
        if self.has_leader() {
            format!("the leader has not answered within {} s", LEADER_MAX.as_secs())
        } else {
            self.no_leader()
        }
    }

    /// Waits until this server has applied all that was acknowledged by now; tries once.
    ///
    /// # Errors
    /// Why it has not: for users.
    pub async fn knows_log(&self) -> Result<(), String> {
        if self.is_alone() { Ok(()) } else { self.ask_position(Duration::ZERO).await }
    }

    /// Asks the leader once, and waits until this server has applied and published as much; for observed state `observed_max` at most.
    async fn ask_position(&self, observed_max: Duration) -> Result<(), String> {
        let (position, leader_published) = if self.replication.is_leader() {
            (self.replication.read_position().await.map_err(|error| error.to_string())?, None)
        } else {
            let leader = self.other_leader().ok_or_else(|| self.no_leader())?;
            match self.ask_leader(&leader, &PeerRequest::ReadPosition).await {
                Ok(PeerAnswer::Position(position, published)) => (position, published),
                Ok(PeerAnswer::Refused(why)) => return Err(why),
                Ok(_) => return Err(self.no_leader()),
                Err(RequestError::NotSent(why) | RequestError::Unknown(why) | RequestError::Refused(why)) => {
                    return Err(format!("the leader is not reached: {why}"));
                }
            }
        };
        let applied = self.replication.wait_applied(position, LEADER_MAX).await;
        applied.map_err(|error: ReadError| error.to_string())?;
        self.wait_published().await?;
        if let Some(leader_published) = leader_published {
            // Observed state is not in the log, and may be late or lost on its way here: it is waited for only for a short time.
            let mut published = self.published.clone();
            let wait_published = published.wait_for(|(published, _)| *published >= leader_published);
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
