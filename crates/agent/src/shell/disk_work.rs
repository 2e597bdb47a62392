//! Writes and removals on threads of their own: a slow disk delays only what waits for it, and no heartbeat.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use berth_api::agent::{AllocId, AllocStatus, Fence};
use tokio::sync::mpsc;

use super::data_dir::{DataDir, ServersRecord};
use crate::failure::{Failure, FailureContext};
use crate::lifecycle::{Action, AllocRecord};

/// Actions that wait for the disk before the agent takes in nothing more.
const WAITING_MAX: usize = 10_000;

/// Allocations that are written or removed together; each record is an open file meanwhile.
const BATCH_MAX: usize = 64;

/// What is to be done on the disk.
enum DiskTask {
    Write(AllocId, Box<AllocRecord>),
    /// The allocation, and the position of the desired state that removed it.
    Remove(AllocId, Fence),
    /// The node's, which everything else waits for; and what it was before.
    Fence {
        fence: Fence,
        before: Fence,
    },
    /// The time of the last contact with a server: nothing waits for that.
    LastContact(u64),
    /// Where the servers of the node's cluster take agents: nothing waits for that either.
    Servers(ServersRecord),
}

/// A queued action, and the status to report: that of the moment when it was decided on.
pub(super) type QueuedAction = (Action, Option<AllocStatus>);

/// The result of a [`DiskTask`].
pub(super) enum DiskDone {
    /// What was to be done for an allocation.
    Alloc(AllocId, Result<(), Failure>),
    /// Which cluster the node belongs to is on disk, or is what it was before.
    Fence { before: Fence, result: Result<(), Failure> },
}

/// The disk's worker, and the actions of each allocation that wait for it. An allocation has at most one piece of work
/// under way, so that what is queued is bounded by the node's allocations.
pub(super) struct DiskWork {
    work: Sender<DiskTask>,
    waiting: BTreeMap<AllocId, VecDeque<QueuedAction>>,
    queued_actions: usize,
    writes_fence: bool,
}

impl DiskWork {
    /// Starts the workers. They end, and let go of the directory, once this is dropped and all is written.
    pub(super) fn start(data: Arc<DataDir>) -> Result<(Self, mpsc::UnboundedReceiver<DiskDone>), Failure> {
        let (work, todo) = channel();
        let (done, completions) = mpsc::unbounded_channel();
        let (poke, pokes) = sync_channel(1);
        let remover = data.clone();
        let doing = || "start the disk's workers".to_owned();
        thread::Builder::new()
            .name("disk-remove".into())
            .spawn(move || remove_all(&remover, &pokes))
            .doing(doing)?;
        thread::Builder::new()
            .name("disk-write".into())
            .spawn(move || work_off(&data, &todo, &done, &poke))
            .doing(doing)?;
        Ok((Self { work, waiting: BTreeMap::new(), queued_actions: 0, writes_fence: false }, completions))
    }

