//! The objects that changes concern, as they were after the change: all that followers may receive of them, without the state. A
//! batch that held its state would pin a page of each table that later changes replace.

mod alloc;

use std::sync::Arc;

use berth_model::{
    DeploymentId,
    deployment::Deployment,
    eval::{Eval, EvalStatus},
    event::{AclObject, StateChange},
    store::{JobRow, JobSlot, JobVersion, NodeDetail, NodePoolRow, NodeRow, NodeSlot, PageTree},
    variable::Variable,
};

pub use self::alloc::AllocObject;
use super::Change;
use crate::shared::View;

/// What a change is about, as it was after the last change of its batch.
#[derive(Debug)]
pub enum EventObject {
    /// It is gone, or the change itself says all there is.
    Nothing,
    /// It exists; its content is left out.
    There,
    /// A node.
    Node(Box<(NodeRow, NodeDetail)>),
    /// A job.
    Job(Box<JobObject>),
    /// An allocation.
    Alloc(Box<AllocObject>),
    /// An evaluation, and the deployment that it reports.
    Eval(Arc<Eval>, Option<DeploymentId>),
    /// A deployment.
    Deployment(Arc<Deployment>, DeploymentJob),
    /// A node pool that operators described.
    NodePool(Box<NodePoolRow>),
    /// A variable.
    Variable(Arc<Variable>),
}

/// A job in its newest version.
#[derive(Debug)]
pub struct JobObject {
    /// Without older versions, the text of the newest one and counts, which change with every allocation.
    pub row: JobRow,
    /// As [`View::job_outcome`].
    pub outcome: &'static str,
}

/// What is reported of a job with its deployment.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeploymentJob {
    /// Where the version was registered that is deployed; 0 once that is not kept.
    pub version_index: u64,
    /// Of the newest version; 0 once the job is gone.
    pub priority: u8,
}

impl EventObject {
    /// What a change in this state is about.
    pub(super) fn of(view: &View, change: &Change) -> Self {
        let found = match change {
            Change::Observed(slot, id) => {
                view.past_alloc(*slot).filter(|alloc| alloc.row.id == *id).map(Self::Alloc)
            }
            Change::Logged(event) => view.past(event),
        };
        found.unwrap_or(Self::Nothing)
    }
}

impl View {
    fn past(&self, event: &StateChange) -> Option<EventObject> {
        let store = &self.store;
        match event {
            StateChange::NodeRegistered(slot) | StateChange::NodeChanged(slot, _) => self.past_node(*slot),
            StateChange::JobRegistered(slot)
            | StateChange::JobDeregistered(slot)
            | StateChange::JobLaunched(slot)
            | StateChange::JobScaled(slot, _)
            | StateChange::JobStatusChanged(slot) => self.past_job(*slot),
            StateChange::AllocPlaced(slot)
            | StateChange::AllocUpdated(slot, _)
            | StateChange::AllocStopped(slot)
            | StateChange::AllocHealthChanged(slot)
            | StateChange::AllocMigrates(slot)
            | StateChange::AllocNodeChanged(slot)
            | StateChange::AllocReplaced(slot)
            | StateChange::AllocEnded(slot) => self.past_alloc(*slot).map(EventObject::Alloc),
            StateChange::EvalChanged(id) => {
                let eval = store.eval(*id)?;
                Some(EventObject::Eval(eval.clone(), self.deployment_of_eval(eval)))
            }
            StateChange::DeploymentChanged(id, _) => {
                let deployment = store.deployments().get(*id)?;
                Some(EventObject::Deployment(deployment.clone(), self.deployment_job(deployment)))
            }
            StateChange::NodePoolChanged(name) => {
                store.node_pools().get(name).map(|row| EventObject::NodePool(Box::new(row.clone())))
            }
            StateChange::VariableWritten(key) => {
                store.variables().get(key).cloned().map(EventObject::Variable)
            }
            StateChange::AclChanged(object) => self.has(object).then_some(EventObject::There),
            StateChange::NodeCollected(..)
            | StateChange::JobPurged(..)
            | StateChange::JobCollected(..)
            | StateChange::AllocCollected(..)
            | StateChange::EvalCollected(_)
            | StateChange::DeploymentCollected(_)
            | StateChange::NamespaceChanged(_)
            | StateChange::QuotaChanged(_)
            | StateChange::KeyringChanged
            | StateChange::VariableDeleted(_)
            | StateChange::SchedulerConfigChanged
            | StateChange::Restored => None,
        }
    }

    fn past_node(&self, slot: NodeSlot) -> Option<EventObject> {
        let nodes = self.store.nodes();
        // Ports change with every allocation, and no event shows them.
        let detail = NodeDetail { ports: Arc::default(), ..nodes.detail(slot)?.clone() };
        Some(EventObject::Node(Box::new((nodes.row(slot)?.clone(), detail))))
    }

    fn past_job(&self, slot: JobSlot) -> Option<EventObject> {
        let row = self.store.jobs().row(slot)?;
        let outcome = self.job_outcome(row);
        let mut row = row.clone();
        row.versions = Arc::new(vec![JobVersion { submission: None, ..row.current().clone() }]);
        row.counts = PageTree::default();
        Some(EventObject::Job(Box::new(JobObject { row, outcome })))
    }

    /// What is reported of a job with its deployment.
    pub(crate) fn deployment_job(&self, of: &Deployment) -> DeploymentJob {
        let row = self.store.job(&of.job).filter(|row| !row.key.is_purged());
        let version = row.and_then(|row| row.version(of.job_version));
        DeploymentJob {
            version_index: version.map_or(0, |version| version.index.0),
            priority: row.map_or(0, |row| row.job().priority),
        }
    }

    /// The deployment that an evaluation reports once it was planned: the latest of its job then, made by its plan or before it.
    pub(crate) fn deployment_of_eval(&self, eval: &Eval) -> Option<DeploymentId> {
        if !matches!(eval.status, EvalStatus::Complete | EvalStatus::Failed) {
            return None;
        }
        let is_made = |deployment: &&Arc<Deployment>| deployment.create_index <= eval.modify_index;
        self.store.deployments().of_job(&eval.job).rev().find(is_made).map(|deployment| deployment.id)
    }

    fn has(&self, object: &AclObject) -> bool {
        let acl = self.store.acl();
        match object {
            AclObject::Policy(name) => acl.policy(name).is_some(),
            AclObject::Role(id) => acl.role(*id).is_some(),
            AclObject::Token(id) => acl.token(*id).is_some(),
            AclObject::OneTimeToken(_)
            | AclObject::JoinToken
            | AclObject::Certificates(_)
            | AclObject::ServerCertificates(_) => false,
        }
    }
}
