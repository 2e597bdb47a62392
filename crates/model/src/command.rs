//! What is written to the replicated log: entries of commands, versioned from the first one.

mod encoded;
mod versions;

use std::{collections::BTreeMap, sync::Arc};

use minicbor::{Decode, Encode};

pub use encoded::{CommandBytes, ENTRY_HEAD_BYTES_MAX, EncodedCommands, EncodedEntry};
pub use versions::{NewTag, SetJobStable, TagVersion};

use crate::{
    alloc::{AllocEnd, MigrateAlloc, Placement, Stop, StopReason},
    deployment::{AllocHealth, NewDeployment, PromoteDeployment, SetDeployment},
    eval::{Eval, EvalStatus, Failures, Trigger},
    ids::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId},
    job::{Job, JobType},
    namespace::Namespace,
    node::{Node, NodeStatus},
    quota::Quota,
    scaling::ScalingEvent,
    scheduling::SchedulerConfig,
    time::Timestamp,
};

/// The encoding that [`Entry::encode`] writes; it counts every change of a command, field or value, and of what applying
/// them comes to. All before it are read, and applied as they were when they were written.
pub const ENTRY_VERSION: u8 = 4;
/// The oldest version that can still be written: for as long as a server of the cluster knows no newer one.
pub const ENTRY_VERSION_MIN: u8 = 3;
/// Largest encoded entry that may be proposed.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// One entry of the log: everything that arrived while the last one was being written.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Entry {
    /// Its place in the one order of changes; greater than that of every entry before it.
    #[n(0)]
    pub index: Index,
    /// When it was proposed; never before the last entry's time.
    #[n(1)]
    pub at: Timestamp,
    /// Applied in order.
    #[n(2)]
    pub commands: Vec<Command>,
    /// The version of Berth's entries under which it was written, which says how it is applied. It stands before the
    /// entry.
    #[cbor(skip)]
    pub version: u8,
}

