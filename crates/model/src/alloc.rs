//! An allocation: one instance of a job's group on one node, from placement to end.

use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::{
    device::DeviceGrant,
    ids::{AllocId, NodeId},
    time::Timestamp,
};

/// The desired state of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum DesiredStatus {
    /// Should run.
    #[n(0)]
    Run,
    /// Should end.
    #[n(1)]
    Stop,
}

impl DesiredStatus {
    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Stop => "stop",
        }
    }
}

/// How an allocation leaves its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Departure {
    /// Once its successor has capacity elsewhere.
    #[n(0)]
    WhenPlaced,
    /// At once, whether anybody stands in for it or not.
    #[n(1)]
    AtOnce,
}

/// An allocation that is to leave its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct MigrateAlloc {
    /// The allocation.
    #[n(0)]
    pub alloc: AllocId,
    /// When it is to go.
    #[n(1)]
    pub how: Departure,
}

/// The status of an allocation, as its agent reports it. Only the terminal ones are ever in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum ClientStatus {
    /// Placed; nothing has started yet, or its agent has not reported.
    #[n(0)]
    Pending,
    /// A task runs.
    #[n(1)]
    Running,
    /// Ended well, or as desired.
    #[n(2)]
    Complete,
    /// Ended badly.
    #[n(3)]
    Failed,
    /// Its node was declared lost, or restarted.
    #[n(4)]
    Lost,
}

impl ClientStatus {
    /// Whether it will never change again.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Lost)
    }

    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Lost => "lost",
        }
    }
}

/// The decision that an allocation shall exist. Job, version and evaluation are those of the plan it stands in.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Placement {
    /// The new allocation.
    #[n(0)]
    pub id: AllocId,
    /// Where it runs.
    #[n(1)]
    pub node: NodeId,
    /// Position of its group in the job.
    #[n(2)]
    pub group: u16,
    /// Which of the group's allocations it is, from 0.
    #[n(3)]
    pub name_index: u32,
    /// Host ports, in the order in which the group declares them.
    #[n(4)]
    pub ports: Vec<u16>,
    /// Allocations on the same node that must have ended before this one starts: it inherits their capacity.
    #[n(5)]
    pub after: Vec<AllocId>,
    /// The allocation that it replaces, if any.
    #[n(6)]
    pub previous: Option<AllocId>,
    /// When it replaces a failed one: the replacements so far that still count, this one included.
    #[n(7)]
    pub reschedules: Vec<Reschedule>,
    /// Devices, in the order in which the group's tasks ask for them.
    #[n(8)]
    pub devices: Vec<DeviceGrant>,
    /// Ids of processor cores, in the order in which the group's tasks ask for them.
    #[n(9)]
    pub cores: Vec<u16>,
    /// It shows what a new version is worth, beside the old ones. Not in entries before version 3.
    #[n(10)]
    #[cbor(default)]
    pub canary: bool,
    /// The version of the job that it runs, where that is an older one than the plan's: what has to be replaced before a newer
    /// version has proved itself. Not in entries before version 5.
    #[n(11)]
    #[cbor(default)]
    pub job_version: Option<u64>,
}

impl Placement {
    /// Whom it comes after other than the one that it replaces.
    pub fn after_others(&self) -> impl Iterator<Item = AllocId> {
        self.after.iter().copied().filter(|id| Some(*id) != self.previous)
    }
}

/// One replacement of a failed allocation. In entries and snapshots before version 4 only its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reschedule {
    /// When it was decided.
    pub at: Timestamp,
    /// What was replaced; none where an older version has not written that.
    pub of: Option<Rescheduled>,
}

/// A failed allocation that was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Rescheduled {
    /// The allocation.
    #[n(0)]
    pub alloc: AllocId,
    /// Where it failed.
    #[n(1)]
    pub node: NodeId,
    /// How long it had to wait for its replacement.
    #[n(2)]
    #[cbor(with = "crate::codec::duration")]
    pub delay: Duration,
}

impl<C> Encode<C> for Reschedule {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        context: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match &self.of {
            Some(of) => {
                self.at.encode(e.array(2)?, context)?;
                of.encode(e, context)
            }
            None => self.at.encode(e, context),
        }
    }
}

impl<'b, C> Decode<'b, C> for Reschedule {
    fn decode(d: &mut minicbor::Decoder<'b>, context: &mut C) -> Result<Self, minicbor::decode::Error> {
        if d.datatype()? != minicbor::data::Type::Array {
            return Ok(Self { at: Timestamp::decode(d, context)?, of: None });
        }
        let (at, of) = Decode::decode(d, context)?;
        Ok(Self { at, of: Some(of) })
    }
}

