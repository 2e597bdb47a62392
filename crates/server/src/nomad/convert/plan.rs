//! Dry runs of plans: the changes by group, annotated in the differences of the job.

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_api::http::{
    AllocationStub, DesiredUpdates, DiffKind, Evaluation, JobDiff, JobPlanned, PlanAnnotations,
    PlannedChange, PlannedPlacement, TaskGroupDiff, Time,
};
use berth_model::{
    AllocId, EvalId,
    alloc::{Placement, StopReason},
    eval::{Eval, EvalStatus, Failures, QueuedAllocs},
    ids::IdSeed,
    job::VersionChange,
    store::{AllocRow, JobRow, Store},
};
use berth_scheduler::Plan;

use super::{
    AllocStubParts, allocation_stub,
    eval::{evaluation, failed_groups},
    id_text,
};
use crate::{access::CallerView, http::text::Text};

/// Placements that are listed of one plan.
const PLACEMENTS_MAX: usize = 1000;

/// What a plan would do. `store` is the state with the job registered, on which it was planned; `view` the one before.
pub fn planned(
    view: &CallerView,
    store: &Store,
    row: &JobRow,
    plan: &Plan,
    diff: Option<JobDiff>,
) -> JobPlanned {
    let is_new = view.job(&row.key).is_some_and(|before| before.current().version != row.current().version);
    let updates = updates(store, row, plan, is_new);
    let diff = diff.map(|diff| annotated(diff, &updates));
    JobPlanned {
        failed_tg_allocs: failed_groups(&plan.failures),
        placements: placements(view, store, row, plan),
        touched: touched(store, row, plan, is_new),
        annotations: PlanAnnotations { desired_tg_updates: updates, preempted_allocs: preempted(view, plan) },
        created_evals: created_evals(row, plan),
        diff,
        next_periodic_launch: Time(row.due().map_or(0, |due| due.0)),
        ..JobPlanned::default()
    }
}

/// The evaluations that would be made for what is left to be done, as the state would have them; none for none.
fn created_evals(row: &JobRow, plan: &Plan) -> Option<Vec<Evaluation>> {
    let (job, mut ids) = (row.job(), IdSeed::new(plan.eval.0 as u64));
    let failures = Failures::from(plan.failures.clone());
    let created = plan.next.iter().map(|next| {
        let id = EvalId(ids.mint());
        let mut eval = Eval::pending(id, row.key.clone(), job.job_type, job.priority, next.trigger);
        (eval.status, eval.wait_until, eval.previous) = (next.status, next.wait_until, Some(plan.eval));
        if next.status == EvalStatus::Blocked {
            eval.queued = QueuedAllocs::of(&failures);
            eval.failures.clone_from(&failures);
        }
        evaluation(&eval, None)
    });
    (!plan.next.is_empty()).then(|| created.collect())
}

/// What would happen to how many allocations, by group; `is_new` says that the job would have a new version, under which
/// what goes on changes in place.
fn updates(store: &Store, row: &JobRow, plan: &Plan, is_new: bool) -> BTreeMap<String, DesiredUpdates> {
    let mut updates: BTreeMap<String, DesiredUpdates> =
        row.job().groups.iter().map(|group| (group.name.clone(), DesiredUpdates::default())).collect();
    let stops = reasons(plan);
    let mut stays = RetainedAllocs::of(row, plan);
    let mut old: BTreeMap<String, u64> = BTreeMap::new();
    let allocs = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
    for alloc in allocs.filter(|alloc| alloc.is_desired() && !alloc.is_terminal()) {
        let Some((_, group)) = store.job_of(alloc) else { continue };
        let updates = updates.entry(group.name.clone()).or_default();
        match stops.get(&alloc.id) {
            None if is_new && stays.is_current(alloc) => updates.in_place_update += 1,
            None => {
                updates.ignore += 1;
                *old.entry(group.name.clone()).or_default() += u64::from(!stays.is_current(alloc));
            }
            Some(StopReason::JobUpdated) => updates.destructive_update += 1,
            Some(StopReason::Migrated) => updates.migrate += 1,
            Some(_) => updates.stop += 1,
        }
    }
    for (name, placed) in placed(row, plan) {
        let failed = plan.failures.iter().find(|failure| *failure.group == *name);
        // What cannot be placed replaces nothing yet.
        let put_off = failed.map_or(0, |f| u64::from(f.count)).min(old.get(&name).copied().unwrap_or(0));
        let updates = updates.entry(name).or_default();
        updates.destructive_update += put_off;
        updates.ignore = updates.ignore.saturating_sub(put_off);
        updates.place = placed.saturating_sub(updates.destructive_update + updates.migrate);
    }
    for placement in &plan.placements {
        let Some((_, group)) = row.placed_by(placement, plan.job_version) else { continue };
        if placement.canary {
            let updates = updates.entry(group.name.clone()).or_default();
            updates.canary += 1;
            updates.place = updates.place.saturating_sub(1);
        }
        let victims = preempts(placement, &stops).count() as u64;
        updates.entry(group.name.clone()).or_default().preemptions += victims;
    }
    updates
}

