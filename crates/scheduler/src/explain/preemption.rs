//! What would come of letting jobs preempt others, where they may not: the job is planned once more.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Index, Timestamp,
    alloc::StopReason,
    command::{Command, Entry, SetSchedulerConfig},
    job::{Job, JobType},
    scheduling::SchedulerConfig,
    store::Store,
};

use super::{SuggestedChange, planned};
use crate::{
    budget::{Budget, Cancelled},
    plan::Plan,
};

/// By group, the change that lets allocations be placed which `plan` had no place for.
pub(super) fn changes(
    store: &Store,
    job: &Job,
    plan: &Plan,
    now: Timestamp,
    budget: &Budget<'_>,
) -> Result<BTreeMap<u16, SuggestedChange>, Cancelled> {
    let config = store.scheduler_config();
    if plan.failures.is_empty() || config.preemption.is_on_for(job.job_type) {
        return Ok(BTreeMap::new());
    }
    let store = with_preemption(store, config, job.job_type);
    let bold = planned(&store, job, now, budget)?;
    let Some(ended) = ended(&store, &bold) else { return Ok(BTreeMap::new()) };
    let what = format!("turn on preemption for {} jobs: {ended} would be preempted", job.job_type.as_str());
    let nodes = |plan: &Plan, group: u16| {
        let placed = plan.placements.iter().filter(|placement| placement.group == group);
        placed.map(|placement| placement.node).collect::<BTreeSet<_>>().len()
    };
    let more = |group: &u16| missing(job, &bold, *group) < missing(job, plan, *group);
    let groups = (0_u16..).zip(&job.groups).map(|(group, _)| group).filter(more);
    let change = |group| {
        let nodes = u32::try_from(nodes(&bold, group)).unwrap_or(u32::MAX);
        (group, SuggestedChange { what: what.clone(), nodes })
    };
    Ok(groups.map(change).collect())
}

/// The state as it would be.
fn with_preemption(store: &Store, config: &SchedulerConfig, job_type: JobType) -> Store {
    let mut config = config.clone();
    let preemption = &mut config.preemption;
    match job_type {
        JobType::Service => preemption.service = true,
        JobType::Batch => preemption.batch = true,
        JobType::System => preemption.system = true,
        JobType::Sysbatch => preemption.sysbatch = true,
    }
    let mut store = store.clone();
    let set = SetSchedulerConfig { config, only_if: None };
    let (index, at) = (Index(store.index().0 + 1), store.at());
    store.apply(Entry::new(index, at, vec![Command::SetSchedulerConfig(Box::new(set))]));
    store
}

/// As `2 allocations of guest, 1 of lab`; none when nobody is preempted.
fn ended(store: &Store, plan: &Plan) -> Option<String> {
    let mut by_namespace: BTreeMap<&str, u32> = BTreeMap::new();
    for stop in plan.stops.iter().filter(|stop| stop.reason == StopReason::Preempted) {
        let job = store.alloc(stop.alloc).and_then(|(_, row)| store.jobs().row(row.job))?;
        *by_namespace.entry(&job.key.namespace).or_default() += 1;
    }
    let parts = by_namespace.into_iter().enumerate().map(|(at, (namespace, count))| match (at, count) {
        (0, 1) => format!("1 allocation of {namespace}"),
        (0, count) => format!("{count} allocations of {namespace}"),
        (_, count) => format!("{count} of {namespace}"),
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn missing(job: &Job, plan: &Plan, group: u16) -> u32 {
    let name = &job.groups[usize::from(group)].name;
    plan.failures.iter().find(|failure| *failure.group == **name).map_or(0, |failure| failure.count)
}
