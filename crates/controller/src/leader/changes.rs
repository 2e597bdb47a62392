//! What an applied change of the store leads to.

use std::sync::Arc;

use berth_model::{
    EvalId, Index, JobKey,
    alloc::{ClientStatus, DesiredStatus, StopReason},
    eval::{Eval, EvalStatus, Trigger},
    event::StateChange,
    job::{Group, VersionChange},
    node::NodeStatus,
    store::{AllocRow, AllocSlot, EvalSlot, JobRow, NodeRow, NodeSlot, Store},
};

use super::{Leader, Liveness, ObservationQueue, PendingWork, Replica, sessions::Sessions};
use crate::{
    invariants::{lacks_of_count, lacks_of_nodes},
    replica::stop_reason,
};

impl Leader {
    /// Of the entry at this index; the state may be that after later ones.
    pub(super) fn on_change(&mut self, replica: &Replica, index: Index, change: &StateChange) {
        let (store, at) = (replica.store(), self.time);
        if *change == StateChange::Restored {
            return self.on_restored(replica);
        }
        self.work.follow(store, change, at);
        match change {
            StateChange::EvalChanged(id) => self.on_eval_changed(store, *id),
            StateChange::AllocPlaced(slot) => self.want_if_node_has_changed(store, *slot),
            StateChange::AllocStopped(slot) => {
                self.on_alloc_stopped(store, *slot);
                self.note_awaited(store, *slot);
            }
            StateChange::AllocHealthChanged(slot) => {
                let judged = store.allocs().row(*slot).map(|row| row.id);
                // What an agent finds is planned as it is found; what a person says is heard here first.
                if judged.is_some_and(|id| self.work.judging.remove(&id).is_none()) {
                    self.want_if_unhealthy(store, *slot);
                }
            }
            StateChange::AllocUpdated(slot, _) => {
                let judged = store.allocs().row(*slot).map(|row| row.id);
                judged.map(|id| self.work.judging.remove(&id));
            }
            StateChange::AllocEnded(slot) => {
                let ended = store.allocs().row(*slot).map(|row| row.id);
                if let Some(id) = ended {
                    self.work.ending.remove(&id);
                    self.work.judging.remove(&id);
                }
                self.note_awaited(store, *slot);
                self.note_loss(store, index, *slot);
                self.want_if_overlooked(store, *slot);
                self.want_if_done_twice(store, *slot);
            }
            StateChange::DeploymentChanged(id, _) => {
                let created = store.deployments().get(*id).filter(|created| created.create_index == index);
                if created.is_some_and(|created| created.groups.iter().any(|group| group.placed > 0)) {
                    self.look_for_evidence(replica, *id);
                }
            }
            StateChange::NodeRegistered(slot) => {
                self.count_node(store, *slot);
                // What it has now may be what a job for every node asks for.
                self.work.node_added |= store.nodes().row(*slot).is_some_and(NodeRow::is_ready);
            }
            StateChange::NodeChanged(slot, _) => self.on_node_changed(store, *slot),
            StateChange::NodeCollected(_, id) => {
                self.liveness.down(*id);
                self.sessions.remove(*id);
            }
            _ => {}
        }
    }

    /// One that is unhealthy may have to be replaced.
    fn want_if_unhealthy(&mut self, store: &Store, slot: AllocSlot) {
        let is_unhealthy = store.allocs().detail(slot).is_some_and(|detail| detail.healthy == Some(false));
        let row = store.allocs().row(slot).filter(|row| row.is_desired() && is_unhealthy);
        if let Some(job) = row.and_then(|row| store.jobs().row(row.job)) {
            self.work.wanting.entry(job.key.clone()).or_insert(Trigger::DeploymentWatcher);
        }
    }

    /// Another state has taken the place of this one: all that follows from it is made again. What is on its way to the
    /// log and from it stays.
    fn on_restored(&mut self, replica: &Replica) {
        self.work = PendingWork::of(replica.store());
        self.liveness = Liveness::begin(replica.store(), self.listening);
        self.observations = ObservationQueue::default();
        self.sessions = Sessions::of(replica.store());
        self.servers.on_restored();
        self.take_up_state(replica);
    }