    /// Whether more events may be handled: the queue has capacity for their writes, and the cluster is known.
    pub(super) fn accepts_work(&self) -> bool {
        self.queued_actions < WAITING_MAX && !self.writes_fence
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether an allocation's work is under way, so that its actions have to wait.
    pub(super) fn is_busy(&self, alloc: AllocId) -> bool {
        self.waiting.contains_key(&alloc)
    }

    /// Queues an action behind the work of its allocation.
    pub(super) fn queue(&mut self, alloc: AllocId, queued: QueuedAction) {
        let waiting = self.waiting.entry(alloc).or_default();
        match (waiting.back_mut(), queued) {
            // The later report includes what the earlier one would have reported.
            (
                Some((Action::Report { urgent: before, .. }, known)),
                (Action::Report { urgent, .. }, status),
            ) => {
                *before |= urgent;
                *known = status;
            }
            (_, queued) => {
                waiting.push_back(queued);
                self.queued_actions += 1;
            }
        }
    }

    pub(super) fn write(&mut self, alloc: AllocId, record: AllocRecord) {
        self.begin(alloc, DiskTask::Write(alloc, Box::new(record)));
    }

    pub(super) fn remove(&mut self, alloc: AllocId, fence: Fence) {
        self.begin(alloc, DiskTask::Remove(alloc, fence));
    }

    pub(super) fn keep_fence(&mut self, fence: Fence, before: Fence) {
        self.writes_fence = true;
        let _ = self.work.send(DiskTask::Fence { fence, before });
    }

    pub(super) fn write_last_contact(&self, at_ns: u64) {
        let _ = self.work.send(DiskTask::LastContact(at_ns));
    }

    pub(super) fn write_servers(&self, record: ServersRecord) {
        let _ = self.work.send(DiskTask::Servers(record));
    }

    pub(super) fn fence_is_written(&mut self) {
        self.writes_fence = false;
    }

    fn begin(&mut self, alloc: AllocId, work: DiskTask) {
        self.waiting.entry(alloc).or_default();
        // The worker lives as long as this does.
        let _ = self.work.send(work);
    }

    /// An allocation's work is done: what waited for it.
    pub(super) fn take(&mut self, alloc: AllocId) -> VecDeque<QueuedAction> {
        let waiting = self.waiting.remove(&alloc).unwrap_or_default();
        self.queued_actions -= waiting.len();
        waiting
    }
}

fn work_off(
    data: &DataDir,
    todo: &Receiver<DiskTask>,
    done: &mpsc::UnboundedSender<DiskDone>,
    poke: &SyncSender<()>,
) {
    // A pending wake-up is enough: it makes the remover process all there is.
    let wake_remover = || {
        let _ = poke.try_send(());
    };
    wake_remover();
    let (mut next, mut fence_on_disk) = (None, None);
    while let Some(work) = next.take().or_else(|| todo.recv().ok()) {
        match work {
            DiskTask::LastContact(at_ns) => data.write_last_contact(at_ns),
            DiskTask::Servers(record) => data.write_servers(&record),
            DiskTask::Write(alloc, record) => {
                let mut records = vec![(alloc, record)];
                next = take_batch(todo, &mut records, |work| match work {
                    DiskTask::Write(alloc, record) => Ok((alloc, record)),
                    other => Err(other),
                });
                for ((alloc, _), written) in records.iter().zip(data.write(&records)) {
                    let _ = done.send(DiskDone::Alloc(*alloc, written));
                }
            }
            DiskTask::Remove(alloc, fence) => {
                let mut removed = vec![(alloc, fence)];
                next = take_batch(todo, &mut removed, |work| match work {
                    DiskTask::Remove(alloc, fence) => Ok((alloc, fence)),
                    other => Err(other),
                });
                for (alloc, set_out) in set_out(data, &removed, &mut fence_on_disk) {
                    let _ = done.send(DiskDone::Alloc(alloc, set_out));
                }
                wake_remover();
            }
            DiskTask::Fence { fence, before } => {
                fence_on_disk = None;
                let _ = done.send(DiskDone::Fence { before, result: data.keep_fence(fence) });
            }
        }
    }
}

/// Takes what else waits of the same kind, so that the disk is waited for once; answers with the first work that is another.
fn take_batch<T>(
    todo: &Receiver<DiskTask>,
    taken: &mut Vec<T>,
    is_such: impl Fn(DiskTask) -> Result<T, DiskTask>,
) -> Option<DiskTask> {
    while taken.len() < BATCH_MAX {
        match is_such(todo.try_recv().ok()?) {
            Ok(one) => taken.push(one),
            Err(other) => return Some(other),
        }
    }
    None
}

/// Sets allocations out to be removed. Their records tell how far the desired state had come that let go of them: before
/// they go that is kept elsewhere, or a server that lags behind would have the next agent run them again.
fn set_out(
    data: &DataDir,
    removed: &[(AllocId, Fence)],
    fence_on_disk: &mut Option<Fence>,
) -> Vec<(AllocId, Result<(), Failure>)> {
    let last = removed.last().map(|(_, fence)| *fence);
    if *fence_on_disk != last
        && let Some(fence) = last
    {
        match data.keep_fence(fence) {
            Ok(()) => *fence_on_disk = last,
            // Nothing else would ever make room again.
            Err(failure) if failure.is_full() => {
                tracing::warn!(%failure, "allocations are removed all the same")
            }
            Err(failure) => {
                let failed = || Failure::other("keep how far the desired state had come", &failure);
                return removed.iter().map(|(alloc, _)| (*alloc, Err(failed()))).collect();
            }
        }
    }
    removed.iter().map(|(alloc, _)| (*alloc, data.set_out(*alloc))).collect()
}

/// Removes what was set out, which may take long, until there is nobody to set out more.
fn remove_all(data: &DataDir, pokes: &Receiver<()>) {
    for () in pokes {
        data.remove_set_out();
    }
}
