//! Why commands change nothing.

use minicbor::{Decode, Encode};

use crate::{
    ids::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, RootKeyId},
    job::JobType,
    time::Timestamp,
    variable::VariableKey,
};

/// What came of one command. A refusal changes nothing, and is reported to whoever proposed the command.
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
        /// The actual value.
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
        /// The actual value.
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
    #[error("tag {1:?} of job {0} is on version {2} already: unset it there first")]
    #[n(25)]
    TagInUse(#[n(0)] JobKey, #[n(1)] String, #[n(2)] u64),
    /// Versions with tags are kept, so there cannot be any number of them.
    #[error("{max} versions of job {0} have tags, which is the maximum: unset one first", max = crate::job::JOB_TAGS_MAX)]
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
    /// A snapshot cannot replace the state.
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
    /// The run of that time was launched already, or the job is not periodic.
    #[error("job {0} is not due at {1}")]
    #[n(9)]
    NotDue(#[n(0)] JobKey, #[n(1)] Timestamp),
    /// There is no such node.
    #[error("node {0} not found")]
    #[n(10)]
    NoNode(#[n(0)] NodeId),
    /// A node that is drained is not open to work: what is placed there would have to leave at once.
    #[error(
        "node {0} is draining and takes no new work until the drain ends: `berth node drain -disable` cancels it"
    )]
    #[n(30)]
    NodeDrained(#[n(0)] NodeId),
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
    /// A quota cannot be deleted: a namespace refers to it.
    #[error("quota {0:?} cannot be deleted: namespace {1:?} refers to it")]
    #[n(18)]
    QuotaInUse(#[n(0)] String, #[n(1)] String),
    /// There is no such policy, role or token.
    #[error("{0} does not exist")]
    #[n(27)]
    NoAclObject(#[n(0)] String),
    /// A policy, role or token cannot be like that.
    #[error("{0}: {1}")]
    #[n(28)]
    BadAcl(#[n(0)] String, #[n(1)] String),
    /// The first token is made once.
    #[error("ACL bootstrap already done (reset index: {0})")]
    #[n(29)]
    AclBootstrapped(#[n(0)] Index),
    /// The keyring has no such key.
    #[error("root key {0} is not in the keyring: `berth operator root keyring list` shows those that are")]
    #[n(31)]
    NoRootKey(#[n(0)] RootKeyId),
    /// A root key cannot be like that, or cannot be taken away.
    #[error("root key {0}: {1}")]
    #[n(32)]
    BadRootKey(#[n(0)] RootKeyId, #[n(1)] String),
    /// Another key was made active meanwhile.
    #[error(
        "another root key was made active meanwhile: look at `berth operator root keyring list` before you try again"
    )]
    #[n(33)]
    RootKeyChanged,
    /// What is encrypted with a key that is not active is not written.
    #[error("root key {0} is not active any more: try again")]
    #[n(34)]
    RootKeyNotActive(#[n(0)] RootKeyId),
    /// A variable cannot be like that.
    #[error("variable {path:?} in namespace {namespace:?}: {1}", path = .0.path, namespace = .0.namespace)]
    #[n(35)]
    BadVariable(#[n(0)] VariableKey, #[n(1)] String),
    /// A variable was written meanwhile.
    #[error(
        "variable {path:?} in namespace {namespace:?} was last written at index {1}: cas-conflict",
        path = .0.path, namespace = .0.namespace
    )]
    #[n(36)]
    VariableChanged(#[n(0)] VariableKey, #[n(1)] Index),
    /// There is no such node pool.
    #[error("node pool {0:?} does not exist: create it with `berth node pool apply`")]
    #[n(37)]
    NoNodePool(#[n(0)] String),
    /// A node pool cannot be like that.
    #[error("node pool {0:?}: {1}")]
    #[n(38)]
    BadNodePool(#[n(0)] String, #[n(1)] String),
    /// A node pool cannot be taken away.
    #[error("node pool {0:?} cannot be deleted: {1}")]
    #[n(39)]
    NodePoolInUse(#[n(0)] String, #[n(1)] String),
    /// What the agent of a node has confirmed is of before allocations there were declared lost.
    #[error(
        "allocations on node {0} were declared lost meanwhile: its agent is to confirm what runs there again"
    )]
    #[n(40)]
    LostMeanwhile(#[n(0)] NodeId),
}

impl Refusal {
    /// A part of a snapshot comes when another one is due, or none: those before it were abandoned meanwhile.
    pub fn restore_out_of_order(number: u32) -> Self {
        Self::BadRestore(format!("part {number} comes out of its turn"))
    }
}
