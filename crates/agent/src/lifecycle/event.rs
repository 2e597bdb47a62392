//! What can happen to a node's allocations, and what is to be done about it.

use berth_api::agent::{AllocId, CheckState, TaskEventKind};

use super::RunSpec;

/// One run of one task. News of any but the latest attempt are stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskRef {
    /// Whose task.
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

/// One question of one check. An answer to any but the latest is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckRef {
    /// Whose check.
    pub alloc: AllocId,
    /// Which of the group's checks, from 0.
    pub check: u16,
    /// Which question; grows for as long as the agent lives.
    pub number: u32,
}

/// What came of a check's question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckAnswer {
    /// Passing, warning or critical.
    pub state: CheckState,
    /// HTTP's status, or a command's exit code; 0 for none.
    pub code: i32,
    /// For people; only its beginning is kept.
    pub output: String,
    /// Nanoseconds since the Unix epoch.
    pub at_ns: u64,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An allocation should run.
    Run(RunSpec),
    /// It should end.
    Stop {
        /// The allocation.
        alloc: AllocId,
        /// The reason, in words.
        reason: String,
    },
    /// Its end is in the servers' log: no longer reported, never run again; its files stay.
    Forget(AllocId),
    /// Nobody will ask for its files any more.
    Purge(AllocId),
    /// Answers [`Action::Prepare`]: all is there that tasks of the allocation need.
    Prepared(AllocId),
    /// The same: something cannot be made; the message names it. A failure that is recoverable may pass, others fail the
    /// allocation.
    PrepareFailed(AllocId, StartFailure),
    /// Answers [`Action::CleanUp`].
    CleanedUp {
        /// The allocation.
        alloc: AllocId,
        /// What could not be removed, and why; for people.
        left: Option<String>,
    },
    /// How far a start has come.
    Noted {
        /// The task.
        of: TaskRef,
        /// What is going on.
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
    /// There is no process.
    StartFailed(TaskRef, StartFailure),
    /// The process is gone, and all that came of it.
    Exited(TaskRef, Exit),
    /// The task is to be restarted, which its restart policy does not count.
    RestartAsked {
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
    /// Answers [`Action::Recover`]; an end found then is reported as [`Event::Exited`] or [`Event::StartFailed`].
    Recovered(TaskRef, FoundTask),
    /// Answers [`Action::Check`].
    Checked(CheckRef, CheckAnswer),
    /// An allocation takes more of the node than it may.
    Overran {
        /// The allocation.
        alloc: AllocId,
        /// By what its poststop tasks have added, the others having ended.
        cleaning_up: bool,
        /// What, and how much it may; for people.
        why: String,
    },
    /// A server has shown that it hears this node.
    Heard,
    /// A deadline may have passed.
    Tick,
}

/// Why a task did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// Whose fault it is.
    pub kind: StartFailureKind,
    /// In words, what happened.
    pub message: String,
}

/// Whose fault it is that a task did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFailureKind {
    /// The task's settings: it can never start.
    Setup,
    /// The driver's, for good.
    Driver,
    /// The driver's, for now: counts as a restart.
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
    /// Whether the task did what it was for.
    pub fn is_success(&self) -> bool {
        self.exit_code == 0 && self.signal == 0 && self.message.is_empty()
    }
}

/// What a restarted agent finds of a task that it had started, or was about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundTask {
    /// Its process lives.
    Running {
        /// Nanoseconds since the Unix epoch.
        started_ns: u64,
    },
    /// It was never started.
    Nothing,
    /// The machine restarted meanwhile.
    Rebooted,
}

/// What is to be done, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Write [`super::Node::record`] durably before anything that follows.
    Persist(AllocId),
    /// Make what an allocation has for all of its tasks, unless it is there: once, before any of them starts, and once more
    /// after a restart of the agent. Answer with [`Event::Prepared`] or [`Event::PrepareFailed`], in bounded time.
    Prepare(AllocId),
    /// Remove it, in the same way: all of its tasks have ended. Answer with [`Event::CleanedUp`].
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
    /// Ask what a check asks; answer with [`Event::Checked`] within its time-out.
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
    /// Whose it is. Actions of different allocations may be executed in any order.
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
