//! What an agent reports of an allocation.

/// The status of an allocation, as its agent sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ClientStatus {
    /// Known, no task has started yet.
    Pending = 0,
    /// At least one task runs and none has failed for good.
    Running = 1,
    /// All tasks ended well, or were stopped as desired.
    Complete = 2,
    /// A task failed for good.
    Failed = 3,
    /// What became of it cannot be known: the machine restarted.
    Lost = 4,
}

impl ClientStatus {
    /// Whether it will never change again.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Lost)
    }
}

/// Whether an allocation is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AllocHealth {
    /// Not known yet, or nobody asks.
    Unknown = 0,
    /// It has shown that it is. Stays so.
    Healthy = 1,
    /// It has not shown it in time, or a task of it has failed.
    Unhealthy = 2,
}

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum TaskPhase {
    /// Not started, or between two starts.
    Pending = 0,
    /// Its process lives.
    Running = 1,
    /// Will not start again.
    Dead = 2,
}

/// A moment in a task's life that users ask about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum TaskEventKind {
    /// The agent knows of it.
    Received = 0,
    /// Its directory and environment are being made.
    TaskSetup = 1,
    /// The driver is being asked.
    Driver = 2,
    /// Its process lives.
    Started = 3,
    /// Its process ended by itself.
    Terminated = 4,
    /// It will be started again after a delay.
    Restarting = 5,
    /// Its restarts are used up.
    NotRestarting = 6,
    /// The driver could not start it.
    DriverFailure = 7,
    /// It could not be prepared: bad settings, unknown driver.
    SetupFailure = 8,
    /// The kill signal was sent.
    Killing = 9,
    /// It was stopped.
    Killed = 10,
    /// The group's leader ended, so this task was stopped.
    LeaderDead = 11,
    /// Another task of the group failed for good, so this task was stopped.
    SiblingFailed = 12,
    /// A signal was sent to it.
    Signaling = 13,
    /// A restart was requested.
    RestartSignaled = 14,
    /// What it wants to have downloaded is on the way.
    DownloadingArtifacts = 15,
    /// The group's main tasks have ended, so this sidecar was stopped.
    MainDead = 16,
    /// Something that its start waits for cannot be had at the moment, or its tokens cannot be renewed.
    HookFailed = 17,
    /// Something that its templates show is missing, or a command that follows a change was run.
    Template = 18,
}

impl TaskEventKind {
    /// Its name in Nomad's API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "Received",
            Self::TaskSetup => "Task Setup",
            Self::Driver => "Driver",
            Self::Started => "Started",
            Self::Terminated => "Terminated",
            Self::Restarting => "Restarting",
            Self::NotRestarting => "Not Restarting",
            Self::DriverFailure => "Driver Failure",
            Self::SetupFailure => "Setup Failure",
            Self::Killing => "Killing",
            Self::Killed => "Killed",
            Self::LeaderDead => "Leader Task Dead",
            Self::SiblingFailed => "Sibling Task Failed",
            Self::Signaling => "Signaling",
            Self::RestartSignaled => "Restart Signaled",
            Self::DownloadingArtifacts => "Downloading Artifacts",
            Self::MainDead => "Main Tasks Dead",
            Self::HookFailed => "Task hook failed",
            Self::Template => "Template",
        }
    }
}

/// One entry of a task's history. At most the last ten are kept.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TaskEventEntry {
    /// The kind of the event.
    #[prost(enumeration = "TaskEventKind", tag = "1")]
    pub kind: i32,
    /// Nanoseconds since the Unix epoch, by the node's clock.
    #[prost(uint64, tag = "2")]
    pub at_ns: u64,
    /// For users; may be empty.
    #[prost(string, tag = "3")]
    pub message: String,
    /// With [`TaskEventKind::Terminated`].
    #[prost(int32, tag = "4")]
    pub exit_code: i32,
    /// With [`TaskEventKind::Terminated`]: the signal that ended it, 0 for none.
    #[prost(int32, tag = "5")]
    pub signal: i32,
    /// With [`TaskEventKind::Terminated`]: whether the kernel ended it for want of memory.
    #[prost(bool, tag = "6")]
    pub oom_killed: bool,
    /// With [`TaskEventKind::Restarting`]: nanoseconds until the next start.
    #[prost(uint64, tag = "7")]
    pub delay_ns: u64,
    /// Whether the task has failed by this.
    #[prost(bool, tag = "8")]
    pub fails_task: bool,
}

/// Ends the message of a [`TaskEventKind::Terminated`] whose task was killed because its allocation took more of the disk
/// than it may.
pub const OVER_DISK_LIMIT: &str = "killed at the allocation's disk limit";

/// One task of an allocation.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TaskStatus {
    /// The task's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Where it is in its life.
    #[prost(enumeration = "TaskPhase", tag = "2")]
    pub state: i32,
    /// Whether it ended badly for good.
    #[prost(bool, tag = "3")]
    pub failed: bool,
    /// How often it was started again.
    #[prost(uint32, tag = "4")]
    pub restarts: u32,
    /// Nanoseconds since the Unix epoch; 0 for never.
    #[prost(uint64, tag = "5")]
    pub last_restart_ns: u64,
    /// Nanoseconds since the Unix epoch; 0 for never.
    #[prost(uint64, tag = "6")]
    pub started_ns: u64,
    /// Nanoseconds since the Unix epoch; 0 for not yet.
    #[prost(uint64, tag = "7")]
    pub finished_ns: u64,
    /// Its last events, oldest first.
    #[prost(message, repeated, tag = "8")]
    pub events: Vec<TaskEventEntry>,
    /// How its last process ended, once it did: exit code.
    #[prost(int32, tag = "9")]
    pub exit_code: i32,
    /// How its last process ended, once it did: signal, 0 for none.
    #[prost(int32, tag = "10")]
    pub signal: i32,
    /// How its last process ended, once it did: for want of memory.
    #[prost(bool, tag = "11")]
    pub oom_killed: bool,
}

/// One allocation. Its encoded bytes are what [`super::observed_hash`] hashes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AllocStatus {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub alloc_id: Vec<u8>,
    /// The status of the allocation as a whole.
    #[prost(enumeration = "ClientStatus", tag = "2")]
    pub status: i32,
    /// Why, for users; may be empty.
    #[prost(string, tag = "3")]
    pub description: String,
    /// One for each task of the group, in order of declaration.
    #[prost(message, repeated, tag = "4")]
    pub tasks: Vec<TaskStatus>,
    /// Nanoseconds since the Unix epoch, by the node's clock.
    #[prost(uint64, tag = "5")]
    pub modified_ns: u64,
    /// Whether it is well, where its group says what that means.
    #[prost(enumeration = "AllocHealth", tag = "6")]
    pub health: i32,
    /// Why not; empty when it is well, or nobody knows yet.
    #[prost(string, tag = "7")]
    pub health_message: String,
    /// As [`super::RunAlloc::revision`]: what is reported of it, its health above all, is reported of that.
    #[prost(uint64, tag = "8")]
    pub revision: u64,
}