/// A change of the replicated state.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Command {
    /// Allows the leader to mint indexes up to and including this one.
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
    /// A job is wished for; carries its evaluation.
    #[n(4)]
    RegisterJob(#[n(0)] Box<RegisterJob>),
    /// A job is wished to end; carries its evaluation.
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
    /// Forgets what nobody asks for any more.
    #[n(11)]
    Collect(#[n(0)] Box<Collect>),
    /// A group wants another number of allocations; carries its evaluation.
    #[n(12)]
    ScaleJob(#[n(0)] Box<ScaleJob>),
    /// An operator sets how the cluster places.
    #[n(13)]
    SetSchedulerConfig(#[n(0)] Box<SetSchedulerConfig>),
    /// An operator describes a namespace.
    #[n(14)]
    PutNamespace(#[n(0)] Box<Namespace>),
    /// An operator takes an empty namespace away.
    #[n(15)]
    DeleteNamespace(#[n(0)] String),
    /// An operator describes a quota.
    #[n(16)]
    PutQuota(#[n(0)] Box<Quota>),
    /// An operator takes away a quota that no namespace keeps to.
    #[n(17)]
    DeleteQuota(#[n(0)] String),
    /// A periodic job is due; carries the evaluation of its run.
    #[n(18)]
    LaunchJob(#[n(0)] Box<LaunchJob>),
    /// Part of a snapshot that is to take the place of the state.
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
    /// What a planner decided and the applier let pass. A placement whose node is gone, down, closed or full by now is
    /// left out, and the state gets an evaluation that plans it again.
    #[n(22)]
    CommitPlan(#[n(0)] Box<PlanRecord>),
    /// What agents found of the health of allocations, as far as active deployments rest on it.
    #[n(23)]
    SetAllocHealth(#[n(0)] Vec<AllocHealth>),
    /// Something becomes of a deployment.
    #[n(24)]
    SetDeployment(#[n(0)] Box<SetDeployment>),
    /// The canaries of a deployment have shown enough.
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
}

impl PlanRecord {
    /// The version of entries from which on it can be written as it is.
    fn since(&self) -> u8 {
        let rescheduled = self.placements.iter().flat_map(|placement| &placement.reschedules);
        let stops = self.stops.iter().map(|stop| stop.reason);
        let next = self.outcome.iter().flat_map(|outcome| &outcome.next);
        let is_new = rescheduled.clone().any(|event| event.of.is_some())
            || stops.clone().any(|reason| {
                matches!(reason, StopReason::Migrated | StopReason::Drained)
                    || matches!(reason, StopReason::ReplacementKept | StopReason::OriginalKept)
            })
            || next.clone().any(|next| next.trigger.since() > ENTRY_VERSION_MIN);
        if is_new { 4 } else { ENTRY_VERSION_MIN }
    }
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
        }
    }

    /// The version of entries from which on it can be written as it is: whoever knows only older ones would not understand it,
    /// or would leave out a part of it and come to another state.
    pub fn since(&self) -> u8 {
        match self {
            Self::RunJob(..)
            | Self::DrainNode(..)
            | Self::MigrateAllocs(..)
            | Self::EndDrain(..)
            | Self::SetJobStable(..)
            | Self::TagVersion(..)
            | Self::SetNodeStatus(_, _, Some(_))
            | Self::SetNodeStatus(_, NodeStatus::Disconnected, None) => 4,
            Self::CommitPlan(plan) | Self::CommitPlanUnchecked(plan) => plan.since(),
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

/// A node is drained from now on, or no more.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DrainNode {
    /// Which.
    #[n(0)]
    pub node: NodeId,
    /// How; none to call off what goes on.
    #[n(1)]
    pub drain: Option<NewDrain>,
    /// Without a drain: whether new work may come again.
    #[n(2)]
    pub eligible: bool,
    /// What is said of it.
    #[n(3)]
    pub meta: BTreeMap<String, String>,
}

/// How a node is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct NewDrain {
    /// What is still there then is stopped; none for as long as it takes.
    #[n(0)]
    pub deadline: Option<Timestamp>,
    /// Work that runs on every node stays.
    #[n(1)]
    pub ignore_system: bool,
    /// How long it may take, as it was asked for: nanoseconds, 0 for as long as it takes, less for at once.
    #[n(2)]
    pub asked_ns: i64,
}

/// A job and the evaluation that acts on it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct RegisterJob {
    /// The job as its owner wishes it.
    #[n(0)]
    #[cbor(with = "crate::codec::shared")]
    pub job: Arc<Job>,
    /// The evaluation's id.
    #[n(1)]
    pub eval: EvalId,
    /// Only if the job was last registered at this index; 0 for a job that is not there.
    #[n(2)]
    pub only_if: Option<Index>,
}

/// A run of another job, which its `parent_id` names: only while that one is there and not stopped, and never over a job
/// that is there.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct RunJob {
    /// The run.
    #[n(0)]
    #[cbor(with = "crate::codec::shared")]
    pub job: Arc<Job>,
    /// The evaluation's id.
    #[n(1)]
    pub eval: EvalId,
}

/// A job that should end.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DeregisterJob {
    /// Which.
    #[n(0)]
    pub job: JobKey,
    /// Forget it as soon as its allocations have ended.
    #[n(1)]
    pub purge: bool,
    /// The evaluation's id.
    #[n(2)]
    pub eval: EvalId,
}

/// A group of a job that wants another number of allocations.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ScaleJob {
    /// The job.
    #[n(0)]
    pub job: JobKey,
    /// The group, its count and the evaluation's id, or only a message to keep.
    #[n(1)]
    pub event: ScalingEvent,
}

/// A periodic job that is due.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LaunchJob {
    /// The job.
    #[n(0)]
    pub job: JobKey,
    /// The first time at which it was due that no launch has dealt with.
    #[n(1)]
    pub due: Timestamp,
    /// The time of the run: the same, or a later one when one run makes up for several that were missed.
    #[n(2)]
    pub at: Timestamp,
    /// The evaluation's id.
    #[n(3)]
    pub eval: EvalId,
}

/// Part of a snapshot that is to take the place of the state, as [`crate::store::snapshot::write_records`] writes it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RestorePart {
    /// From 0, without a gap; 0 begins anew.
    #[n(0)]
    pub number: u32,
    /// Cut anywhere.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
    /// The last index that the restored state has or had granted: indexes go on after it.
    #[n(2)]
    pub granted: Index,
}

/// How the cluster is to place from now on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetSchedulerConfig {
    /// All of it.
    #[n(0)]
    pub config: SchedulerConfig,
    /// Only if it was last set at this index; 0 for never.
    #[n(1)]
    pub only_if: Option<Index>,
}

/// What one evaluation decided, or one part of it when it is too large for one entry.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct PlanRecord {
    /// The evaluation.
    #[n(0)]
    pub eval: EvalId,
    /// Its job.
    #[n(1)]
    pub job: JobKey,
    /// The version of the job that was planned.
    #[n(2)]
    pub job_version: u64,
    /// The state on which it was planned.
    #[n(3)]
    pub snapshot_index: Index,
    /// Allocations to be.
    #[n(4)]
    pub placements: Vec<Placement>,
    /// Allocations to end.
    #[n(5)]
    pub stops: Vec<Stop>,
    /// What becomes of the evaluation; none when more of its plan is to come.
    #[n(6)]
    pub outcome: Option<EvalOutcome>,
    /// The deployment of the job's version, made with the first part of its first plan.
    #[n(7)]
    pub deployment: Option<Box<NewDeployment>>,
}

/// What becomes of an evaluation that has been planned.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EvalOutcome {
    /// A terminal status; or blocked, of one that waited for room and goes on waiting for what is left.
    #[n(0)]
    pub status: EvalStatus,
    /// For people.
    #[n(1)]
    pub description: String,
    /// What could not be placed, and why.
    #[n(2)]
    pub failures: Failures,
    /// The evaluation to make for what is left to be done.
    #[n(3)]
    pub next: Vec<NextEval>,
}

/// An evaluation made by another one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NextEval {
    /// Its id.
    #[n(0)]
    pub id: EvalId,
    /// Blocked, or pending with a time before which it must not run.
    #[n(1)]
    pub status: EvalStatus,
    /// Why it is made.
    #[n(2)]
    pub trigger: Trigger,
    /// Not before this; zero for at once.
    #[n(3)]
    pub wait_until: Timestamp,
}

