//! What is written to the replicated log: entries of commands, versioned from the first one.

mod cluster;
mod collect;
mod encoded;
mod entry;
mod jobs;
mod nodes;
mod plan;
mod refusal;
mod versions;

use minicbor::{Decode, Encode};

pub use cluster::{RestorePart, SetSchedulerConfig};
pub use collect::Collect;
pub use encoded::{CommandBytes, ENTRY_HEAD_BYTES_MAX, EncodedCommands, EncodedEntry};
pub use entry::{ENTRY_BYTES_MAX, ENTRY_VERSION, ENTRY_VERSION_MIN, Entry, EntryError};
pub use jobs::{DeregisterJob, LaunchJob, RegisterJob, RunJob, ScaleJob};
pub use nodes::{DrainNode, NewDrain};
pub use plan::{EvalOutcome, NextEval, PlanRecord};
pub use refusal::{Outcome, Refusal};
pub use versions::{NewTag, SetJobStable, TagVersion};

use crate::{
    acl::ChangeAcl,
    alloc::{AllocEnd, MigrateAlloc},
    deployment::{AllocHealth, PromoteDeployment, SetDeployment},
    eval::{Eval, EvalStatus},
    ids::{AllocId, EvalId, Index, NodeId},
    keyring::ChangeKeyring,
    namespace::Namespace,
    node::{Node, NodeStatus},
    node_pool::NodePool,
    quota::Quota,
    time::Timestamp,
    variable::ChangeVariable,
};

