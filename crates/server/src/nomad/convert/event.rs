//! Changes, as the event stream reports them.

use berth_api::http::{Allocation, Deployment, Evaluation, Node, NodePool, ScalingEvent, VariableMetadata};
use berth_model::{
    AllocId, DeploymentId, EvalId, JobKey, NodeId,
    event::{AclObject, DeploymentChange, Event as Logged, NodeChange},
    store::{AllocSlot, JobSlot},
    variable::VariableKey,
};
use serde::Serialize;
use serde_json::Value;

use super::{allocation, deployment, evaluation, job, node, redact::without_secrets, scale::scaling_event};
use crate::{
    Change,
    access::CallerView,
    http::text::Text,
    nomad::{pools, variables},
};

/// What a change is about: enough to decide whether a follower wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject<'v> {
    /// `Job`, `Allocation`, `Evaluation`, `Deployment`, `Node`, `NodePool` or `Variable`.
    pub topic: &'static str,
    /// What happened.
    pub kind: &'static str,
    /// The id of what changed.
    pub key: Text<'v>,
    /// Its namespace; none for a node, and for what is gone.
    pub namespace: Option<&'v str>,
    /// Further ids under which a filter finds it.
    pub filter_keys: Vec<Text<'v>>,
    /// Whether it was observed, and is not in the log.
    pub observed: bool,
}

/// What changed, written under its topic's name.
#[derive(Debug, Serialize)]
pub enum Payload<'v> {
    /// A node.
    Node(Box<Node>),
    /// A job: whole for those who may read it, without its secrets for others.
    Job(Value),
    /// An allocation, without its job.
    Allocation(Box<Allocation<Text<'v>>>),
    /// An evaluation.
    Evaluation(Box<Evaluation>),
    /// A deployment.
    Deployment(Box<Deployment>),
    /// A node pool.
    NodePool(Box<NodePool>),
    /// A variable, without what is in it.
    Variable(Box<VariableMetadata>),
    /// A job, and what was asked of its scale.
    #[serde(untagged)]
    Scaled(Box<Scaled>),
}

/// A job whose group was scaled, or that a message about it was left with.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Scaled {
    job: Value,
    /// The group's name.
    group: String,
    /// The newest one of the group.
    scaling_event: Option<ScalingEvent>,
}

/// What a change is about; none when what changed is gone by the end of its batch, which a later change reports.
pub fn subject<'v>(view: &'v CallerView, change: &'v Change) -> Option<Subject<'v>> {
    match change {
        Change::Observed(slot, id) => {
            let subject = alloc(view, *slot, "AllocationUpdated")?;
            Some(Subject { observed: true, ..subject }).filter(|subject| subject.key == (*id).into())
        }
        Change::Logged(event) => logged(view, event),
    }
}

