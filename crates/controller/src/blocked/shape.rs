//! What waiting work misses: where one of a shape finds no capacity, no other one does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{
    Index, JobKey,
    deployment::DeploymentGroup,
    eval::{Eval, GroupFailure},
    job::{Group, Job},
    resources::Resources,
    store::{AllocRow, JobRow, JobSlot, NodeRow, NodeSlot, Store},
};
use berth_scheduler::Demand;

/// Demands of one job that are distinguished; of more only the least of each resource is asked for.
const DEMANDS_MAX: usize = 16;

/// Key of a shape: evaluations with equal keys wait in one queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ShapeKey {
    /// Of one job: what it misses depends on what else of it is where, or it misses several things.
    Own(JobKey),
    /// Of all jobs that miss the same.
    Shared {
        /// What is missed, see [`Demand::key`].
        demand: Arc<[u8]>,
        /// The quotas that hold it back.
        quotas: BTreeSet<String>,
        /// Whose it is and its priority, where others may find capacity when it does not.
        whose: Option<(Arc<str>, u8)>,
    },
}

/// What a job misses, as its last plan reported.
pub(super) struct MissingWork<'a> {
    store: &'a Store,
    slot: JobSlot,
    row: &'a JobRow,
    failures: &'a [GroupFailure],
    groups: Vec<(&'a Job, &'a Group)>,
    demands: BTreeMap<Arc<[u8]>, (&'a Job, &'a Group)>,
    /// Of the job, which says whom it may preempt; that of the evaluation says only when it is tried.
    priority: u8,
    /// Some may come after others of the job, and use what those hold, which nobody else can.
    comes_after_own: bool,
}

impl<'a> MissingWork<'a> {
    /// None when the job is gone. Whatever is not reported is taken to be missing.
    pub fn of(store: &'a Store, eval: &Eval, failures: &'a [GroupFailure]) -> Option<Self> {
        let slot = store.jobs().find(&eval.job)?;
        let row = store.jobs().row(slot)?;
        let names: BTreeSet<&str> = failures.iter().map(|failure| &*failure.group).collect();
        let is_missing =
            |(_, group): &(&Job, &Group)| names.is_empty() || names.contains(group.name.as_str());
        let all =
            placed_versions(store, row).flat_map(|job| job.groups.iter().map(move |group| (job, group)));
        let groups: Vec<_> = all.filter(is_missing).collect();
        let demands = groups.iter().map(|(job, group)| (Demand::key(job, group), (*job, *group))).collect();
        let comes_after_own = comes_after_own(store, row);
        let priority = row.job().priority;
        Some(Self { store, slot, row, failures, groups, demands, priority, comes_after_own })
    }

    /// Whether a plan on a state of this index was of the job as it is.
    pub fn was_seen_at(&self, index: Index) -> bool {
        self.row.current().index <= index
    }

    pub fn key(&self) -> ShapeKey {
        match self.demands.first_key_value() {
            Some((demand, _)) if !self.is_own() => {
                let (demand, quotas) = (demand.clone(), self.quotas());
                let is_of_tenant = self.preempts() || !quotas.is_empty();
                let whose = is_of_tenant.then(|| (self.row.key.namespace.clone(), self.priority));
                ShapeKey::Shared { demand, quotas, whose }
            }
            _ => ShapeKey::Own(self.row.key.clone()),
        }
    }

    pub fn shape(&self) -> Shape {
        let needs = if self.demands.len() <= DEMANDS_MAX {
            ShapeNeeds::OneOf(self.demands.values().map(|(job, group)| Demand::of(job, group)).collect())
        } else {
            let asks = self.groups.iter().map(|(_, group)| group.resources());
            ShapeNeeds::AtLeast(asks.reduce(Resources::min).unwrap_or_default())
        };
        Shape {
            needs,
            quotas: self.quotas(),
            // One that comes after another of its own takes nothing more of a quota: capacity beside that one is enough. What whole
            // cores take of it depends on the node.
            needs_nodes: self.comes_after_own
                || self.groups.iter().any(|(_, group)| group.cores() > 0)
                || self.failures.is_empty()
                || self.failures.iter().any(needs_nodes),
            preempts: self.preempts().then_some(self.priority),
            successors: self.comes_after_own.then_some(self.slot),
        }
    }

    fn is_own(&self) -> bool {
        let first = self.failures.first();
        let waits_for_same = |failure: &GroupFailure| {
            let waits = |of: &GroupFailure| (needs_nodes(of), of.funnel.quota.is_empty());
            first.is_some_and(|first| waits(first) == waits(failure)) && waits(failure).0 == waits(failure).1
        };
        self.demands.len() != 1
            || self.comes_after_own
            || self.groups.iter().any(|(job, group)| Demand::is_its_own(job, group))
            || !self.failures.iter().all(|failure| was_looked_at(failure) && waits_for_same(failure))
    }

    fn preempts(&self) -> bool {
        self.store.scheduler_config().preemption.is_on_for(self.row.job().job_type)
    }

    fn quotas(&self) -> BTreeSet<String> {
        self.failures.iter().flat_map(|failure| failure.funnel.quota.keys().cloned()).collect()
    }
}

