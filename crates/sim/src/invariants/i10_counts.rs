//! I10 and I11: every count is met, and every eligible node of a system job covered, or a reason is recorded, within a second in
//! which nothing kept the servers from it; no evaluation waits for nothing.

use std::{collections::BTreeMap, sync::Arc};

use berth_controller::invariants::{lacks_of_count, lacks_of_nodes};
use berth_model::{
    AllocId, EvalId, JobKey,
    deployment::{Deployment, DeploymentStatus},
    eval::{Eval, EvalStatus},
    node::NodeStatus,
    store::{JobRow, Store},
};
use berth_scheduler::{Claims, Planner};

use super::CheckResult;
use crate::{executor::now_ns, node::number_of};

const RULE: &str = "I10 counts are met, or there is a reason";
/// What is due is dealt with in so many nanoseconds.
const WITHIN_NS: u64 = 1_000_000_000;
/// Every so many looks it is tried what could be placed.
const LOOKS_PER_TRY: u64 = 3;

/// Something that is to be dealt with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum OverdueItem {
    /// An evaluation is to be planned.
    Planning(EvalId),
    /// A job has not what it asks for, and nothing says why.
    Reason(JobKey),
    /// An evaluation waits for room that is there.
    Room(EvalId),
}

/// What is due, and since when.
#[derive(Default)]
pub struct DueCounts {
    since: BTreeMap<OverdueItem, u64>,
    looks: u64,
}

impl DueCounts {
    /// Looks at a state, with which nothing keeps the servers from their work since `able_ns`; none while something does.
    pub fn on_time(&mut self, store: &Store, able_ns: Option<u64>) -> CheckResult {
        let Some(able_ns) = able_ns.filter(|_| !store.is_restoring()) else {
            self.since.clear();
            return Ok(());
        };
        self.looks += 1;
        let mut due = BTreeMap::new();
        for (_, row) in store.jobs().iter() {
            due.extend(lacks(store, row).map(|what| (OverdueItem::Reason(row.key.clone()), what)));
        }
        for (_, eval) in store.evals().iter().filter(|(_, eval)| is_due(store, eval)) {
            due.insert(
                OverdueItem::Planning(eval.id),
                format!("evaluation {} of {} is not planned", eval.id, eval.job),
            );
        }
        if self.looks.is_multiple_of(LOOKS_PER_TRY) {
            due.extend(could_be_placed(store).map(|(eval, what)| (OverdueItem::Room(eval), what)));
        } else {
            // What was seen at the last try counts until the next.
            let waiting = self.since.keys().filter(|due| matches!(due, OverdueItem::Room(_)));
            due.extend(waiting.map(|due| (due.clone(), String::new())));
        }
        self.since.retain(|known, _| due.contains_key(known));
        for (due, what) in due {
            let since = *self.since.entry(due).or_insert(now_ns());
            if now_ns() - since.max(able_ns) > WITHIN_NS && !what.is_empty() {
                return Err((RULE, format!("{what} after {:.1} s", (now_ns() - since) as f64 / 1e9)));
            }
        }
        Ok(())
    }
}

fn is_due(store: &Store, eval: &Eval) -> bool {
    eval.status == EvalStatus::Pending && eval.wait_until <= store.at()
}

/// The evaluations that wait for room, of jobs that nothing else is planned for, and that would find it now; where.
fn could_be_placed(store: &Store) -> impl Iterator<Item = (EvalId, String)> {
    let mut planner = None;
    store.evals().blocked().filter_map(move |eval| {
        let is_planned =
            store.job(&eval.job).is_some_and(|row| open_evals(store, row).any(|e| is_due(store, e)));
        if is_planned {
            return None;
        }
        let planner = planner.get_or_insert_with(|| {
            let mut planner = Planner::default();
            planner.follow(store, &Claims::default());
            planner
        });
        let plan = planner.plan(store, eval, store.at(), 1);
        let first = plan.placements.first()?;
        let node = number_of(first.node) + 1;
        let in_place_of: Vec<String> = plan.stops.iter().map(|stop| named(store, stop.alloc)).collect();
        let what = format!(
            "evaluation {} of {} (priority {}) waits for room that is there on node {node}, in place of {in_place_of:?}",
            eval.id, eval.job, eval.priority
        );
        Some((eval.id, what))
    })
}

/// An allocation, with its job and the priority of that.
fn named(store: &Store, id: AllocId) -> String {
    let job = store.alloc(id).and_then(|(_, row)| store.job_of(row));
    let job = job.map_or_else(String::new, |(job, _)| format!(" of {} (priority {})", job.key, job.priority));
    format!("{id}{job}")
}

/// All nodes are ready, no evaluation is left over, and jobs have what they ask for.
pub fn at_rest(store: &Store) -> CheckResult {
    if let Some((_, node)) =
        store.nodes().iter().find(|(_, node)| node.status != NodeStatus::Ready && !node.purged)
    {
        return Err(("R4 nodes come back", format!("node {} is {:?}", node.id, node.status)));
    }
    if let Some((_, eval)) = store.evals().iter().find(|(_, eval)| is_due(store, eval)) {
        return Err((RULE, format!("evaluation {} of {} is pending for ever", eval.id, eval.job)));
    }
    if let Some((_, what)) = could_be_placed(store).next() {
        return Err((RULE, what));
    }
    let waits = |of: &&Arc<Deployment>| {
        let mut open = store.job(&of.job).into_iter().flat_map(|row| open_evals(store, row));
        of.is_active() && open.next().is_none()
    };
    if let Some(of) = store.deployments().iter().find(waits) {
        return Err(("R4 deployments end", format!("{} of {} waits for nothing", of.id, of.job)));
    }
    match store.jobs().iter().find_map(|(_, row)| lacks(store, row)) {
        None => Ok(()),
        Some(what) => Err((RULE, what)),
    }
}

/// What a job has too much or too little of, and no reason for it.
fn lacks(store: &Store, row: &JobRow) -> Option<String> {
    lacks_of_count(store, row).or_else(|| lacks_of_nodes(store, row))
}

/// The evaluations of a job that are not over.
fn open_evals<'a>(store: &'a Store, row: &'a JobRow) -> impl Iterator<Item = &'a Arc<Eval>> {
    let evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
    evals.filter(|eval| !eval.status.is_terminal())
}

/// Whether the deployment of a job's newest version has failed.
pub fn has_failed(store: &Store, row: &JobRow) -> bool {
    deployment(store, row).is_some_and(|last| last.status == DeploymentStatus::Failed)
}

fn deployment<'a>(store: &'a Store, row: &JobRow) -> Option<&'a Arc<Deployment>> {
    store.deployments().of_version(&row.key, row.current().version)
}