/// What is forgotten. Whatever is in use again, or has changed, by the time it is applied stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Collect {
    /// Jobs that are dead, with their allocations and evaluations.
    #[n(0)]
    pub jobs: Vec<JobKey>,
    /// Allocations that have ended.
    #[n(1)]
    pub allocs: Vec<AllocId>,
    /// Evaluations that are done.
    #[n(2)]
    pub evals: Vec<EvalId>,
    /// Nodes that are down and on which nothing lives.
    #[n(3)]
    pub nodes: Vec<NodeId>,
    /// The index of the state on which this was decided; none in entries of version 1, which did not say.
    #[n(4)]
    pub decided_on: Option<Index>,
    /// Deployments that are over, but for the last one of a job. Not in entries before version 3.
    #[n(5)]
    #[cbor(default)]
    pub deployments: Vec<DeploymentId>,
}

impl Collect {
    /// Whether nothing is to be forgotten.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && self.allocs.is_empty()
            && self.evals.is_empty()
            && self.nodes.is_empty()
            && self.deployments.is_empty()
    }
}

/// A log entry that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// Written by a newer Berth.
    #[error(
        "log entry has version {version}, this server knows up to {known}: start the newer version again"
    )]
    Version {
        /// Under which it was written.
        version: u8,
        /// The newest that is known here.
        known: u8,
    },
    /// Not what [`Entry::encode`] writes.
    #[error("decode log entry of version {version}, this server knows up to {ENTRY_VERSION}: {source}")]
    Decode {
        /// Under which it was written.
        version: u8,
        /// What is wrong with it.
        source: minicbor::decode::Error,
    },
    /// Nothing there.
    #[error("log entry is empty")]
    Empty,
}

