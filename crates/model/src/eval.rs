//! An evaluation: one request to bring a job's allocations in line with its desired state, and what came of it.

mod failures;

use minicbor::{Decode, Encode};

pub use failures::{Failures, Funnel, GroupFailure, QueuedAllocs};

use crate::{
    command::ENTRY_VERSION_MIN,
    ids::{EvalId, Index, JobKey, NodeId},
    job::JobType,
    time::Timestamp,
};

/// Where an evaluation is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum EvalStatus {
    /// To be planned.
    #[n(0)]
    Pending,
    /// Waits for capacity that may come.
    #[n(1)]
    Blocked,
    /// Planned; what could not be placed waits in another evaluation.
    #[n(2)]
    Complete,
    /// Failed: the scheduler stopped trying.
    #[n(3)]
    Failed,
    /// A newer evaluation of its job made it needless.
    #[n(4)]
    Canceled,
}

impl EvalStatus {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Blocked, Self::Complete, Self::Failed, Self::Canceled];

    /// Whether it will never change again.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Canceled)
    }

    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

/// What asked for an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Trigger {
    /// A job was registered or changed.
    #[n(0)]
    JobRegister,
    /// A job was stopped.
    #[n(1)]
    JobDeregister,
    /// A node came, went or changed.
    #[n(2)]
    NodeUpdate,
    /// An allocation ended badly.
    #[n(3)]
    AllocFailure,
    /// Somebody asked for an allocation to end.
    #[n(4)]
    AllocStop,
    /// Something could not be placed; waits for capacity.
    #[n(5)]
    QueuedAllocs,
    /// A failed allocation may be replaced from a later time on.
    #[n(6)]
    RetryFailedAlloc,
    /// Plans were refused too often.
    #[n(7)]
    MaxPlanAttempts,
    /// Somebody changed how many allocations a group wants.
    #[n(8)]
    JobScaling,
    /// An allocation was preempted by work of higher priority.
    #[n(9)]
    Preemption,
    /// A periodic job was due.
    #[n(10)]
    PeriodicJob,
    /// A deployment can go on, or is to be undone.
    #[n(11)]
    DeploymentWatcher,
    /// A node is drained.
    #[n(12)]
    NodeDrain,
    /// Allocations of a node that is disconnected are lost from a later time on.
    #[n(13)]
    DisconnectTimeout,
    /// A node came back on which allocations had been replaced.
    #[n(14)]
    Reconnect,
}

impl Trigger {
    /// The version of entries from which on it can be written.
    pub fn since(self) -> u8 {
        match self {
            Self::NodeDrain | Self::DisconnectTimeout | Self::Reconnect => 4,
            _ => ENTRY_VERSION_MIN,
        }
    }

    /// Whether the leader found by itself that a job is to be looked at, for a reason that the state shows: nobody waits for
    /// the evaluation, and whatever plan is made of a later state answers it.
    pub fn is_found(self) -> bool {
        matches!(
            self,
            Self::NodeUpdate | Self::AllocFailure | Self::Preemption | Self::NodeDrain | Self::Reconnect
        )
    }

    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JobRegister => "job-register",
            Self::JobDeregister => "job-deregister",
            Self::NodeUpdate => "node-update",
            Self::AllocFailure => "alloc-failure",
            Self::AllocStop => "alloc-stop",
            Self::QueuedAllocs => "queued-allocs",
            Self::RetryFailedAlloc => "alloc-reschedule",
            Self::MaxPlanAttempts => "max-plan-attempts",
            Self::JobScaling => "job-scaling",
            Self::Preemption => "preemption",
            Self::PeriodicJob => "periodic-job",
            Self::DeploymentWatcher => "deployment-watcher",
            Self::NodeDrain => "node-drain",
            Self::DisconnectTimeout => "max-disconnect-timeout",
            Self::Reconnect => "reconnect",
        }
    }
}

/// An evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Eval {
    /// Its id.
    #[n(0)]
    pub id: EvalId,
    /// The job it is about.
    #[n(1)]
    pub job: JobKey,
    /// That job's type.
    #[n(2)]
    pub job_type: JobType,
    /// That job's priority.
    #[n(3)]
    pub priority: u8,
    /// What asked for it.
    #[n(4)]
    pub trigger: Trigger,
    /// Where it is in its life.
    #[n(5)]
    pub status: EvalStatus,
    /// In words, what it is.
    #[n(6)]
    pub description: String,
    /// Not before this; zero for at once.
    #[n(7)]
    pub wait_until: Timestamp,
    /// The node whose change asked for it.
    #[n(8)]
    pub node: Option<NodeId>,
    /// The evaluation that made this one.
    #[n(9)]
    pub previous: Option<EvalId>,
    /// The evaluation in which what could not be placed waits.
    #[n(10)]
    pub blocked: Option<EvalId>,
    /// What could not be placed, and why.
    #[n(11)]
    pub failures: Failures,
    /// Allocations still to be placed, by group name.
    #[n(12)]
    pub queued: QueuedAllocs,
    /// When it was made; set by apply.
    #[n(13)]
    pub created_at: Timestamp,
    /// When it last changed; set by apply.
    #[n(14)]
    pub modified_at: Timestamp,
    /// Where it was made; set by apply.
    #[n(15)]
    pub create_index: Index,
    /// Where it last changed; set by apply.
    #[n(16)]
    pub modify_index: Index,
    /// The state it was last planned on.
    #[n(17)]
    pub snapshot_index: Index,
    /// What had failed when it was made is replaced without regard to delays and the number of attempts.
    #[n(18)]
    #[cbor(with = "crate::codec::late_flag", has_nil)]
    pub force_reschedule: bool,
}

impl Eval {
    /// A pending evaluation; apply sets its times and indexes.
    pub fn pending(id: EvalId, job: JobKey, job_type: JobType, priority: u8, trigger: Trigger) -> Self {
        Self {
            id,
            job,
            job_type,
            priority,
            trigger,
            status: EvalStatus::Pending,
            description: String::new(),
            wait_until: Timestamp::default(),
            node: None,
            previous: None,
            blocked: None,
            failures: Failures::default(),
            queued: QueuedAllocs::default(),
            created_at: Timestamp::default(),
            modified_at: Timestamp::default(),
            create_index: Index::default(),
            modify_index: Index::default(),
            snapshot_index: Index::default(),
            force_reschedule: false,
        }
    }
}
