//! Events that go into the lifecycle, and the actions that come out of it.

use berth_api::agent::{AllocId, CheckState, TaskEventKind};

use super::RunSpec;

/// One run of one task. Events of any but the latest attempt are stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskRef {
    /// The allocation that the task belongs to.
    pub alloc: AllocId,
    /// Which of the group's tasks, from 0.
    pub task: u16,
    /// Which start of it, from 1; grows forever, restarts of the agent included.
    pub attempt: u32,
}

impl TaskRef {
    /// Names this start of the task, on the whole host.
    pub fn start_name(&self) -> String {
        format!("{}-{}-{}", self.alloc, self.task, self.attempt)
    }
}

/// One run of one check. A result of any but the latest is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckRef {
    /// The allocation that the check belongs to.
    pub alloc: AllocId,
    /// Which of the group's checks, from 0.
    pub check: u16,
    /// Which run of it; grows for as long as the agent lives.
    pub number: u32,
}

/// The result of one run of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// Passing, warning or critical.
    pub state: CheckState,
    /// HTTP's status, or a command's exit code; 0 for none.
    pub code: i32,
    /// For people; only its beginning is kept.
    pub output: String,
    /// Nanoseconds since the Unix epoch.
    pub at_ns: u64,
}

/// What goes into the lifecycle: desired state from the servers, and what the shell observed.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An allocation should run.
    Run(RunSpec),
    /// The desired state of an allocation is to end.
    Stop {
        /// The allocation.
        alloc: AllocId,
        /// The reason, in words.
        reason: String,
    },
    /// Its end is in the servers' log: no longer reported, never run again; its files stay.
    Forget(AllocId),
    /// Its files are not needed any more.
    Purge(AllocId),
    /// The reply to [`Action::Prepare`]: all that the allocation's tasks share is set up.
    Prepared(AllocId),
    /// The reply when something cannot be set up; the message names it. A failure that is recoverable may pass, others fail the
    /// allocation.
    PrepareFailed(AllocId, StartFailure),
    /// The reply to [`Action::CleanUp`].
    CleanedUp {
        /// The allocation.
        alloc: AllocId,
        /// What could not be removed, and why; for people.
        left: Option<String>,
    },
    /// Something worth an event in the task's history has happened, as the progress of a start.
    Noted {
        /// The task.
        of: TaskRef,
        /// The kind of the task's event.
        kind: TaskEventKind,
        /// When: nanoseconds since the Unix epoch.
        at_ns: u64,
        /// In words, what happened.
        message: String,
    },
    /// The task's process lives.
    Started {
        /// The task.
        of: TaskRef,
        /// Since when: nanoseconds since the Unix epoch.
        at_ns: u64,
    },
    /// The start failed: there is no process.
    StartFailed(TaskRef, StartFailure),
    /// The process has ended, with all that it started.
    Exited(TaskRef, Exit),
    /// The task is to be restarted, which its restart policy does not count.
    RestartRequested {
        /// The task.
        of: TaskRef,
        /// The reason, in words.
        why: String,
    },
    /// The task has failed while it runs, and is to end for it.
    TaskFailed {
        /// The task.
        of: TaskRef,
        /// The reason, in words.
        why: String,
    },
    /// The reply to [`Action::Recover`]; an end found then is reported as [`Event::Exited`] or [`Event::StartFailed`].
    Recovered(TaskRef, FoundTask),
    /// The reply to [`Action::Check`].
    Checked(CheckRef, CheckResult),
    /// An allocation uses more disk than its limit.
    Overran {
        /// The allocation.
        alloc: AllocId,
        /// Whether poststop tasks have added that, the others having ended.
        cleaning_up: bool,
        /// The usage and the limit; for people.
        why: String,
    },
    /// A server has acknowledged this node.
    ServerContact,
    /// A deadline may have passed.
    Tick,
}

/// Why a task did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// What failed, and so whether another start may help.
    pub kind: StartFailureKind,
    /// In words, what happened.
    pub message: String,
}

/// What failed when a task did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFailureKind {
    /// The task's settings are wrong: it can never start.
    Setup,
    /// The driver failed for good.
    Driver,
    /// The driver failed for now: another try counts as a restart.
    Recoverable,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exit {
    /// Its exit code; -1 when that cannot be known.
    pub exit_code: i32,
    /// The signal that ended it, 0 for none.
    pub signal: i32,
    /// Whether the kernel ended it for want of memory.
    pub oom_killed: bool,
    /// For people; an end with a message is not a success.
    pub message: String,
    /// Nanoseconds since the Unix epoch.
    pub at_ns: u64,
}

impl Exit {
    /// Whether the task has succeeded.
    pub fn is_success(&self) -> bool {
        self.exit_code == 0 && self.signal == 0 && self.message.is_empty()
    }
}

/// What a restarted agent finds of a task that it had started, or was about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundTask {
    /// The task's process lives.
    Running {
        /// Nanoseconds since the Unix epoch.
        started_ns: u64,
    },
    /// It was never started.
    Nothing,
    /// The machine restarted meanwhile.
    Rebooted,
}

/// What the lifecycle has its shell carry out, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Write [`super::Node::record`] durably before anything that follows.
    Persist(AllocId),
    /// Make what an allocation has for all of its tasks, unless it is there: once, before any of them starts, and once more
    /// after a restart of the agent. Answer with [`Event::Prepared`] or [`Event::PrepareFailed`], in bounded time.
    Prepare(AllocId),
    /// Remove what `Prepare` made: all tasks have ended. Answer with [`Event::CleanedUp`].
    CleanUp(AllocId),
    /// Answer with [`Event::Started`] or [`Event::StartFailed`], in bounded time.
    StartTask(TaskRef),
    /// Find out what became of a task of an earlier run of the agent.
    Recover(TaskRef),
    /// It is to end before it has begun: what its start still waits for may be left. It is answered all the same.
    CancelStart(TaskRef),
    /// Send its kill signal, or the driver's own if it names none.
    SignalTask(TaskRef),
    /// Send SIGKILL to all its processes.
    KillTask(TaskRef),
    /// Run a check; answer with [`Event::Checked`] within its time-out.
    Check(CheckRef),
    /// [`super::Alloc::status`] changed; of one that has ended, nothing is left that others could want.
    Report {
        /// The allocation.
        alloc: AllocId,
        /// The client status changed, not only what people like to read.
        urgent: bool,
    },
    /// Remove its directory and record, before anything that follows.
    RemoveDir(AllocId),
}

impl Action {
    /// The allocation that it belongs to. Actions of different allocations may be executed in any order.
    pub fn alloc(&self) -> AllocId {
        match self {
            Self::Persist(alloc)
            | Self::RemoveDir(alloc)
            | Self::Prepare(alloc)
            | Self::CleanUp(alloc)
            | Self::Report { alloc, .. } => *alloc,
            Self::StartTask(of)
            | Self::Recover(of)
            | Self::CancelStart(of)
            | Self::SignalTask(of)
            | Self::KillTask(of) => of.alloc,
            Self::Check(of) => of.alloc,
        }
    }
}