fn logged<'v>(view: &'v CallerView, event: &'v Logged) -> Option<Subject<'v>> {
    match event {
        Logged::NodeRegistered(slot) => node_subject(view.node_in(*slot)?.0.id, "NodeRegistration"),
        Logged::NodeChanged(slot, what) => {
            let kind = match what {
                NodeChange::Status => "NodeStreamEvent",
                NodeChange::Eligibility => "NodeEligibility",
                NodeChange::Drain => "NodeDrain",
            };
            node_subject(view.node_in(*slot)?.0.id, kind)
        }
        Logged::NodeCollected(_, id) => node_subject(*id, "NodeDeregistration"),
        Logged::JobRegistered(slot) => job_subject(&view.job_in(*slot)?.job().key, "JobRegistered"),
        Logged::JobDeregistered(slot) => job_subject(&view.job_in(*slot)?.job().key, "JobDeregistered"),
        Logged::JobLaunched(slot) => job_subject(&view.job_in(*slot)?.job().key, "JobLaunched"),
        Logged::JobScaled(slot, _) => job_subject(&view.job_in(*slot)?.job().key, "JobScaled"),
        Logged::JobStatusChanged(slot) => job_subject(&view.job_in(*slot)?.job().key, "JobStatusChanged"),
        Logged::JobPurged(_, key) | Logged::JobCollected(_, key) => job_subject(key, "JobCollected"),
        Logged::AllocPlaced(slot) | Logged::AllocUpdated(slot, _) => alloc(view, *slot, "PlanResult"),
        Logged::AllocStopped(slot) | Logged::AllocMigrates(slot) | Logged::AllocReplaced(slot) => {
            alloc(view, *slot, "AllocationUpdateDesiredStatus")
        }
        Logged::AllocEnded(slot) | Logged::AllocHealthChanged(slot) | Logged::AllocNodeChanged(slot) => {
            alloc(view, *slot, "AllocationUpdated")
        }
        Logged::DeploymentChanged(id, what) => deployment_subject(view, *id, *what),
        Logged::DeploymentCollected(id) => Some(gone("Deployment", "DeploymentCollected", (*id).into())),
        Logged::AllocCollected(_, id, _) => Some(gone("Allocation", "AllocationCollected", (*id).into())),
        Logged::EvalChanged(id) => eval(view, *id),
        Logged::EvalCollected(id) => Some(gone("Evaluation", "EvaluationCollected", (*id).into())),
        Logged::AclChanged(object) => acl(view, object),
        Logged::NodePoolChanged(name) => {
            let is_there = view.described_node_pool(name).is_some();
            let kind = if is_there { "NodePoolUpserted" } else { "NodePoolDeleted" };
            Some(gone("NodePool", kind, (&**name).into()))
        }
        Logged::VariableWritten(key) => Some(variable_subject(key, "VariableUpserted")),
        Logged::VariableDeleted(key) => Some(variable_subject(key, "VariableDeleted")),
        // Of no topic that clients know.
        Logged::SchedulerConfigChanged
        | Logged::KeyringChanged
        | Logged::NamespaceChanged(_)
        | Logged::QuotaChanged(_)
        | Logged::Restored => None,
    }
}

fn variable_subject<'v>(key: &'v VariableKey, kind: &'static str) -> Subject<'v> {
    Subject { namespace: Some(&key.namespace), ..gone("Variable", kind, (&*key.path).into()) }
}

fn gone<'v>(topic: &'static str, kind: &'static str, key: Text<'v>) -> Subject<'v> {
    Subject { topic, kind, key, namespace: None, filter_keys: Vec::new(), observed: false }
}

/// What may be done changed; what it is now is not contained here.
fn acl<'v>(view: &'v CallerView, object: &'v AclObject) -> Option<Subject<'v>> {
    let acl = view.acl().ok()?;
    Some(match object {
        AclObject::Policy(name) if acl.policy(name).is_some() => {
            gone("ACLPolicy", "ACLPolicyUpserted", (&**name).into())
        }
        AclObject::Policy(name) => gone("ACLPolicy", "ACLPolicyDeleted", (&**name).into()),
        AclObject::Role(id) if acl.role(*id).is_some() => gone("ACLRole", "ACLRoleUpserted", (*id).into()),
        AclObject::Role(id) => gone("ACLRole", "ACLRoleDeleted", (*id).into()),
        AclObject::Token(id) if acl.token(*id).is_some() => {
            gone("ACLToken", "ACLTokenUpserted", (*id).into())
        }
        AclObject::Token(id) => gone("ACLToken", "ACLTokenDeleted", (*id).into()),
        // They are between those who have them.
        AclObject::OneTimeToken(_)
        | AclObject::JoinToken
        | AclObject::Certificates(_)
        | AclObject::ServerCertificates(_) => return None,
    })
}

fn node_subject<'v>(id: NodeId, kind: &'static str) -> Option<Subject<'v>> {
    Some(gone("Node", kind, id.into()))
}

fn job_subject<'v>(key: &'v JobKey, kind: &'static str) -> Option<Subject<'v>> {
    Some(Subject { namespace: Some(&key.namespace), ..gone("Job", kind, (&*key.id).into()) })
}

fn alloc<'v>(view: &'v CallerView, slot: AllocSlot, kind: &'static str) -> Option<Subject<'v>> {
    let parts = view.alloc_in(slot)?;
    let job = &parts.job.key;
    let subject = gone("Allocation", kind, parts.row.id.into());
    let node = parts.node.map(|node| node.id.into());
    let deployment = parts.deployment.map(|deployment| deployment.id.into());
    let filter_keys = [Some((&*job.id).into()), node, deployment].into_iter().flatten().collect();
    Some(Subject { namespace: Some(&job.namespace), filter_keys, ..subject })
}

