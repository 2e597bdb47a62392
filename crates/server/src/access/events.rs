//! Changes of the state, as one caller may see them.

use std::sync::Arc;

use berth_model::{Index, event::Event};

use super::{Access, CallerView, Capability};
use crate::{Change, EventBatch, Subscription, SubscriptionError};

/// A caller's place in the order of changes.
#[derive(Debug)]
pub(crate) struct CallerEvents {
    subscription: Subscription,
    access: Arc<Access>,
}

impl CallerEvents {
    pub fn new(subscription: Subscription, access: Arc<Access>) -> Self {
        Self { subscription, access }
    }

    /// The next batch, as soon as there is one.
    ///
    /// # Errors
    /// When the follower was too slow and what it had to read next has been dropped.
    pub async fn next(&mut self) -> Result<CallerBatch, SubscriptionError> {
        Ok(CallerBatch::new(self.subscription.next().await?, &self.access))
    }

    /// The next batch if it is there.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn try_next(&mut self) -> Result<Option<CallerBatch>, SubscriptionError> {
        Ok(self.subscription.try_next()?.map(|batch| CallerBatch::new(batch, &self.access)))
    }

    /// How many batches are there to be taken.
    pub fn waiting(&self) -> u64 {
        self.subscription.waiting()
    }
}

/// All changes of one index.
#[derive(Debug, Clone)]
pub(crate) struct CallerBatch {
    batch: Arc<EventBatch>,
    view: CallerView,
}

impl CallerBatch {
    fn new(batch: Arc<EventBatch>, access: &Arc<Access>) -> Self {
        let view = CallerView::new(batch.view.clone(), access.clone());
        Self { batch, view }
    }

    /// Where they stand.
    pub fn index(&self) -> Index {
        self.batch.index
    }

    /// The state they led to.
    pub fn view(&self) -> &CallerView {
        &self.view
    }

    /// How many changes there are, whoever sees them.
    pub fn len(&self) -> usize {
        self.batch.changes.len()
    }

    /// Those that the caller may see, in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.batch.changes.iter().filter(|change| self.view.shows(change))
    }
}

impl CallerView {
    /// Whether a change is one of what the caller sees.
    fn shows(&self, change: &Change) -> bool {
        let event = match change {
            Change::Observed(slot, _) => return self.alloc_row(*slot).is_some(),
            Change::Logged(event) => event,
        };
        match event {
            Event::NodeRegistered(_) | Event::NodeChanged(..) | Event::NodeCollected(..) => {
                self.access().sees_nodes()
            }
            Event::JobRegistered(slot) | Event::JobDeregistered(slot) => self.job_in(*slot).is_some(),
            // What is left of a purged job is none, and another may have its name.
            Event::JobLaunched(slot) | Event::JobScaled(slot, _) | Event::JobStatusChanged(slot) => {
                self.job_in(*slot).is_some_and(|row| !row.key.is_purged())
            }
            Event::JobPurged(_, key) | Event::JobCollected(_, key) => {
                !key.is_purged() && self.access().reaches(&key.namespace)
            }
            Event::AllocPlaced(slot)
            | Event::AllocStopped(slot)
            | Event::AllocUpdated(slot, _)
            | Event::AllocHealthChanged(slot)
            | Event::AllocMigrates(slot)
            | Event::AllocNodeChanged(slot)
            | Event::AllocReplaced(slot)
            | Event::AllocEnded(slot) => self.alloc_row(*slot).is_some(),
            Event::DeploymentChanged(id, _) => self.deployment(*id).is_some(),
            Event::EvalChanged(id) => self.eval(*id).is_some(),
            // Nothing says any more in which namespace they were.
            Event::AllocCollected(..) | Event::EvalCollected(_) | Event::DeploymentCollected(_) => {
                self.access().sees_everywhere()
            }
            Event::NamespaceChanged(name) => self.access().sees_namespace(name),
            Event::NodePoolChanged(name) => self.access().reads_node_pool(name),
            Event::QuotaChanged(_) => self.access().sees_quotas(),
            Event::AclChanged(_) => self.access().has(Capability::Management),
            Event::VariableWritten(key) | Event::VariableDeleted(key) => {
                self.access().reaches_variable(key, Capability::VariablesList)
            }
            Event::KeyringChanged | Event::SchedulerConfigChanged | Event::Restored => true,
        }
    }
}
