//! Fingerprints the node again at intervals, and reports to the servers what has changed.

use std::sync::Arc;
use std::sync::mpsc::{SendError, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Agent;
use super::fingerprint::{Equipment, Inventory};

/// The interval between two fingerprints.
pub(super) const EVERY: Duration = Duration::from_secs(10);

/// How long the start of an agent waits for the first scan: longer than programs may take to print their version.
const FIRST_WAIT_MAX: Duration = Duration::from_secs(10);

/// Fingerprints the node at its start and whenever a scan is due.
pub(super) struct NodeWatch {
    inventory: Arc<Inventory>,
    sender: mpsc::Sender<Equipment>,
    receiver: mpsc::Receiver<Equipment>,
}

impl NodeWatch {
    /// The first scan. Where that takes too long the agent begins with what it knows without running programs, and reports the
    /// rest once it is found.
    pub(super) fn begin(inventory: Inventory) -> (Self, Equipment) {
        // One scan at a time: whatever makes it slow, as a disk that hangs, blocks nothing else.
        let (sender, receiver) = mpsc::channel(1);
        let inventory = Arc::new(inventory);
        let (late, scanner) = (sender.clone().try_reserve_owned(), inventory.clone());
        let later = move |found| drop(late.map(|permit| permit.send(found)));
        let found = within(FIRST_WAIT_MAX, move || scanner.scan(0, None), later);
        let found = found.unwrap_or_else(|| inventory.quick_scan());
        inventory.warn_of_missing(&found);
        (Self { inventory, sender, receiver }, found)
    }

    /// The result of the last scan.
    pub(super) async fn found(&mut self) -> Option<Equipment> {
        self.receiver.recv().await
    }
}

/// No thread of the async runtime: that waits for its threads at the end, and a scan may never end.
fn spawn(scan: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name("look".into()).spawn(scan) {
        tracing::warn!(%error, "the node is not looked at now: no thread could be started");
    }
}

/// The result of `scan`, if it comes in time; else it goes to `later` whenever it comes.
fn within<T: Send + 'static>(
    at_most: Duration,
    scan: impl FnOnce() -> T + Send + 'static,
    later: impl FnOnce(T) + Send + 'static,
) -> Option<T> {
    // Without room for anything: what is sent has been taken, or is given back.
    let (sender, receiver) = sync_channel(0);
    spawn(move || {
        if let Err(SendError(found)) = sender.send(scan()) {
            later(found);
        }
    });
    receiver.recv_timeout(at_most).ok()
}

impl Agent {
    /// Begins to look, unless that is still going on.
    pub(super) fn scan_again(&self) {
        let Ok(permit) = self.node_watch.sender.clone().try_reserve_owned() else { return };
        let (inventory, before) = (self.node_watch.inventory.clone(), self.context.equipment());
        let held_bytes = self.disk_limits.held_bytes();
        spawn(move || drop(permit.send(inventory.scan(held_bytes, Some(&before)))));
    }

    /// What a task starts with from now on, and what is reported to the servers, is what is there now.
    pub(super) fn on_found(&mut self, mut found: Equipment) {
        found.node.meta = self.meta.effective();
        let before = self.context.equipment();
        if found.node != before.node {
            tracing::info!(changes = found.changes_since(&before).join(", "), "the node has changed");
            self.session.node_changed(found.node.clone());
        }
        self.context.equip(Arc::new(found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_that_takes_too_long_is_delivered_later() {
        let long = Duration::from_secs(60);
        assert_eq!(within(long, || 1, |_| panic!("it was in time")), Some(1));
        let (go, waits) = sync_channel::<()>(0);
        let (sender, receiver) = sync_channel(1);
        let scan = move || {
            let _ = waits.recv();
            2
        };
        assert_eq!(
            within(Duration::from_millis(1), scan, move |found| sender.send(found).expect("heard")),
            None
        );
        drop(go);
        assert_eq!(receiver.recv(), Ok(2));
    }
}