/// A change of the replicated state.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Command {
    /// Allows the leader to assign indexes up to and including this one.
    #[n(0)]
    GrantIndexes(#[n(0)] Index),
    /// A node introduces itself, or has changed.
    #[n(1)]
    RegisterNode(#[n(0)] Box<Node>),
    /// A node is ready, or down; with the index of the state on which that was decided, none in entries before version 4.
    #[n(2)]
    SetNodeStatus(
        #[n(0)] NodeId,
        #[n(1)] NodeStatus,
        #[n(2)]
        #[cbor(default)]
        Option<Index>,
    ),
    /// An operator opens or closes a node to new work.
    #[n(3)]
    SetNodeEligibility(#[n(0)] NodeId, #[n(1)] bool),
    /// A job is registered; carries its evaluation.
    #[n(4)]
    RegisterJob(#[n(0)] Box<RegisterJob>),
    /// A job is stopped; carries its evaluation.
    #[n(5)]
    DeregisterJob(#[n(0)] DeregisterJob),
    /// [`Self::CommitPlan`] as entries of version 1 have it: an old log is replayed as it was applied, whatever is
    /// checked today. Never proposed.
    #[n(6)]
    CommitPlanUnchecked(#[n(0)] Box<PlanRecord>),
    /// New evaluations.
    #[n(7)]
    CreateEvals(#[n(0)] Vec<Eval>),
    /// Allocations have ended.
    #[n(8)]
    EndAllocs(#[n(0)] Vec<AllocEnd>),
    /// Somebody asks for one allocation to end; carries its evaluation.
    #[n(9)]
    StopAlloc(#[n(0)] AllocId, #[n(1)] Box<Eval>),
    /// Evaluations change their status without a plan.
    #[n(10)]
    SetEvalStatus(#[n(0)] EvalId, #[n(1)] EvalStatus, #[n(2)] String),
    /// Garbage-collects objects that have ended and that nothing refers to.
    #[n(11)]
    Collect(#[n(0)] Box<Collect>),
    /// The count of a group changes; carries its evaluation.
    #[n(12)]
    ScaleJob(#[n(0)] Box<ScaleJob>),
    /// An operator sets how the cluster places.
    #[n(13)]
    SetSchedulerConfig(#[n(0)] Box<SetSchedulerConfig>),
    /// An operator creates or changes a namespace.
    #[n(14)]
    PutNamespace(#[n(0)] Box<Namespace>),
    /// An operator deletes an empty namespace.
    #[n(15)]
    DeleteNamespace(#[n(0)] String),
    /// An operator creates or changes a quota.
    #[n(16)]
    PutQuota(#[n(0)] Box<Quota>),
    /// An operator deletes a quota that no namespace has.
    #[n(17)]
    DeleteQuota(#[n(0)] String),
    /// A periodic job is due; carries the evaluation of its run.
    #[n(18)]
    LaunchJob(#[n(0)] Box<LaunchJob>),
    /// Part of a snapshot that is to replace the state.
    #[n(19)]
    RestorePart(#[n(0)] RestorePart),
    /// No more parts of a snapshot will come.
    #[n(20)]
    AbandonRestore,
    /// The first leader gives the cluster its identity, once.
    #[n(21)]
    FoundCluster(
        #[n(0)]
        #[cbor(with = "crate::codec::id128")]
        u128,
    ),
    /// What a planner decided and the applier accepted. A placement whose node is gone, down, closed or full by now is
    /// left out, and the state gets an evaluation that plans it again.
    #[n(22)]
    CommitPlan(#[n(0)] Box<PlanRecord>),
    /// The health of allocations as agents reported it, as far as active deployments depend on it.
    #[n(23)]
    SetAllocHealth(#[n(0)] Vec<AllocHealth>),
    /// Something becomes of a deployment.
    #[n(24)]
    SetDeployment(#[n(0)] Box<SetDeployment>),
    /// A deployment is promoted: its canaries are healthy.
    #[n(25)]
    PromoteDeployment(#[n(0)] Box<PromoteDeployment>),
    /// Somebody asks for a run of a parameterized or periodic job. Not in entries before version 4.
    #[n(26)]
    RunJob(#[n(0)] Box<RunJob>),
    /// An operator, or an agent that shuts down, has a node drained, or calls that off. Not in entries before
    /// version 4.
    #[n(27)]
    DrainNode(#[n(0)] Box<DrainNode>),
    /// Allocations are to leave the nodes that are drained.
    #[n(28)]
    MigrateAllocs(#[n(0)] Vec<MigrateAlloc>),
    /// Nothing is left on a node whose drain began then.
    #[n(29)]
    EndDrain(#[n(0)] NodeId, #[n(1)] Timestamp),
    /// Somebody says whether a version of a job has proved itself. Not in entries before version 4, as what follows.
    #[n(30)]
    SetJobStable(#[n(0)] Box<SetJobStable>),
    /// A version of a job gets a name, or loses it.
    #[n(31)]
    TagVersion(#[n(0)] Box<TagVersion>),
    /// An operator changes who may do what.
    #[n(32)]
    ChangeAcl(#[n(0)] Box<ChangeAcl>),
    /// A root key is added or removed.
    #[n(33)]
    ChangeKeyring(#[n(0)] Box<ChangeKeyring>),
    /// A variable is written or deleted, or variables are encrypted with another key.
    #[n(34)]
    ChangeVariable(#[n(0)] Box<ChangeVariable>),
    /// An operator creates or changes a node pool. Not in entries before version 6, as what follows.
    #[n(35)]
    PutNodePool(#[n(0)] Box<NodePool>),
    /// An operator deletes a node pool that nothing uses.
    #[n(36)]
    DeleteNodePool(#[n(0)] String),
    /// An evaluation has another priority than its job: whoever registers or stops the job has said so, in the same entry.
    #[n(37)]
    SetEvalPriority(#[n(0)] EvalId, #[n(1)] u8),
}

impl Command {
    /// The word for its kind, in metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::GrantIndexes(..) => "grant_indexes",
            Self::RegisterNode(..) => "register_node",
            Self::SetNodeStatus(..) => "set_node_status",
            Self::SetNodeEligibility(..) => "set_node_eligibility",
            Self::RegisterJob(..) => "register_job",
            Self::DeregisterJob(..) => "deregister_job",
            Self::CommitPlan(..) | Self::CommitPlanUnchecked(..) => "commit_plan",
            Self::CreateEvals(..) => "create_evals",
            Self::EndAllocs(..) => "end_allocs",
            Self::StopAlloc(..) => "stop_alloc",
            Self::SetEvalStatus(..) => "set_eval_status",
            Self::Collect(..) => "collect",
            Self::ScaleJob(..) => "scale_job",
            Self::SetSchedulerConfig(..) => "set_scheduler_config",
            Self::PutNamespace(..) => "put_namespace",
            Self::DeleteNamespace(..) => "delete_namespace",
            Self::PutQuota(..) => "put_quota",
            Self::DeleteQuota(..) => "delete_quota",
            Self::LaunchJob(..) => "launch_job",
            Self::RestorePart(..) => "restore_part",
            Self::AbandonRestore => "abandon_restore",
            Self::FoundCluster(..) => "found_cluster",
            Self::SetAllocHealth(..) => "set_alloc_health",
            Self::SetDeployment(..) => "set_deployment",
            Self::PromoteDeployment(..) => "promote_deployment",
            Self::RunJob(..) => "run_job",
            Self::DrainNode(..) => "drain_node",
            Self::MigrateAllocs(..) => "migrate_allocs",
            Self::EndDrain(..) => "end_drain",
            Self::SetJobStable(..) => "set_job_stable",
            Self::TagVersion(..) => "tag_version",
            Self::ChangeAcl(..) => "change_acl",
            Self::ChangeKeyring(..) => "change_keyring",
            Self::ChangeVariable(..) => "change_variable",
            Self::PutNodePool(..) => "put_node_pool",
            Self::DeleteNodePool(..) => "delete_node_pool",
            Self::SetEvalPriority(..) => "set_eval_priority",
        }
    }

    /// The version of entries from which on it can be written as it is: whoever knows only older ones would not understand it,
    /// or would leave out a part of it and come to another state.
    pub fn since(&self) -> u8 {
        match self {
            Self::SetEvalPriority(..) => 7,
            Self::PutNodePool(..) | Self::DeleteNodePool(..) => 6,
            Self::ChangeKeyring(change) if matches!(**change, ChangeKeyring::Rewrap { .. }) => 6,
            Self::RestorePart(part) if part.revives_tokens.is_some() => 6,
            Self::RegisterJob(register) if register.submission.is_some() || register.job.has_spelling() => 6,
            Self::RunJob(run) if run.job.has_spelling() => 6,
            Self::EndAllocs(ends) if ends.iter().any(|end| end.observed_at.is_some()) => 6,
            Self::RunJob(..)
            | Self::DrainNode(..)
            | Self::MigrateAllocs(..)
            | Self::EndDrain(..)
            | Self::SetJobStable(..)
            | Self::TagVersion(..)
            | Self::ChangeAcl(..)
            | Self::ChangeKeyring(..)
            | Self::ChangeVariable(..)
            | Self::SetNodeStatus(_, _, Some(_))
            | Self::SetNodeStatus(_, NodeStatus::Disconnected, None) => 4,
            Self::CommitPlan(plan) | Self::CommitPlanUnchecked(plan) => plan.since(),
            Self::SetSchedulerConfig(set) if set.config.lost_nodes_max_percent.is_some() => 4,
            Self::SetAllocHealth(found) if found.iter().any(|health| health.revision.is_some()) => 4,
            Self::RegisterJob(register) if register.job.groups.iter().any(|group| group.shares_resources) => {
                4
            }
            Self::CreateEvals(evals) => {
                evals.iter().map(|eval| eval.trigger.since()).max().unwrap_or(ENTRY_VERSION_MIN)
            }
            Self::GrantIndexes(..)
            | Self::RegisterNode(..)
            | Self::SetNodeStatus(_, _, None)
            | Self::SetNodeEligibility(..)
            | Self::RegisterJob(..)
            | Self::DeregisterJob(..)
            | Self::EndAllocs(..)
            | Self::StopAlloc(..)
            | Self::SetEvalStatus(..)
            | Self::Collect(..)
            | Self::ScaleJob(..)
            | Self::SetSchedulerConfig(..)
            | Self::PutNamespace(..)
            | Self::DeleteNamespace(..)
            | Self::PutQuota(..)
            | Self::DeleteQuota(..)
            | Self::LaunchJob(..)
            | Self::RestorePart(..)
            | Self::AbandonRestore
            | Self::FoundCluster(..)
            | Self::SetAllocHealth(..)
            | Self::SetDeployment(..)
            | Self::PromoteDeployment(..) => ENTRY_VERSION_MIN,
        }
    }

    /// How many bytes it takes in an entry.
    pub fn encoded_len(&self) -> usize {
        crate::codec::encoded_len(self)
    }
}
