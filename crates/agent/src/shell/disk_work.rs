//! What is written and removed, away from the agent's loop: a slow disk holds up what waits for it, and no heartbeat.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use berth_api::agent::{AllocId, AllocStatus, Fence};
use tokio::sync::mpsc;

use super::data_dir::{DataDir, ServersRecord};
use crate::failure::{Doing, Failure};
use crate::lifecycle::{Action, AllocRecord};

/// Actions that wait for the disk before the agent takes in nothing more.
const WAITING_MAX: usize = 10_000;

/// Allocations that are written or removed together; each record is an open file meanwhile.
const TOGETHER_MAX: usize = 64;

/// What is to be done on the disk.
enum Work {
    Write(AllocId, Box<AllocRecord>),
    /// And the position of the desired state that said so.
    Remove(AllocId, Fence),
    /// The node's, which everything else waits for; and what it was before.
    Fence {
        fence: Fence,
        before: Fence,
    },
    /// When a server was last heard of: nobody waits for that.
    Heard(u64),
    /// Where the servers of the node's cluster take agents: nobody waits for that either.
    Servers(ServersRecord),
}

/// An action that waits, and the status that a report tells: the one of the moment when it was decided on.
pub(super) type Queued = (Action, Option<AllocStatus>);

/// What came of it.
pub(super) enum Done {
    /// What was to be done for an allocation.
    Alloc(AllocId, Result<(), Failure>),
    /// Which cluster the node belongs to is on disk, or is what it was before.
    Fence { before: Fence, result: Result<(), Failure> },
}

/// The disk's worker, and the actions of each allocation that wait for it. An allocation has at most one piece of work
/// under way, so that what is queued is bounded by the node's allocations.
pub(super) struct DiskWork {
    work: Sender<Work>,
    waiting: BTreeMap<AllocId, VecDeque<Queued>>,
    waiting_actions: usize,
    keeps_fence: bool,
}

impl DiskWork {
    /// Starts the workers. They end, and let go of the directory, once this is dropped and all is written.
    pub(super) fn start(data: Arc<DataDir>) -> Result<(Self, mpsc::UnboundedReceiver<Done>), Failure> {
        let (work, todo) = channel();
        let (done, news) = mpsc::unbounded_channel();
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
        Ok((Self { work, waiting: BTreeMap::new(), waiting_actions: 0, keeps_fence: false }, news))
    }

    /// Whether more may be taken in: there is room for what it asks of the disk, and it is known for which cluster.
    pub(super) fn has_room(&self) -> bool {
        self.waiting_actions < WAITING_MAX && !self.keeps_fence
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether an allocation's work is under way, so that its actions have to wait.
    pub(super) fn is_busy(&self, alloc: AllocId) -> bool {
        self.waiting.contains_key(&alloc)
    }

    /// Queues an action behind the work of its allocation.
    pub(super) fn queue(&mut self, alloc: AllocId, queued: Queued) {
        let waiting = self.waiting.entry(alloc).or_default();
        match (waiting.back_mut(), queued) {
            // The later report tells what the earlier one would have.
            (
                Some((Action::Report { urgent: before, .. }, known)),
                (Action::Report { urgent, .. }, status),
            ) => {
                *before |= urgent;
                *known = status;
            }
            (_, queued) => {
                waiting.push_back(queued);
                self.waiting_actions += 1;
            }
        }
    }

    pub(super) fn write(&mut self, alloc: AllocId, record: AllocRecord) {
        self.begin(alloc, Work::Write(alloc, Box::new(record)));
    }

    pub(super) fn remove(&mut self, alloc: AllocId, fence: Fence) {
        self.begin(alloc, Work::Remove(alloc, fence));
    }

    pub(super) fn keep_fence(&mut self, fence: Fence, before: Fence) {
        self.keeps_fence = true;
        let _ = self.work.send(Work::Fence { fence, before });
    }

    pub(super) fn keep_heard(&self, at_ns: u64) {
        let _ = self.work.send(Work::Heard(at_ns));
    }

    pub(super) fn keep_servers(&self, record: ServersRecord) {
        let _ = self.work.send(Work::Servers(record));
    }

    pub(super) fn fence_is_kept(&mut self) {
        self.keeps_fence = false;
    }

    fn begin(&mut self, alloc: AllocId, work: Work) {
        self.waiting.entry(alloc).or_default();
        // The worker lives as long as this does.
        let _ = self.work.send(work);
    }

    /// An allocation's work is done: what waited for it.
    pub(super) fn take(&mut self, alloc: AllocId) -> VecDeque<Queued> {
        let waiting = self.waiting.remove(&alloc).unwrap_or_default();
        self.waiting_actions -= waiting.len();
        waiting
    }
}

fn work_off(
    data: &DataDir,
    todo: &Receiver<Work>,
    done: &mpsc::UnboundedSender<Done>,
    poke: &SyncSender<()>,
) {
    // A poke that is there already will do: it makes the remover look at all there is.
    let tell_remover = || {
        let _ = poke.try_send(());
    };
    tell_remover();
    let (mut next, mut kept) = (None, None);
    while let Some(work) = next.take().or_else(|| todo.recv().ok()) {
        match work {
            Work::Heard(at_ns) => data.keep_heard(at_ns),
            Work::Servers(record) => data.keep_servers(&record),
            Work::Write(alloc, record) => {
                let mut records = vec![(alloc, record)];
                next = take_more(todo, &mut records, |work| match work {
                    Work::Write(alloc, record) => Ok((alloc, record)),
                    other => Err(other),
                });
                for ((alloc, _), written) in records.iter().zip(data.write(&records)) {
                    let _ = done.send(Done::Alloc(*alloc, written));
                }
            }
            Work::Remove(alloc, fence) => {
                let mut removed = vec![(alloc, fence)];
                next = take_more(todo, &mut removed, |work| match work {
                    Work::Remove(alloc, fence) => Ok((alloc, fence)),
                    other => Err(other),
                });
                for (alloc, set_out) in set_out(data, &removed, &mut kept) {
                    let _ = done.send(Done::Alloc(alloc, set_out));
                }
                tell_remover();
            }
            Work::Fence { fence, before } => {
                kept = None;
                let _ = done.send(Done::Fence { before, result: data.keep_fence(fence) });
            }
        }
    }
}

/// Takes what else waits of the same kind, so that the disk is waited for once; answers with the first work that is another.
fn take_more<T>(
    todo: &Receiver<Work>,
    taken: &mut Vec<T>,
    is_such: impl Fn(Work) -> Result<T, Work>,
) -> Option<Work> {
    while taken.len() < TOGETHER_MAX {
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
    kept: &mut Option<Fence>,
) -> Vec<(AllocId, Result<(), Failure>)> {
    let last = removed.last().map(|(_, fence)| *fence);
    if *kept != last
        && let Some(fence) = last
    {
        match data.keep_fence(fence) {
            Ok(()) => *kept = last,
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
