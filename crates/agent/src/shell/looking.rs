//! Looks from time to time whether the node is still what it was, and reports to the servers what has changed.

use std::sync::Arc;
use std::sync::mpsc::{SendError, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Agent;
use super::fingerprint::{Equipment, Inventory};

/// How often it is looked.
pub(super) const EVERY: Duration = Duration::from_secs(10);

/// How long the start of an agent waits for the first look: longer than programs may take to say their version.
const FIRST_WAIT_MAX: Duration = Duration::from_secs(10);

/// Looks at the node.
pub(super) struct Looking {
    inventory: Arc<Inventory>,
    sender: mpsc::Sender<Equipment>,
    receiver: mpsc::Receiver<Equipment>,
}

impl Looking {
    /// Looks for the first time. Where that takes too long the agent begins with what it knows without asking, and reports the
    /// rest once it is found.
    pub(super) fn begin(inventory: Inventory) -> (Self, Equipment) {
        // One look at a time: whatever makes it slow, as a disk that hangs, holds up nothing else.
        let (sender, receiver) = mpsc::channel(1);
        let inventory = Arc::new(inventory);
        let (late, looks) = (sender.clone().try_reserve_owned(), inventory.clone());
        let later = move |found| drop(late.map(|permit| permit.send(found)));
        let found = within(FIRST_WAIT_MAX, move || looks.look(0, None), later);
        let found = found.unwrap_or_else(|| inventory.glance());
        inventory.warn_of_what_lacks(&found);
        (Self { inventory, sender, receiver }, found)
    }

    /// What the last look has found.
    pub(super) async fn found(&mut self) -> Option<Equipment> {
        self.receiver.recv().await
    }
}

/// No thread of the async runtime: that waits for its threads at the end, and a look may never be over.
fn spawn(look: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name("look".into()).spawn(look) {
        tracing::warn!(%error, "the node is not looked at now: no thread could be started");
    }
}

/// What `look` finds, if it does so in time; else it goes to `later`, some day.
fn within<T: Send + 'static>(
    at_most: Duration,
    look: impl FnOnce() -> T + Send + 'static,
    later: impl FnOnce(T) + Send + 'static,
) -> Option<T> {
    // Without room for anything: what is sent has been taken, or is given back.
    let (sender, receiver) = sync_channel(0);
    spawn(move || {
        if let Err(SendError(found)) = sender.send(look()) {
            later(found);
        }
    });
    receiver.recv_timeout(at_most).ok()
}

impl Agent {
    /// Begins to look, unless that is still going on.
    pub(super) fn look_again(&self) {
        let Ok(permit) = self.looking.sender.clone().try_reserve_owned() else { return };
        let (inventory, before) = (self.looking.inventory.clone(), self.context.equipment());
        let held = self.disk_limits.held_bytes();
        spawn(move || drop(permit.send(inventory.look(held, Some(&before)))));
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
    fn what_is_found_too_late_is_told_later() {
        let long = Duration::from_secs(60);
        assert_eq!(within(long, || 1, |_| panic!("it was in time")), Some(1));
        let (go, waits) = sync_channel::<()>(0);
        let (told, hears) = sync_channel(1);
        let look = move || {
            let _ = waits.recv();
            2
        };
        assert_eq!(
            within(Duration::from_millis(1), look, move |found| told.send(found).expect("heard")),
            None
        );
        drop(go);
        assert_eq!(hears.recv(), Ok(2));
    }
}