impl Entry {
    /// An entry of today's version.
    pub fn new(index: Index, at: Timestamp, commands: Vec<Command>) -> Self {
        Self { index, at, commands, version: ENTRY_VERSION }
    }

    /// The same of another version, which must know its commands.
    pub fn of_version(self, version: u8) -> Self {
        Self { version, ..self }
    }

    /// The oldest version that can be written and knows all of some commands.
    pub fn version_for<'c>(commands: impl IntoIterator<Item = &'c Command>) -> u8 {
        commands.into_iter().map(Command::since).max().unwrap_or(ENTRY_VERSION_MIN)
    }

    /// The entry's bytes in the log: its version and CBOR.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.version];
        minicbor::encode(self, &mut out).expect("encoding to memory does not fail");
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are of a newer version, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, EntryError> {
        Self::decode_up_to(bytes, ENTRY_VERSION)
    }

    /// The same as a server that knows versions up to `known`, and none that is newer than this one's.
    ///
    /// # Errors
    /// When the bytes are of a newer version, or damaged.
    pub fn decode_up_to(bytes: &[u8], known: u8) -> Result<Self, EntryError> {
        let known = known.min(ENTRY_VERSION);
        match bytes.split_first() {
            None => Err(EntryError::Empty),
            Some((&version, body)) if (1..=known).contains(&version) => {
                let entry: Self =
                    minicbor::decode(body).map_err(|source| EntryError::Decode { version, source })?;
                Ok(Self { version, ..entry })
            }
            Some((&version, _)) => Err(EntryError::Version { version, known }),
        }
    }
}

/// What came of one command. A refusal changes nothing, and is told to whoever proposed the command.
pub type Outcome = Result<(), Refusal>;

