//! Looks from time to time whether the node is still what it was, and tells the servers what has changed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Agent;
use super::fingerprint::{Equipment, Inventory};

/// How often it is looked.
pub(super) const EVERY: Duration = Duration::from_secs(10);

/// Looks at the node.
pub(super) struct Looking {
    inventory: Arc<Inventory>,
    sender: mpsc::Sender<Equipment>,
    receiver: mpsc::Receiver<Equipment>,
}

impl Looking {
    pub(super) fn new(inventory: Inventory) -> Self {
        // One look at a time: whatever makes it slow, as a disk that hangs, holds up nothing else.
        let (sender, receiver) = mpsc::channel(1);
        Self { inventory: Arc::new(inventory), sender, receiver }
    }

    /// What the last look has found.
    pub(super) async fn found(&mut self) -> Option<Equipment> {
        self.receiver.recv().await
    }
}

impl Agent {
    /// Begins to look, unless that is still going on.
    pub(super) fn look_again(&self) {
        let Ok(permit) = self.looking.sender.clone().try_reserve_owned() else { return };
        let (inventory, before) = (self.looking.inventory.clone(), self.context.equipment());
        let held = self.disk_limits.held_bytes();
        // No thread of the async runtime: that waits for its threads at the end, and a look may never be over.
        let look = move || drop(permit.send(inventory.look(held, Some(&before))));
        if let Err(error) = std::thread::Builder::new().name("look".into()).spawn(look) {
            tracing::warn!(%error, "the node is not looked at now: no thread could be started");
        }
    }

    /// What a task starts with from now on, and what the servers are told, is what is there now.
    pub(super) fn on_found(&mut self, found: Equipment) {
        let before = self.context.equipment();
        if found.node != before.node {
            tracing::info!(changes = found.changes_since(&before).join(", "), "the node has changed");
            self.session.node_changed(found.node.clone());
        }
        self.context.equip(Arc::new(found));
    }
}
