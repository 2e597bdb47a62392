//! A leader that stops hands over first: it takes nothing new, ends what it is writing, and lets the server that has come
//! farthest take over. What its clients ask meanwhile waits, and goes to that one.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::Instant;

use super::Cluster;

/// How long to wait for what is being written.
const WRITING_MAX: Duration = Duration::from_secs(1);
/// How long to wait for another to take over; the others elect one by themselves if nobody does.
const TRANSFER_MAX: Duration = Duration::from_secs(2);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(1);

impl Cluster {
    /// Hands over, if this server leads and another can.
    pub async fn hand_over(&self) {
        if !self.replication.is_leader() || self.replication.members().voters().count() < 2 {
            return;
        }
        self.leaving.send_replace(true);
        let begun = Instant::now();
        while self.writing.load(Ordering::Acquire) > 0 && begun.elapsed() < WRITING_MAX {
            tokio::time::sleep(LOOK).await;
        }
        match self.replication.transfer(None, TRANSFER_MAX).await {
            Ok(to) => {
                let took_ms = begun.elapsed().as_millis();
                tracing::info!(server = to, took_ms, "handed the leadership over");
            }
            Err(error) => tracing::warn!(%error, "nobody took the leadership over"),
        }
    }
}
