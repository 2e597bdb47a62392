//! Nodes that are drained: what may leave them now, what must go, and when nothing is left. Judged from the state and from
//! what agents observe, so that any leader goes on; only what is decided is written.

mod pacing;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocId, JobKey, NodeId, Timestamp,
    alloc::{ClientStatus, Departure, MigrateAlloc},
    event::{NodeChange, StateChange},
    job::{Group, HealthCheck, Job, JobType},
    observed::Observed,
    store::{AllocRow, AllocSlot, JobSlot, NodeDetail, NodeRow, NodeSlot, Store},
};

use crate::{follow::Follower, messages::ReportedAlloc};
use pacing::{AllocHealthState, Pacing};

/// What drains lead to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DrainActions {
    /// To be asked to leave, each with its job.
    pub allocs: Vec<(MigrateAlloc, JobKey)>,
    /// Nodes on which nothing is left, and when their drains began.
    pub emptied: Vec<(NodeId, Timestamp)>,
}

/// The nodes that are drained, and the services that have something there.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    /// With when each began, which distinguishes one drain of a node from the next, and its deadline.
    nodes: BTreeMap<NodeId, (Timestamp, Option<Timestamp>)>,
    pacing: Pacing,
    /// Nodes to judge at the next step.
    changed_nodes: BTreeSet<NodeId>,
    /// To be counted again.
    changed_allocs: BTreeSet<AllocSlot>,
    /// When time alone changes something.
    deadlines: BTreeSet<(Timestamp, NodeId)>,
    /// Told to leave by what is on its way into the log.
    migrating: BTreeMap<AllocId, Departure>,
    /// Their ends are on their way into the log; and when they began.
    ending: BTreeMap<NodeId, Timestamp>,
}

