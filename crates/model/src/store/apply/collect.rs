//! Applying that what has ended is garbage-collected. The decision was made on an older state: each thing is looked at once more.

use std::collections::{BTreeMap, BTreeSet};

use super::{AllocSlot, JobSlot, Store, rules::Rules};
use crate::{
    command::Collect,
    event::StateChange,
    ids::{EvalId, Index, JobKey, NodeId},
    node::NodeStatus,
};

impl Store {
    pub(super) fn collect(&mut self, collect: &Collect, rules: Rules, events: &mut Vec<StateChange>) {
        self.collect_allocs(collect, rules, events);
        for id in &collect.evals {
            self.collect_eval(*id, events);
        }
        for id in &collect.deployments {
            self.collect_deployment(*id, rules, events);
        }
        for key in &collect.jobs {
            self.collect_job(key, collect.decided_on, events);
        }
        for id in &collect.nodes {
            self.collect_node(*id, collect.decided_on, events);
        }
    }

    fn collect_allocs(&mut self, collect: &Collect, rules: Rules, events: &mut Vec<StateChange>) {
        // In the order of the command: slots may be others on another server, and what is linked depends on what went before.
        let (mut by_job, mut going) = (BTreeMap::<JobSlot, BTreeSet<u32>>::new(), Vec::new());
        for id in &collect.allocs {
            let Some((slot, row)) = self.alloc(*id) else { continue };
            if rules.may_collect(self, row, collect.decided_on) {
                by_job.entry(row.job).or_default().insert(slot.0);
                going.push(slot);
            }
        }
        for (job, slots) in by_job {
            self.jobs.drop_allocs(job, |slot| slots.contains(&slot));
        }
        let mut linked = BTreeSet::new();
        for slot in going {
            if rules.links_are_kept() {
                linked.extend(self.link_past(slot).into_iter().flatten());
            }
            self.collect_alloc(slot, events);
        }
        // Some of them may have gone after it.
        let stay = linked.into_iter().filter(|slot| self.allocs.row(*slot).is_some());
        events.extend(stay.map(StateChange::AllocNodeChanged));
    }

    /// Links the allocation before one that goes with that after it: while the node of the first is disconnected, the last stands in
    /// for it, whatever failed between them.
    fn link_past(&mut self, slot: AllocSlot) -> Option<[AllocSlot; 2]> {
        let extra = self.allocs.extra(slot)?;
        let (previous, next) = (extra.previous, extra.next);
        let (before, after) = (self.allocs.find(previous?)?, self.allocs.find(next?)?);
        self.allocs.update(before, self.index, self.at, |_, detail| detail.extra_mut().next = next);
        self.allocs.update(after, self.index, self.at, |_, detail| detail.extra_mut().previous = previous);
        Some([before, after])
    }

    fn collect_alloc(&mut self, slot: AllocSlot, events: &mut Vec<StateChange>) {
        let Some(owners) = self.allocs.row(slot).map(|row| self.owners_hash(row)) else { return };
        let Some(row) = self.allocs.remove(slot, self.index, owners) else { return };
        let node = self.nodes.row(row.node).map_or(NodeId::default(), |node| node.id);
        self.nodes.drop_ended(row.node, slot, self.index);
        events.push(StateChange::AllocCollected(slot, row.id, node));
    }

    fn collect_eval(&mut self, id: EvalId, events: &mut Vec<StateChange>) {
        let Some(slot) = self.evals.find(id) else { return };
        if self.evals.row(slot).is_none_or(|eval| !eval.status.is_terminal()) {
            return;
        }
        let Some(eval) = self.evals.remove(slot, self.index) else { return };
        if let Some(job) = self.jobs.find(&eval.job) {
            self.jobs.drop_eval(job, slot);
        }
        events.push(StateChange::EvalCollected(id));
    }

    /// A job stays when anything of it lives or is to come, and when it changed, or was registered again, after it was
    /// decided that it may go.
    fn collect_job(&mut self, key: &JobKey, decided_on: Option<Index>, events: &mut Vec<StateChange>) {
        let Some(slot) = self.jobs.find(key) else { return };
        let Some(row) = self.jobs.row(slot).filter(|row| row.live == 0 && row.open_evals == 0) else {
            return;
        };
        let changed = row.modify_index.max(row.allocs_index).max(row.evals_index);
        if decided_on.is_some_and(|index| changed > index || !row.is_over()) {
            return;
        }
        let allocs: Vec<AllocSlot> = self.jobs.allocs(row).collect();
        let evals = self.jobs.evals(row).filter_map(|e| Some(self.evals.row(e)?.id)).collect::<Vec<_>>();
        for alloc in allocs {
            self.collect_alloc(alloc, events);
        }
        for eval in evals {
            self.collect_eval(eval, events);
        }
        self.collect_deployments_of(slot, events);
        if let Some(key) = self.jobs.remove(slot, self.index) {
            events.push(StateChange::JobCollected(slot, key));
        }
    }

    /// A node stays when something lives on it or its agent is there, and when it changed after it was decided that it
    /// may go. What ended on it is kept for as long as anything that ended.
    fn collect_node(&mut self, id: NodeId, decided_on: Option<Index>, events: &mut Vec<StateChange>) {
        let Some((slot, row)) = self.node(id) else { return };
        let may_go = match decided_on {
            Some(index) => row.modify_index <= index,
            None => row.ended.is_empty(),
        };
        if may_go && row.status == NodeStatus::Down && row.live.is_empty() {
            self.nodes.purge(slot, self.index);
            events.push(StateChange::NodeCollected(slot, id));
        }
    }
}