/// Whom a placement preempts.
fn preempts<'p>(
    placement: &'p Placement,
    stops: &'p HashMap<AllocId, StopReason>,
) -> impl Iterator<Item = &'p AllocId> {
    placement.after.iter().filter(|id| stops.get(id) == Some(&StopReason::Preempted))
}

/// Allocations that would be preempted; none for none.
fn preempted(view: &CallerView, plan: &Plan) -> Option<Vec<AllocationStub>> {
    let victims = plan.stops.iter().filter(|stop| stop.reason == StopReason::Preempted);
    let parts = victims.filter_map(|stop| view.alloc(stop.alloc));
    let with = AllocStubParts { resources: false, task_states: false };
    let stubs: Vec<AllocationStub> = parts.filter_map(|parts| owned(allocation_stub(&parts, with))).collect();
    (!stubs.is_empty()).then_some(stubs)
}

/// The same with text of its own: the answer outlives the state. They are few.
fn owned(stub: AllocationStub<Text<'_>>) -> Option<AllocationStub> {
    serde_json::from_value(serde_json::to_value(stub).ok()?).ok()
}

/// Allocations that the plan places or wants to place, by group.
fn placed(row: &JobRow, plan: &Plan) -> BTreeMap<String, u64> {
    let mut placed: BTreeMap<String, u64> = BTreeMap::new();
    for (_, group) in
        plan.placements.iter().filter_map(|placement| row.placed_by(placement, plan.job_version))
    {
        *placed.entry(group.name.clone()).or_default() += 1;
    }
    for failure in &plan.failures {
        *placed.entry(failure.group.to_string()).or_default() += u64::from(failure.count);
    }
    placed
}

/// Allocations that would end without anybody in their place, or change while they run.
fn touched(store: &Store, row: &JobRow, plan: &Plan, is_new: bool) -> Vec<PlannedChange> {
    let stops = reasons(plan);
    let replaced: HashSet<AllocId> = plan.placements.iter().filter_map(|placed| placed.previous).collect();
    let mut stays = RetainedAllocs::of(row, plan);
    let rows = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot));
    let there = rows.filter(|alloc| alloc.is_desired() && !alloc.is_terminal());
    let changes = there.filter_map(|alloc| {
        let (action, reason) = match stops.get(&alloc.id) {
            Some(_) if replaced.contains(&alloc.id) => return None,
            Some(reason) => ("destroy", reason.as_str()),
            None if is_new && stays.is_current(alloc) => ("in-place update", ""),
            None => return None,
        };
        let (_, group) = store.job_of(alloc)?;
        Some(PlannedChange {
            id: alloc.id.to_string(),
            name: format!("{}.{}[{}]", row.key.id, group.name, alloc.name_index),
            task_group: group.name.clone(),
            node_name: store.nodes().detail(alloc.node)?.node.name.clone(),
            action: action.to_owned(),
            reason: reason.to_owned(),
        })
    });
    let mut changes: Vec<PlannedChange> = changes.take(PLACEMENTS_MAX).collect();
    changes.sort_by(|one, other| {
        (&one.action, &one.name, &one.id).cmp(&(&other.action, &other.name, &other.id))
    });
    changes
}

