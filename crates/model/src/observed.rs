//! What agents observe: the status of allocations between placement and end. Kept in memory, never in the log.

mod packed;

use std::sync::Arc;

use minicbor::{Decode, Encode};

use self::packed::PackedObservation;
use crate::{
    alloc::ClientStatus,
    ids::{AllocId, Index, NodeId},
    store::{AllocSlot, JobSlot, NodeSlot, PageTree},
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

/// A moment in a task's life that users ask about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode)]
pub struct TaskEvent {
    /// What happened, as Nomad's API names it.
    #[n(0)]
    #[cbor(encode_with = "event::encode")]
    pub kind: &'static str,
    /// By the node's clock.
    #[n(1)]
    pub at: Timestamp,
    /// In words, what happened.
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
    /// The allocation.
    #[n(0)]
    pub id: AllocId,
    /// The status of the allocation as a whole.
    #[n(1)]
    pub status: ClientStatus,
    /// Why, for users.
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
    /// What its agent waited for in vain, when it is not; for users.
    #[n(7)]
    pub health_message: String,
    /// The version of its job that its agent was informed of while it ran, and of which its health is reported; 0 for as it was placed.
    #[n(8)]
    #[cbor(default)]
    pub revision: u64,
    /// The hash of what crossed the wire.
    #[n(5)]
    #[cbor(with = "crate::codec::wide")]
    pub hash: u128,
}

/// Reading and writing of task events, whose kinds are texts that live forever.
mod event {
    use minicbor::{Decode, Decoder, Encoder, decode as de, encode as en};

    use super::{TaskEvent, Timestamp};

    pub(super) const KINDS: [&str; 19] = [
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
        "Task hook failed",
        "Template",
    ];

    pub(super) fn encode<C, W: en::Write>(
        kind: &'static str,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        e.str(kind)?.ok()
    }

    /// A kind that only a newer version knows reads as unknown.
    struct DecodedKind(&'static str);

    impl<'b, C> Decode<'b, C> for DecodedKind {
        fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, de::Error> {
            let kind = d.str()?;
            Ok(Self(KINDS.into_iter().find(|known| *known == kind).unwrap_or("Unknown")))
        }
    }

    /// [`TaskEvent`] as it is read.
    #[derive(Decode)]
    struct DecodedTaskEvent {
        #[n(0)]
        kind: DecodedKind,
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
            let DecodedTaskEvent { kind, at, message, exit_code, signal, oom_killed, delay_ns, fails_task } =
                DecodedTaskEvent::decode(d, context)?;
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

/// Bytes of a page of observations: small, for to copy one is to count another owner of each observation in it.
const PAGE_BYTES: usize = 512;

/// What is kept of an allocation.
#[derive(Debug, Clone)]
enum StoredObservation {
    Latest(Observation),
    /// Its end is in the log.
    Ended(PackedObservation),
}

/// What was observed last of one allocation, apart from the table: holds on to nothing else.
#[derive(Debug, Clone)]
pub struct LastObservation(StoredObservation);

impl LastObservation {
    /// The latest observation, until the end of its allocation is in the log.
    pub fn living(&self) -> Option<&Observation> {
        match &self.0 {
            StoredObservation::Latest(observation) => Some(observation),
            StoredObservation::Ended(_) => None,
        }
    }

    /// Once the end is in the log, without its hash. Decoded on each call.
    pub fn ended(&self) -> Option<ObservedAlloc> {
        match &self.0 {
            StoredObservation::Latest(_) => None,
            StoredObservation::Ended(packed) => Some(packed.read()),
        }
    }
}

impl StoredObservation {
    fn id(&self) -> AllocId {
        match self {
            Self::Latest(observation) => observation.alloc.id,
            Self::Ended(packed) => packed.id(),
        }
    }
}

/// The latest observation of each allocation. A clone is a snapshot, as of the store.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    allocs: PageTree<Option<StoredObservation>, PAGE_BYTES>,
    /// How many of these there are.
    kept: usize,
    jobs: PageTree<JobRunCounts>,
    nodes: PageTree<NodeReported, PAGE_BYTES>,
    /// How many run, of all jobs.
    running: u64,
    index: Index,
    /// Where the leadership began since which agents report.
    began_at: Index,
}

/// How far the reports of a node's agent are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeReported {
    /// Which node.
    pub node: NodeId,
    /// Counts the starts of its agent.
    pub epoch: u64,
    /// The agent's last change that is recorded.
    pub seq: u64,
    /// All that runs there was reported, and nothing runs that should not.
    pub confirmed: bool,
    /// Where something was recorded last.
    pub index: Index,
}

/// What is observed of a job's allocations together.
#[derive(Debug, Clone, Default)]
struct JobRunCounts {
    /// Where the last observation of any of them was published.
    index: Index,
    /// How many of its first group run; most jobs have no other.
    first: u32,
    /// And of the groups behind it, in their order.
    others: Option<Arc<Vec<u32>>>,
}

impl JobRunCounts {
    fn running(&self, group: u16) -> u32 {
        let Some(other) = usize::from(group).checked_sub(1) else { return self.first };
        self.others.as_ref().and_then(|others| others.get(other)).copied().unwrap_or_default()
    }

    /// Running allocations of all groups.
    fn sum(&self) -> u64 {
        let others = self.others.iter().flat_map(|others| others.iter());
        others.chain([&self.first]).map(|count| u64::from(*count)).sum()
    }

    fn count(&mut self, group: u16, change: i64) {
        let count = match usize::from(group).checked_sub(1) {
            None => &mut self.first,
            Some(other) => {
                let others = Arc::make_mut(self.others.get_or_insert_default());
                others.resize(others.len().max(other + 1), 0);
                &mut others[other]
            }
        };
        *count = u32::try_from(i64::from(*count) + change).unwrap_or(0);
    }
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

    /// The latest observation of an allocation, until its end is in the log.
    #[inline]
    pub fn get(&self, slot: AllocSlot, id: AllocId) -> Option<&Observation> {
        match self.allocs.get(slot.0 as usize)?.as_ref()? {
            StoredObservation::Latest(observation) if observation.alloc.id == id => Some(observation),
            _ => None,
        }
    }

    /// What was observed last of an allocation whose end is in the log, without its hash. Decoded again each time.
    pub fn ended(&self, slot: AllocSlot, id: AllocId) -> Option<ObservedAlloc> {
        match self.allocs.get(slot.0 as usize)?.as_ref()? {
            StoredObservation::Ended(packed) if packed.id() == id => Some(packed.read()),
            _ => None,
        }
    }

    /// What was observed last of an allocation, whether its end is in the log or not.
    pub fn last(&self, slot: AllocSlot, id: AllocId) -> Option<LastObservation> {
        let entry = self.allocs.get(slot.0 as usize)?.as_ref()?;
        (entry.id() == id).then(|| LastObservation(entry.clone()))
    }

    /// When what was observed of an allocation last changed, by its node's clock; whether it ended or not.
    pub fn modified_at(&self, slot: AllocSlot, id: AllocId) -> Option<Timestamp> {
        match self.allocs.get(slot.0 as usize)?.as_ref()? {
            StoredObservation::Latest(observation) if observation.alloc.id == id => {
                Some(observation.alloc.modified_at)
            }
            StoredObservation::Ended(packed) if packed.id() == id => Some(packed.modified_at()),
            _ => None,
        }
    }

    /// Where the last observation of any of a job's allocations was published.
    pub fn job_index(&self, job: JobSlot) -> Index {
        self.jobs.get(job.0 as usize).map_or(self.began_at, |of| of.index.max(self.began_at))
    }

    /// How many allocations of a job's group run, by the group's position.
    pub fn running(&self, job: JobSlot, group: u16) -> u32 {
        self.jobs.get(job.0 as usize).map_or(0, |of| of.running(group))
    }

    /// How many allocations run, of all jobs.
    pub fn all_running(&self) -> u64 {
        self.running
    }

    /// How far the reports of a node's agent are recorded; none where nothing was.
    pub fn reported(&self, slot: NodeSlot, node: NodeId) -> Option<&NodeReported> {
        self.nodes.get(slot.0 as usize).filter(|reported| reported.node == node && reported.index.0 > 0)
    }

    /// Records how far the reports of a node's agent have come; an `index` above 0.
    pub fn set_reported(&mut self, slot: NodeSlot, reported: NodeReported) {
        *self.nodes.get_or_grow(slot.0 as usize) = reported;
    }

    /// Forgets a node: its slot may be another's from now on.
    pub fn drop_node(&mut self, slot: NodeSlot, node: NodeId) {
        if self.reported(slot, node).is_some() {
            self.set_reported(slot, NodeReported::default());
        }
    }

    /// Takes an observation in; the hash of the one whose place it takes, 0 for none.
    pub fn record(
        &mut self,
        slot: AllocSlot,
        job: JobSlot,
        group: u16,
        alloc: Arc<ObservedAlloc>,
        index: Index,
    ) -> u128 {
        let (id, runs) = (alloc.id, alloc.status == ClientStatus::Running);
        let latest = StoredObservation::Latest(Observation { alloc, index });
        let replaced = self.allocs.get_or_grow(slot.0 as usize).replace(latest);
        self.kept += usize::from(replaced.is_none());
        let before = match replaced {
            Some(StoredObservation::Latest(before)) if before.alloc.id == id => Some(before),
            _ => None,
        };
        let ran = before.as_ref().is_some_and(|before| before.alloc.status == ClientStatus::Running);
        let of = self.jobs.get_or_grow(job.0 as usize);
        of.index = index;
        if runs != ran {
            of.count(group, if runs { 1 } else { -1 });
            self.running = self.running.saturating_add_signed(if runs { 1 } else { -1 });
        }
        self.index = self.index.max(index);
        before.map_or(0, |before| before.alloc.hash)
    }

    /// An allocation's group is at another position than it was.
    pub fn regroup(&mut self, slot: AllocSlot, id: AllocId, job: JobSlot, (from, to): (u16, u16)) {
        if from != to && self.get(slot, id).is_some_and(|o| o.alloc.status == ClientStatus::Running) {
            let of = self.jobs.get_or_grow(job.0 as usize);
            of.count(from, -1);
            of.count(to, 1);
        }
    }

    /// Stops counting an allocation as running: its end is in the log, and what was observed last stays to be read with
    /// [`Self::ended`].
    pub fn end(&mut self, slot: AllocSlot, id: AllocId, job: JobSlot, group: u16) {
        let Some(last) = self.get(slot, id) else { return };
        let ran = last.alloc.status == ClientStatus::Running;
        let packed = PackedObservation::new(&last.alloc);
        if ran {
            self.jobs.get_or_grow(job.0 as usize).count(group, -1);
            self.running = self.running.saturating_sub(1);
        }
        *self.allocs.get_or_grow(slot.0 as usize) = Some(StoredObservation::Ended(packed));
    }

    /// Forgets an allocation.
    pub fn forget(&mut self, slot: AllocSlot, id: AllocId) {
        if self.allocs.get(slot.0 as usize).and_then(Option::as_ref).is_some_and(|kept| kept.id() == id) {
            *self.allocs.get_mut(slot.0 as usize).expect("it is there") = None;
            self.kept -= 1;
            // What is kept of them, however many there were, goes with the last one.
            if self.kept == 0 {
                self.allocs.clear();
            }
        }
    }

    /// Forgets what is counted of a job: its slot may be another's from now on.
    pub fn drop_job(&mut self, job: JobSlot) {
        if let Some(of) = self.jobs.get_mut(job.0 as usize) {
            self.running = self.running.saturating_sub(of.sum());
            *of = JobRunCounts::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(id: u128, status: ClientStatus, hash: u128) -> Arc<ObservedAlloc> {
        Arc::new(ObservedAlloc {
            id: AllocId(id),
            status,
            description: String::new(),
            tasks: Vec::new(),
            modified_at: Timestamp::default(),
            healthy: None,
            health_message: String::new(),
            revision: 0,
            hash,
        })
    }

    #[test]
    fn what_runs_is_counted_by_job_and_group() {
        let (job, other) = (JobSlot(7), JobSlot(3));
        let mut observed = Observed::default();
        for (slot, group) in [(0, 0), (1, 2), (2, 2)] {
            let running = alloc(slot.into(), ClientStatus::Running, 5);
            assert_eq!(observed.record(AllocSlot(slot), job, group, running, Index(4)), 0);
        }
        let before = observed.clone();
        assert_eq!([0, 1, 2, 3].map(|group| observed.running(job, group)), [1, 0, 2, 0]);
        let again = alloc(1, ClientStatus::Running, 6);
        assert_eq!(observed.record(AllocSlot(1), job, 2, again, Index(5)), 5, "it ran before");
        observed.record(AllocSlot(2), job, 2, alloc(2, ClientStatus::Failed, 7), Index(6));
        observed.end(AllocSlot(0), AllocId(0), job, 0);
        observed.end(AllocSlot(2), AllocId(2), job, 2);
        assert_eq!([0, 2].map(|group| observed.running(job, group)), [0, 1]);
        assert_eq!([&before, &observed].map(Observed::all_running), [3, 1]);
        assert_eq!([0, 2].map(|group| before.running(job, group)), [1, 2], "a clone stays as it was");
        assert_eq!([job, other].map(|job| observed.job_index(job)), [Index(6), Index(0)]);
        observed.drop_job(job);
        assert_eq!((observed.running(job, 2), observed.job_index(job)), (0, Index(0)));
        assert_eq!(observed.all_running(), 0);
    }

    #[test]
    fn what_was_observed_last_is_read_after_the_end_until_it_is_collected() {
        let (job, slot, id) = (JobSlot(0), AllocSlot(0), AllocId(1));
        let mut observed = Observed::default();
        let mut last = alloc(1, ClientStatus::Running, 5);
        Arc::make_mut(&mut last).modified_at = Timestamp(9);
        observed.record(slot, job, 0, last, Index(4));
        assert!(observed.get(slot, id).is_some() && observed.ended(slot, id).is_none());
        assert_eq!(observed.modified_at(slot, id), Some(Timestamp(9)));
        let before = observed.clone();
        observed.end(slot, id, job, 0);
        observed.end(slot, id, job, 0);
        let ended =
            ObservedAlloc { modified_at: Timestamp(9), ..(*alloc(1, ClientStatus::Running, 0)).clone() };
        assert_eq!((observed.ended(slot, id), observed.running(job, 0)), (Some(ended.clone()), 0));
        assert!(observed.get(slot, id).is_none() && before.get(slot, id).is_some());
        assert_eq!(observed.modified_at(slot, id), Some(Timestamp(9)));
        assert!(observed.modified_at(slot, AllocId(2)).is_none());
        observed.forget(slot, AllocId(2));
        assert_eq!(observed.ended(slot, id), Some(ended), "that was another");
        assert!(observed.ended(slot, AllocId(2)).is_none());
        observed.forget(slot, id);
        assert!(observed.ended(slot, id).is_none());
    }

    #[test]
    fn an_observation_in_the_place_of_another_allocation_has_none_before_it() {
        let (job, slot) = (JobSlot(0), AllocSlot(0));
        let mut observed = Observed::default();
        observed.record(slot, job, 0, alloc(1, ClientStatus::Running, 5), Index(4));
        observed.forget(slot, AllocId(1));
        observed.drop_job(job);
        assert_eq!(observed.record(slot, job, 0, alloc(2, ClientStatus::Running, 6), Index(5)), 0);
        assert_eq!(observed.running(job, 0), 1);
    }
}
