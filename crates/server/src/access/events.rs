//! Changes of the state, as a caller may see them.

use std::sync::Arc;

use berth_model::{Index, event::StateChange};

use super::{Access, Capability};
use crate::{
    Change, EventBatch, Subscription, SubscriptionError,
    events::{ChangeRecord, EventObject},
};

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
        Ok(CallerBatch { batch: self.subscription.next().await?, access: self.access.clone() })
    }

    /// The next batch if it is there.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn try_next(&mut self) -> Result<Option<CallerBatch>, SubscriptionError> {
        Ok(self.subscription.try_next()?.map(|batch| CallerBatch { batch, access: self.access.clone() }))
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
    access: Arc<Access>,
}

/// A change that the caller may see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallerChange<'b> {
    /// The change itself.
    pub change: &'b Change,
    /// What it happened to.
    pub past: &'b EventObject,
    /// What the caller's request may reach.
    pub access: &'b Access,
}

impl CallerBatch {
    /// Where they stand.
    pub fn index(&self) -> Index {
        self.batch.index
    }

    /// How many changes there are, whoever sees them.
    pub fn len(&self) -> usize {
        self.batch.changes.len()
    }

    /// Those that the caller may see, in order.
    pub fn changes(&self) -> impl Iterator<Item = CallerChange<'_>> {
        let access = &*self.access;
        let all = self.batch.changes.iter();
        all.map(|ChangeRecord { change, past }| CallerChange { change, past, access })
            .filter(CallerChange::is_shown)
    }
}

impl CallerChange<'_> {
    fn is_shown(&self) -> bool {
        let Change::Logged(event) = self.change else { return self.is_of_reached() };
        let access = self.access;
        match event {
            StateChange::NodeRegistered(_)
            | StateChange::NodeChanged(..)
            | StateChange::NodeCollected(..) => access.sees_nodes(),
            // What is left of a purged job is none, and another may have its name.
            StateChange::JobLaunched(_) | StateChange::JobScaled(..) | StateChange::JobStatusChanged(_) => {
                self.is_of_reached() && !matches!(self.past, EventObject::Job(job) if job.row.key.is_purged())
            }
            StateChange::JobPurged(_, key) | StateChange::JobCollected(_, key) => {
                !key.is_purged() && access.reaches(&key.namespace)
            }
            StateChange::JobRegistered(_)
            | StateChange::JobDeregistered(_)
            | StateChange::AllocPlaced(_)
            | StateChange::AllocStopped(_)
            | StateChange::AllocUpdated(..)
            | StateChange::AllocHealthChanged(_)
            | StateChange::AllocMigrates(_)
            | StateChange::AllocNodeChanged(_)
            | StateChange::AllocReplaced(_)
            | StateChange::AllocEnded(_)
            | StateChange::DeploymentChanged(..)
            | StateChange::EvalChanged(_) => self.is_of_reached(),
            // Nothing says any more in which namespace they were.
            StateChange::AllocCollected(..)
            | StateChange::EvalCollected(_)
            | StateChange::DeploymentCollected(_) => access.sees_everywhere(),
            StateChange::NamespaceChanged(name) => access.sees_namespace(name),
            StateChange::NodePoolChanged(name) => access.reads_node_pool(name),
            StateChange::QuotaChanged(_) => access.sees_quotas(),
            StateChange::AclChanged(_) => access.has(Capability::Management),
            StateChange::VariableWritten(key) | StateChange::VariableDeleted(key) => {
                access.reaches_variable(key, Capability::VariablesList)
            }
            StateChange::KeyringChanged | StateChange::SchedulerConfigChanged | StateChange::Restored => true,
        }
    }

    /// Whether it is about something that is there, in a namespace that the request reaches.
    fn is_of_reached(&self) -> bool {
        let namespace = match self.past {
            EventObject::Job(job) => &job.row.key.namespace,
            EventObject::Alloc(alloc) => &alloc.job.key.namespace,
            EventObject::Eval(eval, _) => &eval.job.namespace,
            EventObject::Deployment(of, _) => &of.job.namespace,
            _ => return false,
        };
        self.access.reaches(namespace)
    }
}
