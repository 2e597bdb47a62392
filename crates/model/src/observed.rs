//! What agents observe: how allocations fare between placement and end. Kept in memory, never in the log.

use std::sync::Arc;

use minicbor::{Decode, Encode};

use crate::{
    alloc::ClientStatus,
    ids::{AllocId, Index, JobKey},
    store::{AllocSlot, PageTree},
    time::Timestamp,
};

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum TaskState {
    /// Not started, or between two starts.
    #[n(0)]
    Pending,
    /// Its process lives.
    #[n(1)]
    Running,
    /// Will not start again.
    #[n(2)]
    Dead,
}

impl TaskState {
    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }
}

/// A moment in a task's life that people ask about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode)]
pub struct TaskEvent {
    /// What happened, as Nomad's API names it.
    #[n(0)]
    #[cbor(encode_with = "event::encode")]
    pub kind: &'static str,
    /// By the node's clock.
    #[n(1)]
    pub at: Timestamp,
    /// For people.
    #[n(2)]
    pub message: String,
    /// Of a process that ended.
    #[n(3)]
    pub exit_code: i32,
    /// Of a process that ended; 0 for none.
    #[n(4)]
    pub signal: i32,
    /// Whether the kernel ended it for want of memory.
    #[n(5)]
    pub oom_killed: bool,
    /// Nanoseconds until the next start.
    #[n(6)]
    pub delay_ns: u64,
    /// Whether the task has failed by this.
    #[n(7)]
    pub fails_task: bool,
}

/// One task as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ObservedTask {
    /// The task's name.
    #[n(0)]
    pub name: String,
    /// Where it is in its life.
    #[n(1)]
    pub state: TaskState,
    /// Whether it ended badly for good.
    #[n(2)]
    pub failed: bool,
    /// How often it was started again.
    #[n(3)]
    pub restarts: u32,
    /// Zero for never.
    #[n(4)]
    pub last_restart: Timestamp,
    /// Zero for never.
    #[n(5)]
    pub started_at: Timestamp,
    /// Zero for not yet.
    #[n(6)]
    pub finished_at: Timestamp,
    /// How its last process ended: exit code, signal, out of memory.
    #[n(7)]
    pub exit: (i32, i32, bool),
    /// Its last events, oldest first.
    #[n(8)]
    pub events: Vec<TaskEvent>,
}

/// One allocation as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ObservedAlloc {
    /// Which.
    #[n(0)]
    pub id: AllocId,
    /// How it fares as a whole.
    #[n(1)]
    pub status: ClientStatus,
    /// Why, for people.
    #[n(2)]
    pub description: String,
    /// In the order in which its group declares them.
    #[n(3)]
    pub tasks: Vec<ObservedTask>,
    /// By the node's clock.
    #[n(4)]
    pub modified_at: Timestamp,
    /// Whether it is well, once that has shown; none where nobody asks.
    #[n(6)]
    pub healthy: Option<bool>,
    /// What its agent waited for in vain, when it is not; for people.
    #[n(7)]
    pub health_message: String,
    /// The hash of what crossed the wire.
    #[n(5)]
    #[cbor(with = "crate::codec::wide")]
    pub hash: u128,
}

/// Reading and writing of task events, whose kinds are texts that live for ever.
mod event {
    use minicbor::{Decode, Decoder, Encoder, decode as de, encode as en};

    use super::{TaskEvent, Timestamp};

    const KINDS: [&str; 17] = [
        "Received",
        "Task Setup",
        "Driver",
        "Started",
        "Terminated",
        "Restarting",
        "Not Restarting",
        "Driver Failure",
        "Setup Failure",
        "Killing",
        "Killed",
        "Leader Task Dead",
        "Sibling Task Failed",
        "Signaling",
        "Restart Signaled",
        "Downloading Artifacts",
        "Main Tasks Dead",
    ];

    pub(super) fn encode<C, W: en::Write>(
        kind: &'static str,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        e.str(kind)?.ok()
    }