/// The versions of a job of which allocations may be placed: the newest, and as long as that waits for its promotion, those
/// that it is to replace.
fn placed_versions<'a>(store: &'a Store, row: &'a JobRow) -> impl Iterator<Item = &'a Job> {
    let newest = row.current().version;
    let deployment = store.deployments().of_version(&row.key, newest);
    let is_canarying = deployment.is_some_and(|it| it.groups.iter().any(DeploymentGroup::is_canarying));
    let older = row.versions.iter().skip(1).filter(move |_| is_canarying);
    std::iter::once(row.job()).chain(older.map(|version| &version.job)).map(|job| &**job)
}

/// Whether allocations of a job are of older versions, or are to end and have not: stopped for the sake of others' work, for one.
fn comes_after_own(store: &Store, row: &JobRow) -> bool {
    let newest = row.current().version;
    let mut all = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
    let is_before = |alloc: &AllocRow| alloc.job_version != newest || !alloc.is_desired();
    row.live > 0 && all.any(|alloc| !alloc.is_terminal() && is_before(alloc))
}

/// Whether capacity on nodes is what was missing, and not only a quota.
fn needs_nodes(failure: &GroupFailure) -> bool {
    failure.funnel.quota.is_empty() || failure.funnel.considered > 0
}

/// Whether nodes were looked at at all: what a plan leaves for lack of steps says nothing of others.
fn was_looked_at(failure: &GroupFailure) -> bool {
    let funnel = &failure.funnel;
    !funnel.available.is_empty() || funnel.exhausted.is_empty()
}

/// What work of a shape misses.
#[derive(Debug)]
pub(super) struct Shape {
    needs: ShapeNeeds,
    /// The quotas that hold it back.
    pub quotas: BTreeSet<String>,
    /// Capacity on nodes is what it waits for, not only a quota.
    needs_nodes: bool,
    /// It may replace other work: of this priority at most.
    pub preempts: Option<u8>,
    /// The job, where it replaces some of its own.
    successors: Option<JobSlot>,
}

#[derive(Debug)]
enum ShapeNeeds {
    OneOf(Vec<Demand>),
    AtLeast(Resources),
}

impl Shape {
    /// Whether a node may have capacity for one: ports and devices are the planner's to look at.
    pub fn may_use(&self, store: &Store, slot: NodeSlot) -> bool {
        self.any_demand(store, slot, Demand::accepts)
    }

    /// The same of a node that it may use.
    pub fn has_capacity(&self, store: &Store, slot: NodeSlot) -> bool {
        self.any_demand(store, slot, |_, _| true)
    }

    fn any_demand(
        &self,
        store: &Store,
        slot: NodeSlot,
        accepts: impl Fn(&Demand, &berth_model::node::Node) -> bool,
    ) -> bool {
        let Some(row) = store.nodes().row(slot).filter(|row| self.needs_nodes && row.is_ready()) else {
            return false;
        };
        let Some(node) = store.nodes().detail(slot).map(|detail| &detail.node) else { return false };
        let available = if self.preempts.is_some() { row.capacity } else { row.free() };
        let fits = match &self.needs {
            ShapeNeeds::OneOf(demands) => {
                demands.iter().any(|one| one.on(node).exceeds(available).is_none() && accepts(one, node))
            }
            ShapeNeeds::AtLeast(least) => least.exceeds(available).is_none(),
        };
        fits || self.is_replaced_on(store, row)
    }

    /// Whether a node that takes no new work has some of the job that it would replace.
    pub fn replaces_on_closed(&self, store: &Store, slot: NodeSlot) -> bool {
        store.nodes().row(slot).is_some_and(|row| !row.is_ready() && self.is_replaced_on(store, row))
    }

    fn is_replaced_on(&self, store: &Store, row: &NodeRow) -> bool {
        let Some(job) = self.successors else { return false };
        let mut live = store.nodes().live(row).filter_map(|slot| store.allocs().row(slot));
        live.any(|alloc| alloc.job == job)
    }

    /// What one allocation of it holds on a node, where that can be known.
    pub fn holds_on(&self, store: &Store, slot: NodeSlot) -> Option<Resources> {
        let node = &store.nodes().detail(slot)?.node;
        match &self.needs {
            ShapeNeeds::OneOf(demands)
                if demands.len() == 1 && self.preempts.is_none() && self.successors.is_none() =>
            {
                Some(demands[0].on(node))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{
        EvalId, Timestamp,
        command::{Command, Entry, RegisterJob, SetSchedulerConfig},
        job::JobType,
        scheduling::SchedulerConfig,
    };

    use super::*;

    /// Whoever asks for an evaluation of low priority still waits for what the job itself may preempt.
    #[test]
    fn the_priority_of_an_evaluation_says_nothing_of_whom_the_job_may_preempt() {
        let mut config = SchedulerConfig::default();
        config.preemption.service = true;
        let set = SetSchedulerConfig { config, only_if: None };
        let mut job = Job::new(JobKey::new("default", "web"), JobType::Service);
        job.priority = 70;
        let (job, eval) = (Arc::new(job), EvalId(1));
        let register = RegisterJob { job, eval, only_if: None, submission: None };
        let commands = vec![
            Command::SetSchedulerConfig(Box::new(set)),
            Command::RegisterJob(Box::new(register)),
            Command::SetEvalPriority(eval, 1),
        ];
        let mut store = Store::default();
        let applied = store.apply(Entry::new(Index(1), Timestamp(1), commands));
        assert_eq!(applied.outcomes, [Ok(()), Ok(()), Ok(())]);
        let eval = store.eval(eval).expect("it was made");
        let missing = MissingWork::of(&store, eval, &[]).expect("the job is there");
        assert_eq!((eval.priority, missing.shape().preempts), (1, Some(70)));
    }
}