/// Why a command changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub enum Refusal {
    /// Its job was changed meanwhile.
    #[error("job {job} was last registered at index {current}, not at {expected}")]
    #[n(0)]
    JobChanged {
        /// The job.
        #[n(0)]
        job: JobKey,
        /// What the command said.
        #[n(1)]
        expected: Index,
        /// What is true.
        #[n(2)]
        current: Index,
    },
    /// How the cluster places was set meanwhile.
    #[error("the scheduler configuration was last set at index {current}, not at {expected}")]
    #[n(1)]
    SchedulerConfigChanged {
        /// What the command said.
        #[n(0)]
        expected: Index,
        /// What is true.
        #[n(1)]
        current: Index,
    },
    /// There is no such job.
    #[error("job {0} not found")]
    #[n(2)]
    NoJob(#[n(0)] JobKey),
    /// A job that was stopped is not scaled, and makes no runs.
    #[error("job {0} is stopped: register it again first")]
    #[n(22)]
    JobStopped(#[n(0)] JobKey),
    /// That version of the job is not kept, or never was.
    #[error("job {0} has no version {1}: `berth job history {id}` lists those that are kept", id = .0.id)]
    #[n(23)]
    NoVersion(#[n(0)] JobKey, #[n(1)] u64),
    /// No version of the job has that tag.
    #[error("no version of job {0} has the tag {1:?}")]
    #[n(24)]
    NoTag(#[n(0)] JobKey, #[n(1)] String),
    /// A tag names one version.
    #[error("tag {1:?} of job {0} is that of version {2} already: take it away there first")]
    #[n(25)]
    TagInUse(#[n(0)] JobKey, #[n(1)] String, #[n(2)] u64),
    /// Versions with tags are kept, so there cannot be any number of them.
    #[error("{max} versions of job {0} have tags, and no more may: take one away first", max = crate::job::JOB_TAGS_MAX)]
    #[n(26)]
    TooManyTags(#[n(0)] JobKey),
    /// A job is of one type for good.
    #[error(
        "job {job} is a {is} job and cannot become a {asked} job: give it another name, or stop and purge it first",
        is = .is.as_str(),
        asked = .asked.as_str()
    )]
    #[n(3)]
    JobTypeChanged {
        /// The job.
        #[n(0)]
        job: JobKey,
        /// Its type.
        #[n(1)]
        is: JobType,
        /// What the command said.
        #[n(2)]
        asked: JobType,
    },
    /// The job has no such group.
    #[error("job {0} has no group `{1}`")]
    #[n(4)]
    NoGroup(#[n(0)] JobKey, #[n(1)] String),
    /// It was planned on a state that is gone.
    #[error("the state was restored from a snapshot meanwhile")]
    #[n(5)]
    Restored,
    /// A snapshot cannot take the place of the state.
    #[error("restore: {0}")]
    #[n(6)]
    BadRestore(#[n(0)] String),
    /// A cluster has one identity for good.
    #[error("the cluster has the identity {0:032x} already")]
    #[n(7)]
    ClusterFounded(#[cbor(n(0), with = "crate::codec::id128")] u128),
    /// Zero stands for none.
    #[error("0 cannot be the identity of a cluster")]
    #[n(8)]
    NoClusterId,
    /// A launch has dealt with that time, or the job is not run by the clock.
    #[error("job {0} is not due at {1}")]
    #[n(9)]
    NotDue(#[n(0)] JobKey, #[n(1)] Timestamp),
    /// There is no such node.
    #[error("node {0} not found")]
    #[n(10)]
    NoNode(#[n(0)] NodeId),
    /// There is no such allocation.
    #[error("allocation {0} not found")]
    #[n(11)]
    NoAlloc(#[n(0)] AllocId),
    /// There is no such evaluation, or it is done.
    #[error("evaluation {0} is not open")]
    #[n(12)]
    NoEval(#[n(0)] EvalId),
    /// There is no such deployment.
    #[error("deployment {0} not found")]
    #[n(19)]
    NoDeployment(#[n(0)] DeploymentId),
    /// A deployment that is over changes no more.
    #[error("deployment {0} is {1}, and changes no more")]
    #[n(20)]
    DeploymentOver(#[n(0)] DeploymentId, #[n(1)] String),
    /// A deployment cannot be promoted yet, or has nothing to promote.
    #[error("deployment {0} cannot be promoted: {1}")]
    #[n(21)]
    NotPromotable(#[n(0)] DeploymentId, #[n(1)] String),
    /// There is no such namespace.
    #[error("namespace {0:?} does not exist: create it with `berth namespace apply`")]
    #[n(13)]
    NoNamespace(#[n(0)] String),
    /// A namespace cannot be like that.
    #[error("namespace {0:?}: {1}")]
    #[n(14)]
    BadNamespace(#[n(0)] String, #[n(1)] String),
    /// A namespace cannot be taken away.
    #[error("namespace {0:?} cannot be deleted: {1}")]
    #[n(15)]
    NamespaceInUse(#[n(0)] String, #[n(1)] String),
    /// There is no such quota.
    #[error("quota {0:?} does not exist: create it with `berth quota apply`")]
    #[n(16)]
    NoQuota(#[n(0)] String),
    /// A quota cannot be like that.
    #[error("quota {0:?}: {1}")]
    #[n(17)]
    BadQuota(#[n(0)] String, #[n(1)] String),
    /// A quota cannot be taken away: a namespace keeps to it.
    #[error("quota {0:?} cannot be deleted: namespace {1:?} keeps to it")]
    #[n(18)]
    QuotaInUse(#[n(0)] String, #[n(1)] String),
}
