//! Noting what was read, and waiting until some of it has changed.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use berth_api::http::{BLOCKING_MAX, Client, Target};
use futures_util::future::select_all;
use serde::de::IgnoredAny;

use super::Remote;
use crate::failure::Failure;

/// Between two reads of what has no index to wait for.
const POLL_MS: u64 = 2_000;

/// What was read since the last look, and the index at which it stood.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Vec<(Target, u64)>>>);

impl Notes {
    pub fn note(&self, target: &Target, index: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((target.clone(), index));
    }

    fn take(&self) -> Vec<(Target, u64)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Remote {
    /// The same server; it notes what is read from it.
    pub fn noting(&self) -> Self {
        Self { notes: Some(Notes::default()), ..self.clone() }
    }

    /// Waits until something has changed of what was read since the last call.
    pub async fn changed(&self) -> Result<(), Failure> {
        let mut read = self.notes.as_ref().map(Notes::take).unwrap_or_default();
        read.retain(|(_, index)| *index > 0);
        if read.is_empty() {
            tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
            return Ok(());
        }
        let waits = read.iter().map(|(target, index)| Box::pin(changed(&self.client, target, *index)));
        select_all(waits).await.0
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
