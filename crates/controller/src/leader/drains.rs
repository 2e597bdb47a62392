//! Nodes that are drained: what may leave them now, what must go, and when nothing is left. Judged from the state and from
//! what agents observe, so that any leader goes on; only what is decided is written.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocId, JobKey, NodeId, Timestamp,
    alloc::{ClientStatus, Migrate, MigrateAlloc},
    event::{Event as Change, NodeChange},
    job::{Group, HealthCheck, Job, JobType},
    observed::Observed,
    store::{AllocRow, AllocSlot, JobSlot, NodeDetail, NodeRow, NodeSlot, Store},
};

use crate::{follow::Follower, messages::Seen};

/// What drains lead to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// To be told to leave, each with its job.
    pub allocs: Vec<(MigrateAlloc, JobKey)>,
    /// Nodes on which nothing is left, and when their drains began.
    pub emptied: Vec<(NodeId, Timestamp)>,
}

/// The nodes that are drained, and the jobs that have something there.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    /// With when each began, which tells one drain of a node from the next.
    nodes: BTreeMap<NodeId, Timestamp>,
    jobs: BTreeSet<JobKey>,
    /// To be judged.
    changed_nodes: BTreeSet<NodeId>,
    changed_jobs: BTreeSet<JobKey>,
    /// When time alone changes something.
    deadlines: BTreeSet<(Timestamp, NodeId)>,
    /// Told to leave by what is on its way into the log.
    telling: BTreeMap<AllocId, Migrate>,
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

    fn on_change(&mut self, store: &Store, change: &Change, _at: Timestamp) {
        match change {
            Change::NodeChanged(slot, NodeChange::Drain) => {
                // The end that is on its way may be that of the drain before, which has the same begin if one entry held both.
                if let Some(row) = store.nodes().row(*slot) {
                    self.ending.remove(&row.id);
                }
                self.look_at(store, *slot);
            }
            Change::NodeChanged(slot, _) | Change::NodeRegistered(slot) => self.look_at(store, *slot),
            Change::NodeCollected(_, id) => self.forget(*id),
            Change::AllocPlaced(slot)
            | Change::AllocUpdated(slot, _)
            | Change::AllocStopped(slot)
            | Change::AllocHealthChanged(slot)
            | Change::AllocMigrates(slot)
            | Change::AllocEnded(slot)
                if !self.nodes.is_empty() =>
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
    fn look_at(&mut self, store: &Store, slot: NodeSlot) {
        let (Some(row), Some(detail)) = (store.nodes().row(slot), store.nodes().detail(slot)) else { return };
        let Some(drain) = detail.draining() else { return self.forget(row.id) };
        self.deadlines.retain(|(_, id)| *id != row.id);
        self.deadlines.extend(drain.deadline.map(|deadline| (deadline, row.id)));
        if self.nodes.insert(row.id, drain.started_at) != Some(drain.started_at) {
            // What the drain before told to leave may have been called off without a word.
            self.telling.clear();
        }
        self.changed_nodes.insert(row.id);
        for alloc in store.nodes().live(row).filter_map(|alloc| store.allocs().row(alloc)) {
            self.jobs.extend(key_of(store, alloc.job));
            self.changed_jobs.extend(key_of(store, alloc.job));
        }
    }

    fn forget(&mut self, id: NodeId) {
        if self.nodes.remove(&id).is_some() {
            self.changed_nodes.remove(&id);
            self.ending.remove(&id);
            self.deadlines.retain(|(_, node)| *node != id);
            // What was told to leave in vain is told again, should it be drained again.
            self.telling.clear();
        }
    }

    fn on_alloc(&mut self, store: &Store, slot: AllocSlot) {
        let Some(alloc) = store.allocs().row(slot) else { return };
        self.telling.remove(&alloc.id);
        if let Some(node) = store.nodes().row(alloc.node).filter(|node| self.nodes.contains_key(&node.id)) {
            self.changed_nodes.insert(node.id);
            self.jobs.extend(key_of(store, alloc.job));
        }
        self.on_job(store, alloc.job);
    }

    fn on_job(&mut self, store: &Store, job: JobSlot) {
        self.changed_jobs.extend(key_of(store, job).filter(|key| self.jobs.contains(key)));
    }

    /// Agents have told something of allocations.
    pub fn on_observed<'s>(&mut self, store: &Store, seen: impl Iterator<Item = &'s Seen>) {
        if self.jobs.is_empty() {
            return;
        }
        for alloc in seen.filter_map(|seen| store.allocs().row(seen.slot)) {
            self.on_job(store, alloc.job);
        }
    }

    /// What follows from the state, for tests.
    #[cfg(test)]
    pub fn followed(&self) -> (&BTreeMap<NodeId, Timestamp>, &BTreeSet<(Timestamp, NodeId)>) {
        (&self.nodes, &self.deadlines)
    }

    /// What is to be done about what changed, or whose time has come.
    pub fn judge(&mut self, store: &Store, observed: &Observed, now: Timestamp) -> Leaving {
        let mut leaving = Leaving::default();
        while let Some((_, node)) = self.deadlines.first().filter(|(at, _)| *at <= now).copied() {
            self.deadlines.pop_first();
            self.changed_nodes.insert(node);
        }
        for id in std::mem::take(&mut self.changed_nodes) {
            self.judge_node(store, id, now, &mut leaving);
        }
        for key in std::mem::take(&mut self.changed_jobs) {
            self.judge_job(store, observed, key, &mut leaving);
        }
        leaving
    }

    /// What cannot wait any longer goes, then what runs on every node; then the drain is over.
    fn judge_node(&mut self, store: &Store, id: NodeId, now: Timestamp, leaving: &mut Leaving) {
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
        for (row, slot, job) in live.into_iter().filter(|(row, ..)| row.is_wanted()) {
            if drain.is_over(now) || is_last && job.job_type.is_per_node() {
                self.tell(store, (row, slot), Migrate::AtOnce, leaving);
            }
        }
    }

    /// Of each group of a service so many leave at once that enough of it stays well.
    fn judge_job(&mut self, store: &Store, observed: &Observed, key: JobKey, leaving: &mut Leaving) {
        let Some(job) = store.job(&key) else {
            self.jobs.remove(&key);
            return;
        };
        let mut groups: BTreeMap<&str, Pace<'_>> = BTreeMap::new();
        let mut has_any = false;
        for slot in store.jobs().allocs(job) {
            let Some(alloc) = store.allocs().row(slot).filter(|alloc| !alloc.is_terminal()) else { continue };
            let on_drained =
                store.nodes().row(alloc.node).is_some_and(|node| self.nodes.contains_key(&node.id));
            has_any |= on_drained;
            let Some((of, group)) = store.job_of(alloc).filter(|_| alloc.is_wanted()) else { continue };
            if of.job_type != JobType::Service || self.is_told(store, alloc.id, slot) {
                continue;
            }
            let pace = groups.entry(&group.name).or_default();
            let well = is_well(store, observed, (slot, alloc), of, group);
            pace.well += u32::from(well == Some(true));
            if on_drained && let Some(well) = well {
                pace.leaving.push((well, alloc.name_index, alloc, slot));
            }
        }
        if !has_any {
            self.jobs.remove(&key);
        }
        for (name, mut pace) in groups {
            let Some((_, group)) = job.job().group(name) else { continue };
            let parallel = group.migrate.as_ref().map_or(1, |migrate| migrate.max_parallel.max(1));
            let may_leave = pace.well.saturating_sub(group.count.saturating_sub(parallel));
            pace.leaving.sort_unstable_by_key(|(well, name, ..)| (*well, *name));
            // What is not well serves nobody where it is.
            let unwell = pace.leaving.iter().filter(|(well, ..)| !well).count();
            for (_, _, row, slot) in pace.leaving.into_iter().take(unwell + may_leave as usize) {
                self.tell(store, (row, slot), Migrate::WhenPlaced, leaving);
            }
        }
    }

    fn is_told(&self, store: &Store, id: AllocId, slot: AllocSlot) -> bool {
        self.telling.contains_key(&id) || store.allocs().extra(slot).is_some_and(|e| e.migrate.is_some())
    }

    fn tell(
        &mut self,
        store: &Store,
        (row, slot): (&AllocRow, AllocSlot),
        how: Migrate,
        leaving: &mut Leaving,
    ) {
        let told = store.allocs().extra(slot).and_then(|extra| extra.migrate);
        let told = told.max(self.telling.get(&row.id).copied());
        if told >= Some(how) {
            return;
        }
        self.telling.insert(row.id, how);
        let job = key_of(store, row.job);
        leaving.allocs.extend(job.map(|job| (MigrateAlloc { alloc: row.id, how }, job)));
    }
}

/// A group of which some are to leave.
#[derive(Default)]
struct Pace<'a> {
    /// How many are well, and not told to leave.
    well: u32,
    /// Those on nodes that are drained: whether they are well, and which they are.
    leaving: Vec<(bool, u32, &'a AllocRow, AllocSlot)>,
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
    let watched = detail.extra.as_ref().is_some_and(|extra| extra.watched);
    let migrate = || group.migrate.as_ref().map_or(HealthCheck::Checks, |migrate| migrate.health_check);
    let asked = deployed.or_else(|| watched.then(migrate));
    match seen.healthy {
        Some(healthy) => Some(healthy),
        None if seen.status != ClientStatus::Running => Some(false),
        None => asked.is_none_or(|asked| asked == HealthCheck::Manual).then_some(true),
    }
}

fn drained(store: &Store, id: NodeId) -> Option<(&NodeRow, &NodeDetail)> {
    let (slot, row) = store.node(id)?;
    Some((row, store.nodes().detail(slot)?))
}

fn key_of(store: &Store, job: JobSlot) -> Option<JobKey> {
    store.jobs().row(job).map(|row| row.key.clone())
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
        let new = NewDrain { deadline: None, ignore_system: false, asked_ns: 0 };
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