/// The decision that an allocation shall end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Stop {
    /// The allocation.
    #[n(0)]
    pub alloc: AllocId,
    /// Why, for users.
    #[n(1)]
    pub reason: StopReason,
    /// Of an allocation that is lost: as [`AllocEnd::observed_at`].
    #[n(2)]
    pub observed_at: Option<Timestamp>,
}

/// Why an allocation should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum StopReason {
    /// Its job was stopped.
    #[n(0)]
    JobStopped,
    /// A newer version of its job replaces it.
    #[n(1)]
    JobUpdated,
    /// Its group wants fewer.
    #[n(2)]
    NotNeeded,
    /// Its node is down.
    #[n(3)]
    NodeLost,
    /// It failed and was replaced.
    #[n(4)]
    Rescheduled,
    /// Somebody asked for this one to end.
    #[n(5)]
    Requested,
    /// Its node does not fit its job any more.
    #[n(6)]
    NodeNotEligible,
    /// Work of higher priority needs its capacity, or work of a namespace that holds less than is guaranteed to it.
    #[n(7)]
    Preempted,
    /// It was a canary of a deployment that failed or was cancelled.
    #[n(8)]
    CanaryDiscarded,
    /// Its node is drained, and another stands in for it.
    #[n(9)]
    Migrated,
    /// Its node is drained, and it could not stay until another stood in for it.
    #[n(10)]
    Drained,
    /// Its node came back, and the allocation that stood in for it goes on.
    #[n(11)]
    ReplacementKept,
    /// It stood in for one whose node came back, and which goes on.
    #[n(12)]
    OriginalKept,
}

impl StopReason {
    /// Whether the allocation is stopped only because another takes its place: as long as that one has none, it stays.
    pub fn needs_successor(self) -> bool {
        matches!(self, Self::JobUpdated | Self::Rescheduled | Self::Migrated)
    }

    /// Whether the allocation had to leave its node, though its job wants it as before.
    pub fn had_to_go(self) -> bool {
        matches!(self, Self::NodeLost | Self::Drained | Self::Preempted)
    }

    /// The sentence shown to users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JobStopped => "alloc not needed because the job was stopped",
            Self::JobUpdated => "alloc is replaced because the job was updated",
            Self::NotNeeded => "alloc not needed due to the job's count",
            Self::NodeLost => "alloc is lost since its node is down",
            Self::Rescheduled => "alloc was rescheduled because it failed",
            Self::Requested => "alloc was stopped by request",
            Self::NodeNotEligible => "alloc not needed because its node is not eligible",
            Self::CanaryDiscarded => "alloc not needed because its deployment was not promoted",
            Self::Migrated => "alloc is being migrated because its node is drained",
            Self::ReplacementKept => {
                "alloc not needed because another stood in while its node was disconnected"
            }
            Self::OriginalKept => "alloc not needed because the one that it stood in for is back",
            Self::Drained => "alloc is stopped because its node is drained",
            Self::Preempted => {
                "alloc makes room for work of higher priority, or for what is guaranteed to another namespace"
            }
        }
    }
}

/// How one task of an ended allocation ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct TaskResult {
    /// Of its last process; -1 when unknown.
    #[n(0)]
    pub exit_code: i32,
    /// The signal that ended it; 0 for none.
    #[n(1)]
    pub signal: i32,
    /// Whether the kernel ended it for want of memory.
    #[n(2)]
    pub oom_killed: bool,
    /// Whether it ended badly for good.
    #[n(3)]
    pub failed: bool,
    /// How often it was started again.
    #[n(4)]
    pub restarts: u32,
    /// By the node's clock; zero for never.
    #[n(5)]
    pub started_at: Timestamp,
    /// By the node's clock; zero for never.
    #[n(6)]
    pub finished_at: Timestamp,
    /// Its last event, cut to [`RESULT_MESSAGE_BYTES_MAX`].
    #[n(7)]
    pub message: String,
}

/// Longest message of a task's result in the log.
pub const RESULT_MESSAGE_BYTES_MAX: usize = 256;

/// The end of an allocation, as its agent reported it or as the cluster decided when it gave its node up.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AllocEnd {
    /// The allocation.
    #[n(0)]
    pub alloc: AllocId,
    /// Complete, failed or lost: never pending or running.
    #[n(1)]
    pub status: ClientStatus,
    /// One for each task of the group; empty when nobody knows.
    #[n(2)]
    pub tasks: Vec<TaskResult>,
    /// When its agent saw it change last, by the node's clock, where that is later than the leader's clock says: readers have seen
    /// that time, and see none before it again. None otherwise, and in entries before version 6.
    #[n(3)]
    pub observed_at: Option<Timestamp>,
}