fn eval(view: &CallerView, id: EvalId) -> Option<Subject<'_>> {
    let job = &view.eval(id)?.job;
    let subject = gone("Evaluation", "EvaluationUpdated", id.into());
    let filter_keys = vec![job.name().into()];
    Some(Subject { namespace: Some(&job.namespace), filter_keys, ..subject })
}

fn deployment_subject(view: &CallerView, id: DeploymentId, what: DeploymentChange) -> Option<Subject<'_>> {
    let deployment = view.deployment(id)?;
    let kind = match what {
        DeploymentChange::Status => "DeploymentStatusUpdate",
        DeploymentChange::Promotion => "DeploymentPromotion",
        DeploymentChange::AllocHealth => "DeploymentAllocHealth",
    };
    let subject = gone("Deployment", kind, id.into());
    let filter_keys = vec![(&*deployment.job.id).into()];
    Some(Subject { namespace: Some(&deployment.job.namespace), filter_keys, ..subject })
}

/// What changed, as it was after the whole batch of changes; none when it is gone.
pub fn payload<'v>(view: &'v CallerView, change: &Change) -> Option<Payload<'v>> {
    match change {
        Change::Observed(slot, id) => alloc_payload(view, *slot, Some(*id)),
        Change::Logged(event) => logged_payload(view, event),
    }
}

fn logged_payload<'v>(view: &'v CallerView, event: &Logged) -> Option<Payload<'v>> {
    match event {
        Logged::NodeRegistered(slot) | Logged::NodeChanged(slot, _) => {
            let (row, detail) = view.node_in(*slot)?;
            Some(Payload::Node(Box::new(node(row, detail))))
        }
        Logged::JobRegistered(slot)
        | Logged::JobDeregistered(slot)
        | Logged::JobLaunched(slot)
        | Logged::JobStatusChanged(slot) => job_payload(view, *slot).map(Payload::Job),
        Logged::JobScaled(slot, group) => {
            let event = view.job_in(*slot)?.scaling_events(group).next().map(scaling_event);
            let job = job_payload(view, *slot)?;
            Some(Payload::Scaled(Box::new(Scaled { job, group: group.clone(), scaling_event: event })))
        }
        Logged::AllocPlaced(slot)
        | Logged::AllocUpdated(slot, _)
        | Logged::AllocStopped(slot)
        | Logged::AllocHealthChanged(slot)
        | Logged::AllocMigrates(slot)
        | Logged::AllocNodeChanged(slot)
        | Logged::AllocReplaced(slot)
        | Logged::AllocEnded(slot) => alloc_payload(view, *slot, None),
        Logged::EvalChanged(id) => Some(Payload::Evaluation(Box::new(evaluation(view.eval(*id)?)))),
        Logged::DeploymentChanged(id, _) => {
            let changed = view.deployment(*id)?;
            Some(Payload::Deployment(Box::new(deployment(view, changed))))
        }
        Logged::VariableWritten(key) => {
            Some(Payload::Variable(Box::new(variables::metadata(view.listed_variable(key)?))))
        }
        Logged::NodePoolChanged(name) => {
            let row = view.described_node_pool(name)?;
            Some(Payload::NodePool(Box::new(pools::pool(name, Some(row)))))
        }
        Logged::DeploymentCollected(_)
        | Logged::VariableDeleted(_)
        | Logged::KeyringChanged
        | Logged::NodeCollected(..)
        | Logged::JobPurged(..)
        | Logged::JobCollected(..)
        | Logged::AllocCollected(..)
        | Logged::EvalCollected(_)
        | Logged::AclChanged(_)
        | Logged::NamespaceChanged(_)
        | Logged::QuotaChanged(_)
        | Logged::SchedulerConfigChanged
        | Logged::Restored => None,
    }
}

fn job_payload(view: &CallerView, slot: JobSlot) -> Option<Value> {
    let row = view.job_in(slot)?;
    let whole = job(view, row, row.current());
    let reads_it = view.access().reads_jobs_of(&row.key.namespace);
    Some(if reads_it { whole } else { without_secrets(whole) })
}

fn alloc_payload(view: &CallerView, slot: AllocSlot, id: Option<AllocId>) -> Option<Payload<'_>> {
    let parts = view.alloc_in(slot).filter(|parts| id.is_none_or(|id| parts.row.id == id))?;
    Some(Payload::Allocation(Box::new(allocation(&parts))))
}