    /// Takes up all that a state leaves to be done: open evaluations, what ended and is not in the log, and what is
    /// placed on nodes that are down.
    pub(super) fn take_up_state(&mut self, replica: &Replica) {
        let store = replica.store();
        let open = store.evals().iter().map(|(_, eval)| eval.clone()).filter(|e| !e.status.is_terminal());
        open.for_each(|eval| self.take_up(eval));
        for slot in store.nodes().iter().flat_map(|(_, node)| store.nodes().live(node)) {
            let Some(row) = store.allocs().row(slot) else { continue };
            if let Some(seen) = replica.observed().get(slot, row.id) {
                self.on_observed(store, slot, row, &seen.alloc);
            }
            self.want_if_stood_in_for(store, slot);
            self.want_if_told_to_leave(store, slot);
        }
        self.want_preempted(store);
        let active: Vec<_> = store.deployments().active().map(|deployment| deployment.id).collect();
        active.into_iter().for_each(|id| self.look_for_evidence(replica, id));
        for (slot, row) in store.nodes().iter() {
            if row.status.is_silent() {
                self.want_jobs_on(store, slot);
                self.work.awaited.insert(row.id);
            }
        }
        self.want_lacking(store);
    }

    /// Who led before may have ended between a change and the evaluations that it asks for: a node that came, or the end of an
    /// allocation. One too many finds nothing to do.
    fn want_lacking(&mut self, store: &Store) {
        for (_, row) in store.jobs().iter().filter(|(_, row)| !has_all_by_its_counts(row)) {
            let trigger = match () {
                () if lacks_of_count(store, row).is_some() => Trigger::AllocFailure,
                () if lacks_of_nodes(store, row).is_some() || has_old_on_ready_nodes(store, row) => {
                    Trigger::NodeUpdate
                }
                () => continue,
            };
            self.work.wanting.entry(row.key.clone()).or_insert(trigger);
        }
    }

    fn on_eval_changed(&mut self, store: &Store, id: EvalId) {
        let Some(eval) = store.eval(id).cloned() else { return };
        if eval.status.is_terminal() || eval.status == EvalStatus::Blocked {
            // What is left to be done of it, if anything, waits for capacity.
            self.work.attempts.remove(&id);
            self.work.queue.done(id, &mut self.work.tenants);
        } else {
            self.take_up(eval);
        }
    }

    fn take_up(&mut self, eval: Arc<Eval>) {
        // What waits for capacity is another follower's.
        if eval.status != EvalStatus::Blocked {
            self.work.queue.push(eval, self.time);
        }
    }

    fn on_alloc_stopped(&mut self, store: &Store, slot: AllocSlot) {
        if stop_reason(store, slot) == StopReason::Preempted {
            self.want(store, slot, Trigger::Preemption);
        }
    }

    /// Who led before may have ended between a plan and the evaluations of those whom it preempted. One too many finds
    /// nothing to do.
    fn want_preempted(&mut self, store: &Store) {
        for (slot, row) in store.allocs().iter().filter(|(_, row)| row.desired == DesiredStatus::Stop) {
            let is_open = |job| store.jobs().evals(job).any(|eval| is_open(store, eval));
            let waits = || store.jobs().row(row.job).is_none_or(|job| job.job().stop || is_open(job));
            if stop_reason(store, slot) == StopReason::Preempted && !waits() {
                self.want(store, slot, Trigger::Preemption);
            }
        }
    }

    /// While the plan was on its way the node of a placement may have gone down, or that of the one in whose stead it was placed
    /// have come back.
    fn want_if_node_has_changed(&mut self, store: &Store, slot: AllocSlot) {
        let node = |slot| store.allocs().row(slot).and_then(|row| store.nodes().row(row.node));
        if node(slot).is_some_and(|node| node.status.is_silent()) {
            self.want(store, slot, Trigger::NodeUpdate);
        }
        let previous = store.allocs().extra(slot).and_then(|extra| store.allocs().find(extra.previous?));
        if let Some(previous) =
            previous.filter(|previous| node(*previous).is_some_and(|node| !node.status.is_silent()))
        {
            self.want_if_stood_in_for(store, previous);
        }
    }

    /// Another was placed in its stead while its node was disconnected: one of the two has to go.
    fn want_if_stood_in_for(&mut self, store: &Store, slot: AllocSlot) {
        let goes_on = store.allocs().row(slot).is_some_and(AllocRow::is_desired);
        if goes_on && store.allocs().extra(slot).is_some_and(|extra| extra.next.is_some()) {
            self.want(store, slot, Trigger::Reconnect);
        }
    }

    /// It has ended well out of sight, on a disconnected node, and the one that was placed in its stead does the same work.
    fn want_if_done_twice(&mut self, store: &Store, slot: AllocSlot) {
        let ended_well =
            |row: &&AllocRow| row.client == ClientStatus::Complete && row.desired == DesiredStatus::Run;
        let next = store.allocs().row(slot).filter(ended_well).and_then(|_| store.allocs().extra(slot)?.next);
        if next.and_then(|next| store.alloc(next)).is_some_and(|(_, row)| row.is_desired()) {
            self.want(store, slot, Trigger::Reconnect);
        }
    }