    /// A kind that only a newer version knows reads as unknown.
    struct Kind(&'static str);

    impl<'b, C> Decode<'b, C> for Kind {
        fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, de::Error> {
            let kind = d.str()?;
            Ok(Self(KINDS.into_iter().find(|known| *known == kind).unwrap_or("Unknown")))
        }
    }

    /// [`TaskEvent`] as it is read.
    #[derive(Decode)]
    struct Read {
        #[n(0)]
        kind: Kind,
        #[n(1)]
        at: Timestamp,
        #[n(2)]
        message: String,
        #[n(3)]
        exit_code: i32,
        #[n(4)]
        signal: i32,
        #[n(5)]
        oom_killed: bool,
        #[n(6)]
        delay_ns: u64,
        #[n(7)]
        fails_task: bool,
    }

    impl<'b, C> Decode<'b, C> for TaskEvent {
        fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, de::Error> {
            let Read { kind, at, message, exit_code, signal, oom_killed, delay_ns, fails_task } =
                Read::decode(d, context)?;
            Ok(Self { kind: kind.0, at, message, exit_code, signal, oom_killed, delay_ns, fails_task })
        }
    }
}

/// An observation and where it stands in the one order of changes.
#[derive(Debug, Clone)]
pub struct Observation {
    /// What was observed.
    pub alloc: Arc<ObservedAlloc>,
    /// Where it was published.
    pub index: Index,
}

/// The latest observation of each allocation. A clone is a snapshot, as of the store.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    allocs: PageTree<Option<Observation>>,
    jobs: imbl::OrdMap<JobKey, Index>,
    running: imbl::OrdMap<(JobKey, u16), u32>,
    index: Index,
    /// Where the leadership began since which agents report.
    began_at: Index,
}

impl Observed {
    /// A leadership begins: what runs is not known until agents report, which is a change of every living allocation.
    pub fn begin(&mut self, index: Index) {
        self.began_at = index;
        self.index = self.index.max(index);
    }

    /// Where what is observed of a living allocation last changed. Never goes back.
    pub fn alloc_index(&self, slot: AllocSlot, id: AllocId) -> Index {
        self.get(slot, id).map_or(self.began_at, |observation| observation.index.max(self.began_at))
    }

    /// Where the last observation was published.
    pub fn index(&self) -> Index {
        self.index
    }

    /// Bytes copied by writes because a clone still shared them.
    pub fn copied_bytes(&self) -> u64 {
        self.allocs.copied_bytes()
    }

    /// The latest observation of an allocation.
    #[inline]
    pub fn get(&self, slot: AllocSlot, id: AllocId) -> Option<&Observation> {
        self.allocs.get(slot.0 as usize)?.as_ref().filter(|observation| observation.alloc.id == id)
    }

    /// Where the last observation of any of a job's allocations was published.
    pub fn job_index(&self, job: &JobKey) -> Index {
        self.jobs.get(job).copied().unwrap_or_default().max(self.began_at)
    }

    /// How many allocations of a job's group run, by the group's position.
    pub fn running(&self, job: &JobKey, group: u16) -> u32 {
        self.running.get(&(job.clone(), group)).copied().unwrap_or_default()
    }

    /// Takes an observation in; the hash of the one whose place it takes, 0 for none.
    pub fn record(
        &mut self,
        slot: AllocSlot,
        job: &JobKey,
        group: u16,
        alloc: Arc<ObservedAlloc>,
        index: Index,
    ) -> u128 {
        while self.allocs.len() <= slot.0 as usize {
            self.allocs.push(None);
        }
        let runs = alloc.status == ClientStatus::Running;
        let before = self.get(slot, alloc.id).map(|before| (before.alloc.status, before.alloc.hash));
        let ran = before.is_some_and(|(status, _)| status == ClientStatus::Running);
        *self.allocs.get_mut(slot.0 as usize).expect("just made") = Some(Observation { alloc, index });
        self.count_running(job, group, i64::from(runs) - i64::from(ran));
        self.jobs.insert(job.clone(), index);
        self.index = self.index.max(index);
        before.map_or(0, |(_, hash)| hash)
    }

    /// Stops counting an allocation as running: its end is in the log, and what was observed last stays to be read.
    pub fn end(&mut self, slot: AllocSlot, id: AllocId, job: &JobKey, group: u16) {
        if self.get(slot, id).is_some_and(|o| o.alloc.status == ClientStatus::Running) {
            self.count_running(job, group, -1);
            let Some(Some(observation)) = self.allocs.get_mut(slot.0 as usize) else { return };
            Arc::make_mut(&mut observation.alloc).status = ClientStatus::Lost;
        }
    }

    /// Forgets an allocation.
    pub fn forget(&mut self, slot: AllocSlot, id: AllocId) {
        if self.get(slot, id).is_some() {
            *self.allocs.get_mut(slot.0 as usize).expect("it is there") = None;
        }
    }

    /// Forgets what is counted of a job.
    pub fn forget_job(&mut self, job: &JobKey) {
        self.jobs.remove(job);
        let groups: Vec<_> =
            self.running.range((job.clone(), 0)..=(job.clone(), u16::MAX)).map(|(k, _)| k.clone()).collect();
        for group in groups {
            self.running.remove(&group);
        }
    }

    fn count_running(&mut self, job: &JobKey, group: u16, change: i64) {
        if change != 0 {
            let count = self.running.entry((job.clone(), group)).or_insert(0);
            *count = u32::try_from(i64::from(*count) + change).unwrap_or(0);
        }
    }
}
