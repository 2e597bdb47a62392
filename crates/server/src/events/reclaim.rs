//! Frees dropped batches on a thread of its own: it takes a while, which the publisher should not spend.

use std::sync::{
    Arc, Mutex, PoisonError,
    mpsc::{SyncSender, TrySendError, sync_channel},
};

use super::{DroppedBatch, EventBatch};

/// Batches that go together: each list wakes a thread.
const BATCHES: usize = 64;
/// What those hold on to that have gathered, in bytes.
const GATHERED_BYTES_MAX: u64 = 1 << 20;
/// Lists of them that wait to be freed.
const WAITING_MAX: usize = 16;

/// Gathers batches, and frees them on a thread of its own. When that cannot follow, the work stays with whoever publishes,
/// so that never more than a few wait.
#[derive(Debug, Default)]
pub(super) struct BatchReclaimer(Mutex<ReclaimQueue>);

#[derive(Debug, Default)]
struct ReclaimQueue {
    batches: Vec<Arc<EventBatch>>,
    bytes: u64,
    /// None before the first list.
    thread: Option<SyncSender<Vec<Arc<EventBatch>>>>,
}

impl BatchReclaimer {
    /// Takes over batches that nobody is to follow any more.
    pub fn take(&self, dropped: Vec<DroppedBatch>) {
        if dropped.is_empty() {
            return;
        }
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (batch, bytes) in dropped {
            gathered.batches.push(batch);
            gathered.bytes += bytes;
        }
        if gathered.batches.len() >= BATCHES || gathered.bytes > GATHERED_BYTES_MAX {
            gathered.free();
        }
    }

    /// Frees what has gathered.
    pub fn flush(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).free();
    }
}

impl ReclaimQueue {
    fn free(&mut self) {
        let batches = std::mem::take(&mut self.batches);
        self.bytes = 0;
        if batches.is_empty() {
            return;
        }
        let thread = self.thread.get_or_insert_with(start);
        match thread.try_send(batches) {
            Ok(()) => {}
            Err(TrySendError::Full(batches) | TrySendError::Disconnected(batches)) => drop(batches),
        }
    }
}

/// It ends with the sender.
fn start() -> SyncSender<Vec<Arc<EventBatch>>> {
    let (sender, waiting) = sync_channel::<Vec<Arc<EventBatch>>>(WAITING_MAX);
    let freeing = move || waiting.into_iter().for_each(drop);
    if let Err(error) = std::thread::Builder::new().name("free events".to_owned()).spawn(freeing) {
        tracing::warn!(%error, "no thread to free old events: those who publish free them");
    }
    sender
}