    /// The leader that asked it to leave may have led no longer when its job was to be planned.
    fn want_if_told_to_leave(&mut self, store: &Store, slot: AllocSlot) {
        let goes_on = store.allocs().row(slot).is_some_and(AllocRow::is_desired);
        if goes_on && store.allocs().extra(slot).is_some_and(|extra| extra.migrate.is_some()) {
            self.want(store, slot, Trigger::NodeDrain);
        }
    }

    fn note_awaited(&mut self, store: &Store, slot: AllocSlot) {
        let node = store.allocs().row(slot).and_then(|row| store.nodes().row(row.node));
        let id = node.filter(|node| node.status == NodeStatus::Disconnected).map(|node| node.id);
        self.work.awaited.extend(id);
    }

    fn want(&mut self, store: &Store, slot: AllocSlot, trigger: Trigger) {
        let job = store.allocs().row(slot).and_then(|row| store.jobs().row(row.job));
        self.work.wanting.extend(job.map(|job| (job.key.clone(), trigger)));
    }

    /// What was declared lost may run on: its agent is to confirm again what does. Servers that know no entries of version 6 would
    /// not have their agents say it once more.
    fn note_loss(&mut self, store: &Store, index: Index, slot: AllocSlot) {
        if self.entry_version(store) < 6 || !store.was_declared_lost(slot) {
            return;
        }
        let Some(row) = store.allocs().row(slot) else { return };
        if let Some(node) = store.nodes().row(row.node) {
            self.sessions.lost_on(node.id, !node.status.is_silent(), index);
        }
    }

    fn count_node(&mut self, store: &Store, slot: NodeSlot) {
        if let Some(row) = store.nodes().row(slot) {
            self.sessions.count(row.id, row.status, store.index());
        }
    }

    fn on_node_changed(&mut self, store: &Store, slot: NodeSlot) {
        self.count_node(store, slot);
        let Some(row) = store.nodes().row(slot) else { return };
        if self.work.changing.get(&row.id) == Some(&row.status) {
            self.work.changing.remove(&row.id);
        }
        if row.status == NodeStatus::Ready {
            let live: Vec<AllocSlot> = store.nodes().live(row).collect();
            live.into_iter().for_each(|alloc| self.want_if_stood_in_for(store, alloc));
        }
        if row.is_ready() {
            self.work.node_added = true;
        } else if row.status.is_silent() {
            self.liveness.down(row.id);
            self.end_session_of(row.id, "the node was declared down");
            self.want_jobs_on(store, slot);
        }
    }

    fn want_jobs_on(&mut self, store: &Store, slot: NodeSlot) {
        let Some(row) = store.nodes().row(slot) else { return };
        let jobs = store.nodes().live(row).filter_map(|alloc| store.allocs().row(alloc));
        let keys = jobs.filter_map(|alloc| Some(store.jobs().row(alloc.job)?.key.clone()));
        let keys: Vec<JobKey> = keys.collect();
        self.work.wanting.extend(keys.into_iter().map(|key| (key, Trigger::NodeUpdate)));
    }
}

/// Whether a job that runs on each node has yet to be updated on one: it may have taken no work as the others were.
fn has_old_on_ready_nodes(store: &Store, row: &JobRow) -> bool {
    let mut allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
    let is_ready = |alloc: &AllocRow| store.nodes().row(alloc.node).is_some_and(NodeRow::is_ready);
    let is_old = |alloc: &AllocRow| row.change_of(alloc.job_version, alloc.group) != VersionChange::Nothing;
    row.job().job_type.is_per_node()
        && allocs.any(|alloc| alloc.is_desired() && is_old(alloc) && is_ready(alloc))
}

fn is_open(store: &Store, eval: EvalSlot) -> bool {
    store.evals().row(eval).is_some_and(|eval| !eval.status.is_terminal())
}

/// Whether the counts of a job say already that nothing is to be placed, or that somebody sees to it: millions of allocations
/// that have ended need not be looked at before a new leader goes on.
pub(super) fn has_all_by_its_counts(row: &JobRow) -> bool {
    let job = row.job();
    let is_complete = |group: &Group| {
        let counts = row.counts.iter().find(|counts| *counts.group == *group.name);
        // One that was stopped counts as complete: it is only where nothing else ever happened that each of them was a success.
        counts.is_some_and(|counts| {
            counts.complete == group.count && counts.failed == 0 && counts.lost == 0 && counts.queued == 0
        })
    };
    let is_done = || {
        job.job_type.runs_to_completion()
            && !job.job_type.is_per_node()
            && row.versions.len() == 1
            && job.groups.iter().all(is_complete)
    };
    row.open_evals > 0 || row.live == 0 && (job.stop || is_done())
}
