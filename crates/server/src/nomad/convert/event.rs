//! Changes, as events of the stream.

use berth_api::http::{Allocation, Deployment, Evaluation, Node, NodePool, ScalingEvent, VariableMetadata};
use berth_model::{
    JobKey,
    event::{AclObject, DeploymentChange, NodeChange, StateChange as Logged},
    variable::VariableKey,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    allocation, deployment::deployment_of, evaluation, job::job_with, node, redact::without_secrets,
    scale::scaling_event,
};
use crate::{
    Change,
    access::{Access, AllocParts, CallerChange},
    events::{EventObject, JobObject},
    http::text::Text,
    nomad::{pools, variables},
};

/// What a change is about: enough to decide whether a follower wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject<'v> {
    /// `Job`, `Allocation`, `Evaluation`, `Deployment`, `Node`, `NodePool` or `Variable`.
    pub topic: &'static str,
    /// The type of the event, as `JobRegistered`.
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
pub fn subject<'v>(changed: CallerChange<'v>) -> Option<Subject<'v>> {
    match changed.change {
        Change::Observed(..) => {
            Some(Subject { observed: true, ..alloc_subject(changed, "AllocationUpdated")? })
        }
        Change::Logged(event) => logged(changed, event),
    }
}

fn logged<'v>(changed: CallerChange<'v>, event: &'v Logged) -> Option<Subject<'v>> {
    match event {
        Logged::NodeRegistered(_) => node_subject(changed.past, "NodeRegistration"),
        Logged::NodeChanged(_, what) => {
            let kind = match what {
                NodeChange::Status => "NodeStreamEvent",
                NodeChange::Eligibility => "NodeEligibility",
                NodeChange::Drain => "NodeDrain",
            };
            node_subject(changed.past, kind)
        }
        Logged::NodeCollected(_, id) => Some(gone("Node", "NodeDeregistration", (*id).into())),
        Logged::JobRegistered(_) => job_subject(past_key(changed.past)?, "JobRegistered"),
        Logged::JobDeregistered(_) => job_subject(past_key(changed.past)?, "JobDeregistered"),
        Logged::JobLaunched(_) => job_subject(past_key(changed.past)?, "JobLaunched"),
        Logged::JobScaled(..) => job_subject(past_key(changed.past)?, "JobScaled"),
        Logged::JobStatusChanged(_) => job_subject(past_key(changed.past)?, "JobStatusChanged"),
        Logged::JobPurged(_, key) | Logged::JobCollected(_, key) => job_subject(key, "JobCollected"),
        Logged::AllocPlaced(_) | Logged::AllocUpdated(..) => alloc_subject(changed, "PlanResult"),
        Logged::AllocStopped(_) | Logged::AllocMigrates(_) | Logged::AllocReplaced(_) => {
            alloc_subject(changed, "AllocationUpdateDesiredStatus")
        }
        Logged::AllocEnded(_) | Logged::AllocHealthChanged(_) | Logged::AllocNodeChanged(_) => {
            alloc_subject(changed, "AllocationUpdated")
        }
        Logged::DeploymentChanged(_, what) => deployment_subject(changed.past, *what),
        Logged::DeploymentCollected(id) => Some(gone("Deployment", "DeploymentCollected", (*id).into())),
        Logged::AllocCollected(_, id, _) => Some(gone("Allocation", "AllocationCollected", (*id).into())),
        Logged::EvalChanged(_) => eval_subject(changed.past),
        Logged::EvalCollected(id) => Some(gone("Evaluation", "EvaluationCollected", (*id).into())),
        Logged::AclChanged(object) => acl(changed.past, object),
        Logged::NodePoolChanged(name) => {
            let is_there = matches!(changed.past, EventObject::NodePool(_));
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
fn acl<'v>(past: &EventObject, object: &'v AclObject) -> Option<Subject<'v>> {
    let is_there = matches!(past, EventObject::There);
    let of = |topic, [upserted, deleted]: [&'static str; 2], key: Text<'v>| {
        Some(gone(topic, if is_there { upserted } else { deleted }, key))
    };
    match object {
        AclObject::Policy(name) => {
            of("ACLPolicy", ["ACLPolicyUpserted", "ACLPolicyDeleted"], (&**name).into())
        }
        AclObject::Role(id) => of("ACLRole", ["ACLRoleUpserted", "ACLRoleDeleted"], (*id).into()),
        AclObject::Token(id) => of("ACLToken", ["ACLTokenUpserted", "ACLTokenDeleted"], (*id).into()),
        // They are between those who have them.
        AclObject::OneTimeToken(_)
        | AclObject::JoinToken
        | AclObject::Certificates(_)
        | AclObject::ServerCertificates(_) => None,
    }
}

fn node_subject(past: &EventObject, kind: &'static str) -> Option<Subject<'static>> {
    let EventObject::Node(node) = past else { return None };
    Some(gone("Node", kind, node.0.id.into()))
}

fn past_key(past: &EventObject) -> Option<&JobKey> {
    if let EventObject::Job(job) = past { Some(&job.row.job().key) } else { None }
}

fn job_subject<'v>(key: &'v JobKey, kind: &'static str) -> Option<Subject<'v>> {
    Some(Subject { namespace: Some(&key.namespace), ..gone("Job", kind, (&*key.id).into()) })
}

fn alloc_subject<'v>(changed: CallerChange<'v>, kind: &'static str) -> Option<Subject<'v>> {
    let EventObject::Alloc(alloc) = changed.past else { return None };
    let job = &alloc.job.key;
    let subject = gone("Allocation", kind, alloc.row.id.into());
    let node = alloc.node.as_ref().map(|node| node.id.into());
    let deployment = alloc.deployment.as_ref().map(|deployment| deployment.id.into());
    let filter_keys = [Some((&*job.id).into()), node, deployment].into_iter().flatten().collect();
    Some(Subject { namespace: Some(&job.namespace), filter_keys, ..subject })
}

fn eval_subject(past: &EventObject) -> Option<Subject<'_>> {
    let EventObject::Eval(eval, _) = past else { return None };
    let subject = gone("Evaluation", "EvaluationUpdated", eval.id.into());
    let filter_keys = vec![eval.job.name().into()];
    Some(Subject { namespace: Some(&eval.job.namespace), filter_keys, ..subject })
}

fn deployment_subject(past: &EventObject, what: DeploymentChange) -> Option<Subject<'_>> {
    let EventObject::Deployment(deployment, _) = past else { return None };
    let kind = match what {
        DeploymentChange::Status => "DeploymentStatusUpdate",
        DeploymentChange::Promotion => "DeploymentPromotion",
        DeploymentChange::AllocHealth => "DeploymentAllocHealth",
    };
    let subject = gone("Deployment", kind, deployment.id.into());
    let filter_keys = vec![(&*deployment.job.id).into()];
    Some(Subject { namespace: Some(&deployment.job.namespace), filter_keys, ..subject })
}

/// What changed, as it was after the whole batch of changes; none when it is gone.
pub fn payload<'v>(changed: CallerChange<'v>) -> Option<Payload<'v>> {
    let CallerChange { change, past, access } = changed;
    Some(match past {
        EventObject::Nothing | EventObject::There => return None,
        EventObject::Node(parts) => Payload::Node(Box::new(node(&parts.0, &parts.1))),
        EventObject::Job(past) => match change {
            Change::Logged(Logged::JobScaled(_, group)) => {
                let event = past.row.scaling_events(group).next().map(scaling_event);
                let job = job_payload(past, access);
                Payload::Scaled(Box::new(Scaled { job, group: group.clone(), scaling_event: event }))
            }
            _ => Payload::Job(job_payload(past, access)),
        },
        EventObject::Alloc(past) => {
            Payload::Allocation(Box::new(allocation(&AllocParts::of_event(past, access)?)))
        }
        EventObject::Eval(eval, deployment) => Payload::Evaluation(Box::new(evaluation(eval, *deployment))),
        EventObject::Deployment(of, job) => Payload::Deployment(Box::new(deployment_of(*job, of))),
        EventObject::NodePool(row) => Payload::NodePool(Box::new(pools::pool(&row.pool.name, Some(row)))),
        EventObject::Variable(variable) => Payload::Variable(Box::new(variables::metadata(variable))),
    })
}

fn job_payload(past: &JobObject, access: &Access) -> Value {
    let whole = job_with(past.outcome, &past.row, past.row.current());
    if access.reads_jobs_of(&past.row.key.namespace) { whole } else { without_secrets(whole) }
}