/// What goes on under the newest version where it is, once a plan is carried out.
struct RetainedAllocs<'a> {
    row: &'a JobRow,
    updates: HashSet<AllocId>,
    same: BTreeMap<(u64, u16), bool>,
}

impl<'a> RetainedAllocs<'a> {
    fn of(row: &'a JobRow, plan: &Plan) -> Self {
        Self { row, updates: plan.updates.iter().copied().collect(), same: BTreeMap::new() }
    }

    fn is_current(&mut self, alloc: &AllocRow) -> bool {
        let (version, group) = (alloc.job_version, alloc.group);
        let asks_nothing = || self.row.change_of(version, group) == VersionChange::Nothing;
        self.updates.contains(&alloc.id) || *self.same.entry((version, group)).or_insert_with(asks_nothing)
    }
}

fn reasons(plan: &Plan) -> HashMap<AllocId, StopReason> {
    plan.stops.iter().map(|stop| (stop.alloc, stop.reason)).collect()
}

/// What a placement is, by whom it replaces.
fn action(placement: &Placement, stops: &HashMap<AllocId, StopReason>) -> &'static str {
    match placement.previous.and_then(|previous| stops.get(&previous)) {
        _ if placement.canary => "canary",
        Some(StopReason::JobUpdated) => "create/destroy update",
        Some(StopReason::Migrated | StopReason::Drained) => "migrate",
        _ => "create",
    }
}

fn placements(view: &CallerView, store: &Store, row: &JobRow, plan: &Plan) -> Vec<PlannedPlacement> {
    let stops = reasons(plan);
    let placements = plan.placements.iter().take(PLACEMENTS_MAX);
    let placements = placements.filter_map(|placement| {
        let (_, group) = row.placed_by(placement, plan.job_version)?;
        let (slot, _) = store.node(placement.node)?;
        Some(PlannedPlacement {
            name: format!("{}.{}[{}]", row.key.id, group.name, placement.name_index),
            task_group: group.name.clone(),
            node_id: placement.node.to_string(),
            node_name: store.nodes().detail(slot)?.node.name.clone(),
            previous_allocation: id_text(placement.previous),
            action: action(placement, &stops).to_owned(),
            preempts: preempts(placement, &stops)
                .filter(|id| view.alloc(**id).is_some())
                .map(ToString::to_string)
                .collect(),
        })
    });
    placements.collect()
}

/// Says at each difference what it means.
fn annotated(mut diff: JobDiff, updates: &BTreeMap<String, DesiredUpdates>) -> JobDiff {
    for group in &mut diff.task_groups {
        if let Some(updates) = updates.get(&group.name) {
            annotate(group, updates);
        }
    }
    diff
}

/// The words that clients know.
fn annotate(group: &mut TaskGroupDiff, updates: &DesiredUpdates) {
    let counts = [
        ("ignore", updates.ignore),
        ("create", updates.place),
        ("destroy", updates.stop),
        ("migrate", updates.migrate),
        ("in-place update", updates.in_place_update),
        ("create/destroy update", updates.destructive_update),
        ("canary", updates.canary),
    ];
    let nonzero = counts.into_iter().filter(|(_, count)| *count > 0);
    group.updates = Some(nonzero.map(|(what, count)| (what.to_owned(), count)).collect());
    for count in group.fields.iter_mut().filter(|field| field.name == "Count") {
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        let grows = number(&count.new) > number(&count.old);
        count.annotations = Some(vec![if grows { "forces create" } else { "forces destroy" }.to_owned()]);
    }
    for task in &mut group.tasks {
        let means = match task.kind {
            DiffKind::Added => "forces create",
            DiffKind::Deleted => "forces destroy",
            _ if updates.destructive_update > 0 => "forces create/destroy update",
            _ => continue,
        };
        task.annotations = Some(vec![means.to_owned()]);
    }
}
