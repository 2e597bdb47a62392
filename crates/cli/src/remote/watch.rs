//! `-watch`: notes what was read, and waits until some of it has changed.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use berth_api::http::{BLOCKING_MAX, Client, Target};
use futures_util::future::select_all;
use serde::de::IgnoredAny;

use super::Remote;
use crate::failure::Failure;

/// Between two reads of what has no index to wait for, or changes without it.
const POLL_MS: u64 = 2_000;

/// The targets that were read since the last wait, each with the index of its answer.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadTargets(Arc<Mutex<Vec<(Target, u64)>>>);

impl ReadTargets {
    pub fn record(&self, target: &Target, index: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((target.clone(), index));
    }

    /// Something of what was read changes without an index.
    pub fn record_unindexed(&self) {
        self.record(&Target::new("/"), 0);
    }

    fn take(&self) -> Vec<(Target, u64)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Remote {
    /// The same server; it notes what is read from it.
    pub fn recording_reads(&self) -> Self {
        Self { read_targets: Some(ReadTargets::default()), ..self.clone() }
    }

    /// Waits until something has changed of what was read since the last call, or may have.
    pub async fn changed(&self) -> Result<(), Failure> {
        let read = self.read_targets.as_ref().map(ReadTargets::take).unwrap_or_default();
        let (seen, unseen): (Vec<_>, Vec<_>) = read.into_iter().partition(|(_, index)| *index > 0);
        let poll = async {
            if seen.is_empty() || !unseen.is_empty() {
                tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let waits = async {
            if seen.is_empty() {
                return std::future::pending().await;
            }
            let each = seen.iter().map(|(target, index)| Box::pin(changed(&self.client, target, *index)));
            select_all(each).await.0
        };
        tokio::select! {
            changed = waits => changed,
            () = poll => Ok(()),
        }
    }
}

async fn changed(client: &Client, target: &Target, index: u64) -> Result<(), Failure> {
    loop {
        let answer = client.get::<IgnoredAny>(&target.clone().after(index, BLOCKING_MAX)).await?;
        if answer.index != index {
            return Ok(());
        }
    }
}