impl Follower for Drains {
    fn of(store: &Store) -> Self {
        let mut all = Self::default();
        let slots: Vec<NodeSlot> = store.nodes().iter().map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| all.look_at(store, slot));
        all
    }

    fn on_change(&mut self, store: &Store, change: &StateChange, _at: Timestamp) {
        match change {
            StateChange::NodeChanged(slot, NodeChange::Drain) => {
                // The end that is on its way may be that of the drain before, which has the same begin if one entry held both.
                if let Some(row) = store.nodes().row(*slot) {
                    self.ending.remove(&row.id);
                }
                self.look_at(store, *slot);
            }
            StateChange::NodeChanged(slot, _) | StateChange::NodeRegistered(slot) => {
                self.look_at(store, *slot)
            }
            StateChange::NodeCollected(_, id) => self.forget(store, *id),
            StateChange::AllocPlaced(slot)
            | StateChange::AllocUpdated(slot, _)
            | StateChange::AllocStopped(slot)
            | StateChange::AllocHealthChanged(slot)
            | StateChange::AllocMigrates(slot)
            | StateChange::AllocEnded(slot)
            | StateChange::AllocCollected(slot, ..)
                if !self.is_idle() =>
            {
                self.on_alloc(store, *slot);
            }
            _ => {}
        }
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

impl Drains {
    /// Whether no node is drained, and nothing is left of drains that are over.
    fn is_idle(&self) -> bool {
        self.nodes.is_empty() && self.pacing.is_empty()
    }

    fn look_at(&mut self, store: &Store, slot: NodeSlot) {
        let (Some(row), Some(detail)) = (store.nodes().row(slot), store.nodes().detail(slot)) else { return };
        let Some(drain) = detail.draining() else { return self.forget(store, row.id) };
        let before = self.nodes.insert(row.id, (drain.started_at, drain.deadline));
        self.set_deadline(row.id, before.and_then(|(_, deadline)| deadline), drain.deadline);
        if before.map(|(started_at, _)| started_at) != Some(drain.started_at) {
            // What the drain before asked to leave may have been called off without a word.
            self.forget_migration(store, row);
        }
        self.changed_nodes.insert(row.id);
    }

    fn forget(&mut self, store: &Store, id: NodeId) {
        let Some((_, deadline)) = self.nodes.remove(&id) else { return };
        self.changed_nodes.remove(&id);
        self.ending.remove(&id);
        self.set_deadline(id, deadline, None);
        // What was asked to leave in vain is asked again, should it be drained again.
        store.node(id).into_iter().for_each(|(_, row)| self.forget_migration(store, row));
    }

    fn set_deadline(&mut self, id: NodeId, before: Option<Timestamp>, now: Option<Timestamp>) {
        if let Some(at) = before {
            self.deadlines.remove(&(at, id));
        }
        self.deadlines.extend(now.map(|at| (at, id)));
    }

    /// What is on its way to the allocations of a node does not count as asked; how they stand is looked at again.
    fn forget_migration(&mut self, store: &Store, node: &NodeRow) {
        for slot in store.nodes().live(node) {
            if let Some(alloc) = store.allocs().row(slot) {
                self.migrating.remove(&alloc.id);
            }
            self.changed_allocs.insert(slot);
        }
    }

    fn on_alloc(&mut self, store: &Store, slot: AllocSlot) {
        self.changed_allocs.insert(slot);
        let Some(alloc) = store.allocs().row(slot) else { return };
        self.migrating.remove(&alloc.id);
        let node = store.nodes().row(alloc.node).filter(|node| self.nodes.contains_key(&node.id));
        self.changed_nodes.extend(node.map(|node| node.id));
    }

    /// What agents have reported of allocations can be read.
    pub fn on_recorded<'s>(&mut self, store: &Store, seen: impl Iterator<Item = &'s ReportedAlloc>) {
        if !self.is_idle() {
            self.changed_allocs.extend(seen.filter_map(|seen| seen.slot_in(store)));
        }
    }

    /// What follows from the state, for tests.
    #[cfg(test)]
    pub fn followed(&self) -> String {
        format!("{:?}", (&self.nodes, &self.deadlines))
    }

    /// What is counted once nothing has changed since, and the same counted from the beginning, for tests.
    #[cfg(test)]
    pub fn recounted(&mut self, store: &Store, observed: &Observed, now: Timestamp) -> [String; 2] {
        // What was asked to leave is counted no more with the next look.
        while !(self.changed_nodes.is_empty() && self.changed_allocs.is_empty()) {
            self.judge(store, observed, now);
        }
        let mut anew = Self { migrating: self.migrating.clone(), ..Self::of(store) };
        while !(anew.changed_nodes.is_empty() && anew.changed_allocs.is_empty()) {
            anew.judge(store, observed, now);
        }
        [&*self, &anew].map(|drains| format!("{:?}", drains.pacing))
    }

    /// What is to be done about what changed, or whose time has come.
    pub fn judge(&mut self, store: &Store, observed: &Observed, now: Timestamp) -> DrainActions {
        let mut leaving = DrainActions::default();
        while let Some((_, node)) = self.deadlines.first().filter(|(at, _)| *at <= now).copied() {
            self.deadlines.pop_first();
            self.changed_nodes.insert(node);
        }
        for id in std::mem::take(&mut self.changed_nodes) {
            self.judge_node(store, id, now, &mut leaving);
        }
        for job in self.count_changed(store, observed) {
            self.judge_job(store, job, &mut leaving);
        }
        leaving
    }

    /// What cannot wait any longer goes, then what runs on every node; then the drain is over.
    fn judge_node(&mut self, store: &Store, id: NodeId, now: Timestamp, leaving: &mut DrainActions) {
        let Some((node, detail)) = drained(store, id) else { return };
        let Some(drain) = detail.draining() else { return };
        let live: Vec<(&AllocRow, AllocSlot, &Job)> = store
            .nodes()
            .live(node)
            .filter_map(|slot| {
                let row = store.allocs().row(slot)?;
                Some((row, slot, &**store.job_of(row)?.0))
            })
            .filter(|(_, _, job)| !(drain.ignore_system && job.job_type.is_per_node()))
            .collect();
        if live.is_empty() && self.ending.insert(id, drain.started_at) != Some(drain.started_at) {
            leaving.emptied.push((id, drain.started_at));
        }
        let is_last = live.iter().all(|(_, _, job)| job.job_type.is_per_node());
        for (row, slot, job) in live.into_iter().filter(|(row, ..)| row.is_desired()) {
            if drain.is_over(now) || is_last && job.job_type.is_per_node() {
                self.request_migration(store, (row, slot), Departure::AtOnce, leaving);
            } else if job.job_type == JobType::Service && !self.is_migrating(store, row.id, slot) {
                self.pace(store, row.job);
            }
        }
    }

    /// A service leaves a step at a time.
    fn pace(&mut self, store: &Store, job: JobSlot) {
        if !self.pacing.has(job) {
            self.pacing.begin(job);
            self.changed_allocs
                .extend(store.jobs().row(job).into_iter().flat_map(|row| store.jobs().allocs(row)));
        }
    }

    /// The jobs of which what is counted has changed.
    fn count_changed(&mut self, store: &Store, observed: &Observed) -> BTreeSet<JobSlot> {
        let mut jobs = BTreeSet::new();
        for slot in std::mem::take(&mut self.changed_allocs) {
            let standing = self.standing(store, observed, slot);
            if standing.is_some() || self.pacing.counts(slot) {
                jobs.extend(self.pacing.count(slot, standing));
            }
        }
        jobs
    }

    /// How an allocation of a service stands that leaves: none unless it should run and is not asked to leave.
    fn standing<'s>(
        &self,
        store: &'s Store,
        observed: &Observed,
        slot: AllocSlot,
    ) -> Option<(JobSlot, &'s str, AllocHealthState)> {
        let alloc =
            store.allocs().row(slot).filter(|alloc| self.pacing.has(alloc.job) && alloc.is_desired())?;
        let (job, group) = store.job_of(alloc)?;
        if job.job_type != JobType::Service || self.is_migrating(store, alloc.id, slot) {
            return None;
        }
        let is_drained = store.nodes().row(alloc.node).is_some_and(|node| self.nodes.contains_key(&node.id));
        let well = is_well(store, observed, (slot, alloc), job, group);
        Some((
            alloc.job,
            &group.name,
            AllocHealthState { well, leaves: is_drained.then_some(alloc.name_index) },
        ))
    }

    /// Of each group so many leave at once that enough of it stays well.
    fn judge_job(&mut self, store: &Store, job: JobSlot, leaving: &mut DrainActions) {
        let Some(row) = store.jobs().row(job) else { return self.pacing.end(job, std::iter::empty()) };
        if self.pacing.is_over(job) {
            return self.pacing.end(job, store.jobs().allocs(row));
        }
        for group in &row.job().groups {
            for slot in self.pacing.may_leave(job, group) {
                if let Some(row) = store.allocs().row(slot) {
                    self.request_migration(store, (row, slot), Departure::WhenPlaced, leaving);
                }
            }
        }
    }

    fn is_migrating(&self, store: &Store, id: AllocId, slot: AllocSlot) -> bool {
        self.migrating.contains_key(&id) || store.allocs().extra(slot).is_some_and(|e| e.migrate.is_some())
    }

    fn request_migration(
        &mut self,
        store: &Store,
        (row, slot): (&AllocRow, AllocSlot),
        how: Departure,
        leaving: &mut DrainActions,
    ) {
        let requested = store.allocs().extra(slot).and_then(|extra| extra.migrate);
        let requested = requested.max(self.migrating.get(&row.id).copied());
        if requested >= Some(how) {
            return;
        }
        self.migrating.insert(row.id, how);
        self.changed_allocs.insert(slot);
        let job = store.jobs().row(row.job).map(|job| job.key.clone());
        leaving.allocs.extend(job.map(|job| (MigrateAlloc { alloc: row.id, how }, job)));
    }
}

