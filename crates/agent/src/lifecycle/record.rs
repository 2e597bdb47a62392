//! The record of an allocation, which the next agent restores it from.

use berth_api::agent::{AllocId, AllocStatus, HealthSpec, PortBinding, TaskDevices};
use bytes::Bytes;
use prost::Message;

use super::restart::Window;
use super::task::{Kill, Phase, Restart, Task};
use super::{DesiredError, GroupCache, RunSpec};

/// One allocation on disk.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocRecord {
    /// The allocation's id: 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// What should run; absent once forgotten.
    #[prost(message, optional, tag = "2")]
    pub run: Option<RunRecord>,
    /// Whether the allocation is to end.
    #[prost(bool, tag = "3")]
    pub stop: bool,
    /// Its status is not reported to the servers any more.
    #[prost(bool, tag = "4")]
    pub forgotten: bool,
    /// Its files are to be removed, too.
    #[prost(bool, tag = "5")]
    pub purged: bool,
    /// The status that was last reported to the servers.
    #[prost(message, optional, tag = "6")]
    pub status: Option<AllocStatus>,
    /// One for each task of the group.
    #[prost(message, repeated, tag = "7")]
    pub tasks: Vec<TaskRecord>,
    /// The machine restarted while it ran.
    #[prost(bool, tag = "8")]
    pub lost: bool,
    /// The log position that the node had come to, for the shell to fill in: term.
    #[prost(uint64, tag = "9")]
    pub term: u64,
    /// The log position that the node had come to, for the shell to fill in: index.
    #[prost(uint64, tag = "10")]
    pub index: u64,
    /// 16 bytes: the cluster that the position belongs to, for the shell to fill in; empty for none yet.
    #[prost(bytes = "vec", tag = "11")]
    pub cluster_id: Vec<u8>,
    /// It was stopped because there was no contact with a server for too long.
    #[prost(bool, tag = "14")]
    pub deserted: bool,
    /// Something of what was prepared for it may be there: it is to be cleaned up once its tasks have ended.
    #[prost(bool, tag = "15")]
    pub may_exist: bool,
}

impl AllocRecord {
    /// As which revision it should run; none where it should end.
    pub fn revision(&self) -> Option<u64> {
        (!self.stop).then(|| self.run.as_ref().map_or(0, |run| run.revision))
    }
}

/// What should run, on disk.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RunRecord {
    /// The allocation's id: 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// Which of the group's allocations it is, from 0.
    #[prost(uint32, tag = "2")]
    pub name_index: u32,
    /// An encoded [`berth_api::agent::GroupSpec`].
    #[prost(bytes = "bytes", tag = "3")]
    pub group: Bytes,
    /// The ports that the allocation was assigned.
    #[prost(message, repeated, tag = "4")]
    pub ports: Vec<PortBinding>,
    /// 16 bytes each: must have ended on this node before this one may start.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub after: Vec<Vec<u8>>,
    /// The version of the job that the allocation runs.
    #[prost(uint64, tag = "6")]
    pub job_version: u64,
    /// Of tasks that have any.
    #[prost(message, repeated, tag = "8")]
    pub devices: Vec<TaskDevices>,
    /// What it must show to count as healthy, where its group does not say.
    #[prost(message, optional, tag = "9")]
    pub health: Option<HealthSpec>,
    /// The job's version to which it was updated while it ran; 0 for as it was placed.
    #[prost(uint64, tag = "10")]
    pub revision: u64,
    /// 16 bytes each: those whose files it takes over, the latest first.
    #[prost(bytes = "vec", repeated, tag = "40")]
    pub previous: Vec<Vec<u8>>,
}

impl RunSpec {
    pub(super) fn from_record(run: RunRecord, groups: &mut GroupCache) -> Result<Self, DesiredError> {
        let alloc = AllocId::from_slice(&run.alloc_id).ok_or(DesiredError::AllocId(run.alloc_id.len()))?;
        let group = groups.decode(&run.group).map_err(|source| DesiredError::Group { alloc, source })?;
        let ids = |all: &[Vec<u8>]| {
            let ids = all.iter().map(|id| AllocId::from_slice(id).ok_or(DesiredError::AllocId(id.len())));
            ids.collect::<Result<Box<[_]>, _>>()
        };
        Ok(Self {
            alloc,
            name_index: run.name_index,
            group,
            ports: run.ports.into(),
            devices: run.devices.into(),
            after: ids(&run.after)?,
            job_version: run.job_version,
            health: run.health,
            updated: run.revision > 0,
            previous: ids(&run.previous)?,
        })
    }

    pub(super) fn to_record(&self) -> RunRecord {
        let bytes = |ids: &[AllocId]| ids.iter().map(|id| id.0.to_vec()).collect();
        RunRecord {
            alloc_id: self.alloc.0.to_vec(),
            name_index: self.name_index,
            group: self.group.encode_to_vec().into(),
            ports: self.ports.to_vec(),
            after: bytes(&self.after),
            job_version: self.job_version,
            devices: self.devices.to_vec(),
            health: self.health,
            revision: self.revision(),
            previous: bytes(&self.previous),
        }
    }
}

/// One task on disk.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TaskRecord {
    /// The number of the last start.
    #[prost(uint32, tag = "1")]
    pub attempt: u32,
    /// A start was asked for; the process lives, unless it is found to have ended since.
    #[prost(bool, tag = "2")]
    pub begun: bool,
    /// Will not start again.
    #[prost(bool, tag = "3")]
    pub dead: bool,
    /// Nanoseconds since the Unix epoch: between two starts until then.
    #[prost(uint64, tag = "4")]
    pub backoff_until_ns: u64,
    /// Nanoseconds since the Unix epoch.
    #[prost(uint64, tag = "5")]
    pub window_start_ns: u64,
    /// Restarts since the start of the window.
    #[prost(uint32, tag = "6")]
    pub window_count: u32,
    /// A user asked for a restart that has not been made yet.
    #[prost(bool, tag = "7")]
    pub restart: bool,
    /// A check found it unwell, and it has not been restarted yet.
    #[prost(bool, tag = "8")]
    pub unhealthy: bool,
}

impl From<&Task> for TaskRecord {
    fn from(task: &Task) -> Self {
        Self {
            attempt: task.attempt,
            begun: matches!(task.phase, Phase::Preparing | Phase::Starting | Phase::Running),
            dead: task.phase == Phase::Dead,
            backoff_until_ns: if let Phase::Backoff { until_ns } = task.phase { until_ns } else { 0 },
            window_start_ns: task.window.start_ns,
            window_count: task.window.count,
            restart: task.restart == Restart::Requested,
            unhealthy: task.restart == Restart::Unhealthy,
        }
    }
}

impl From<&TaskRecord> for Task {
    fn from(record: &TaskRecord) -> Self {
        let phase = match record {
            TaskRecord { dead: true, .. } => Phase::Dead,
            TaskRecord { begun: true, .. } => Phase::Starting,
            TaskRecord { attempt: 0, .. } => Phase::Waiting,
            TaskRecord { backoff_until_ns, .. } => Phase::Backoff { until_ns: *backoff_until_ns },
        };
        let window = Window { start_ns: record.window_start_ns, count: record.window_count };
        let restart = match (record.restart, record.unhealthy) {
            (true, _) => Restart::Requested,
            (_, true) => Restart::Unhealthy,
            _ => Restart::No,
        };
        Self { attempt: record.attempt, phase, kill: Kill::No, window, restart, since_ns: 0, overran: false }
    }
}
