//! Allocations whose records cannot be read: they are ended and set aside, and the others go on.

use std::path::Path;
use std::time::Duration;

use berth_api::agent::AllocId;
use tokio::time::timeout;

use super::Agent;
use super::data_dir::Damaged;
use crate::keeper::plan::StartRecord;
use crate::lifecycle::TaskRef;

/// How long the tasks of one are given to end.
const END_MAX: Duration = Duration::from_secs(30);

impl Agent {
    /// Ends what may still run of these, so that the servers may have it run again; then their directories are kept for
    /// people to look into. One whose tasks do not end stays where it is, and whoever starts it again is refused by its
    /// keeper.
    pub(super) async fn end_damaged(&mut self, damaged: Vec<Damaged>) {
        for Damaged { dir, failure } in damaged {
            tracing::error!(%failure, "an allocation's record cannot be read: its tasks are ended, others go on");
            if timeout(END_MAX, self.end_tasks_in(&dir)).await.is_err() {
                tracing::error!(dir = %dir.display(), "its tasks do not end: it is left as it is");
                continue;
            }
            match self.data.set_aside(&dir) {
                Ok(kept) => tracing::warn!(dir = %kept.display(), "what there is of it is kept here"),
                Err(failure) => tracing::error!(%failure, "it is left as it is"),
            }
        }
    }

    async fn end_tasks_in(&self, dir: &Path) {
        let keepers = dir.join("keepers").read_dir().into_iter().flatten().flatten();
        for keeper in keepers.map(|entry| entry.path()) {
            let Ok(Some(start)) = StartRecord::read(&keeper) else { continue };
            let of = TaskRef { alloc: AllocId([0; 16]), task: 0, attempt: start.attempt };
            self.runners.end_unknown(of, keeper).await;
        }
    }
}