/// Whether an allocation is well; none as long as nobody knows. One of which health is asked has to show it, any other has
/// to run.
fn is_well(
    store: &Store,
    observed: &Observed,
    (slot, alloc): (AllocSlot, &AllocRow),
    job: &Job,
    group: &Group,
) -> Option<bool> {
    let detail = store.allocs().detail(slot)?;
    if detail.healthy == Some(true) {
        return Some(true);
    }
    let seen = &observed.get(slot, alloc.id)?.alloc;
    let deployed = group.deployed_by(job.job_type).map(|update| update.health_check);
    let watched = detail.extra().is_some_and(|extra| extra.watched);
    let migrate = || group.migrate.as_ref().map_or(HealthCheck::Checks, |migrate| migrate.health_check);
    let checked_by = deployed.or_else(|| watched.then(migrate));
    match seen.healthy {
        Some(healthy) => Some(healthy),
        None if seen.status != ClientStatus::Running => Some(false),
        None => checked_by.is_none_or(|checked_by| checked_by == HealthCheck::Manual).then_some(true),
    }
}

fn drained(store: &Store, id: NodeId) -> Option<(&NodeRow, &NodeDetail)> {
    let (slot, row) = store.node(id)?;
    Some((row, store.nodes().detail(slot)?))
}

#[cfg(test)]
mod tests {
    use berth_model::{
        Index,
        command::{Command, DrainNode, Entry, NewDrain},
        node::{Node, NodeStatus},
        resources::Resources,
    };

    use super::*;

    const NODE: NodeId = NodeId(1);

    /// Applies an entry of the very moment at which all others were; the drains that are to end then.
    fn apply(store: &mut Store, drains: &mut Drains, commands: Vec<Command>) -> Vec<(NodeId, Timestamp)> {
        let (index, at) = (Index(store.index().0 + 1), Timestamp(1));
        let applied = store.apply(Entry::new(index, at, commands));
        assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
        applied.events.iter().for_each(|change| drains.on_change(store, change, at));
        drains.judge(store, &Observed::default(), at).emptied
    }

    fn drain() -> Command {
        let new = NewDrain { deadline: None, ignore_system: false, requested_ns: 0 };
        let drain = DrainNode { node: NODE, drain: Some(new), eligible: false, meta: BTreeMap::default() };
        Command::DrainNode(Box::new(drain))
    }

    #[test]
    fn a_drain_that_follows_on_another_in_one_entry_ends_too() {
        let (mut store, mut drains) = (Store::default(), Drains::default());
        let node = Command::RegisterNode(Box::new(Node::new(NODE, "n1", Resources::default())));
        let ready = Command::SetNodeStatus(NODE, NodeStatus::Ready, None);
        assert_eq!(apply(&mut store, &mut drains, vec![node, ready]), []);
        let ends = apply(&mut store, &mut drains, vec![drain()]);
        assert_eq!(ends, [(NODE, Timestamp(1))]);
        let end = Command::EndDrain(NODE, Timestamp(1));
        assert_eq!(apply(&mut store, &mut drains, vec![end.clone(), drain()]), ends);
        assert_eq!(apply(&mut store, &mut drains, vec![end]), [], "it is over");
    }
}
