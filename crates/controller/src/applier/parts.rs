//! A plan as the commands that are written: as many as its bytes need, or one where it is all or nothing.

use std::collections::{HashMap, HashSet};

use berth_model::{
    AllocId,
    alloc::{Placement, Stop},
    codec::encoded_len,
    command::{Command, EvalOutcome, PlanRecord},
};
use berth_scheduler::Plan;

/// Bytes of one part of a plan, encoded: half of an entry, so that other commands fit beside it.
pub const PART_BYTES_MAX: usize = berth_model::command::ENTRY_BYTES_MAX / 2;

/// Bytes that the heads of a part's three lists can grow by.
const LIST_HEADS_BYTES: usize = 16;

/// The commands of a plan of which these placements passed. Ends come first, so that no part needs capacity that a later one
/// frees, but for those of allocations that only their successors wait for: each stands with its successor, so that a leader
/// that ends between two parts has stopped nothing without one. The outcome stands in the last.
pub(super) fn parts(plan: Plan, passing: Vec<Placement>, outcome: Option<EvalOutcome>) -> Vec<Command> {
    let mut deployment = plan.deployment;
    let record = |EntryPart { placements, stops, updates, .. }, outcome, deployment| PlanRecord {
        eval: plan.eval,
        job: plan.job.clone(),
        job_version: plan.job_version,
        snapshot_index: plan.snapshot_index,
        placements,
        stops,
        outcome,
        deployment,
        updates: (!updates.is_empty()).then_some(updates),
    };
    let mut parts = if plan.all_at_once {
        vec![EntryPart { bytes: 0, stops: plan.stops, placements: passing, updates: plan.updates }]
    } else {
        let empty = encoded_len(&record(EntryPart::default(), None, deployment.clone())) + LIST_HEADS_BYTES;
        cut(empty, plan.stops, passing, plan.updates)
    };
    if let Some(outcome) = &outcome {
        let bytes = encoded_len(outcome);
        if parts.last().is_none_or(|last| last.bytes > 0 && last.bytes + bytes > PART_BYTES_MAX) {
            parts.push(EntryPart::default());
        }
    }
    if deployment.is_some() && parts.is_empty() {
        parts.push(EntryPart::default());
    }
    let last = parts.len().saturating_sub(1);
    let mut outcome = outcome;
    let records = parts.into_iter().enumerate().map(|(at, part)| {
        let outcome = if at == last { outcome.take() } else { None };
        record(part, outcome, deployment.take())
    });
    records.map(|record| Command::CommitPlan(Box::new(record))).collect()
}

/// What goes together.
#[derive(Default)]
struct EntryPart {
    bytes: usize,
    stops: Vec<Stop>,
    placements: Vec<Placement>,
    updates: Vec<AllocId>,
}

fn cut(empty: usize, stops: Vec<Stop>, placements: Vec<Placement>, updates: Vec<AllocId>) -> Vec<EntryPart> {
    let mut parts: Vec<EntryPart> = Vec::new();
    let (stops, mut with_successors) = with_successors(stops, &placements);
    for stop in stops {
        part_for(&mut parts, empty, encoded_len(&stop)).stops.push(stop);
    }
    for placement in placements {
        let stop = placement.previous.and_then(|previous| with_successors.remove(&previous));
        let part =
            part_for(&mut parts, empty, encoded_len(&placement) + stop.as_ref().map_or(0, encoded_len));
        part.stops.extend(stop);
        part.placements.push(placement);
    }
    for update in updates {
        part_for(&mut parts, empty, encoded_len(&update)).updates.push(update);
    }
    parts
}

/// The stops that come first, and those that may wait for the successor.
fn with_successors(stops: Vec<Stop>, placements: &[Placement]) -> (Vec<Stop>, HashMap<AllocId, Stop>) {
    if !stops.iter().any(|stop| stop.reason.needs_successor()) {
        return (stops, HashMap::new());
    }
    let succeeded: HashSet<AllocId> = placements.iter().filter_map(|placement| placement.previous).collect();
    let followed: HashSet<AllocId> = placements.iter().flat_map(Placement::after_others).collect();
    let waits = |stop: &Stop| {
        stop.reason.needs_successor() && succeeded.contains(&stop.alloc) && !followed.contains(&stop.alloc)
    };
    let (waiting, first): (Vec<_>, Vec<_>) = stops.into_iter().partition(waits);
    (first, waiting.into_iter().map(|stop| (stop.alloc, stop)).collect())
}

/// The last part, or a new one where that is full.
fn part_for(parts: &mut Vec<EntryPart>, empty: usize, bytes: usize) -> &mut EntryPart {
    if parts.last().is_none_or(|last| last.bytes + bytes > PART_BYTES_MAX) {
        parts.push(EntryPart { bytes: empty, ..EntryPart::default() });
    }
    let last = parts.last_mut().expect("one was just made");
    last.bytes += bytes;
    last
}

#[cfg(test)]
mod tests {
    use berth_model::{AllocId, EvalId, JobKey, NodeId, alloc::StopReason, eval::EvalStatus};
    use berth_scheduler::Planner;

    use super::*;

    fn placement(id: u128, after: usize) -> Placement {
        Placement {
            id: AllocId(u128::MAX - id),
            node: NodeId(u128::MAX),
            group: 3,
            name_index: 50_000,
            ports: vec![65_535; 8],
            after: (0..after as u128).map(AllocId).collect(),
            previous: Some(AllocId(u128::MAX)),
            reschedules: Vec::new(),
            devices: Vec::new(),
            cores: vec![1, 2, 3],
            canary: false,
            job_version: None,
        }
    }

    #[test]
    fn parts_are_as_large_as_they_may_be_and_hold_everything_in_order() {
        let store = berth_model::store::Store::default();
        let key = JobKey::new("default", "web");
        let eval = berth_model::eval::Eval::pending(
            EvalId(1),
            key,
            berth_model::job::JobType::Service,
            50,
            berth_model::eval::Trigger::JobRegister,
        );
        let mut plan = Planner::default().plan(&store, &eval, berth_model::Timestamp(1), 1);
        plan.stops = (0..30_000)
            .map(|id| Stop { alloc: AllocId(id), reason: StopReason::NotNeeded, observed_at: None })
            .collect();
        let placements: Vec<Placement> = (0..30_000).map(|id| placement(id, id as usize % 50)).collect();
        let outcome = EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: Vec::new().into(),
            next: Vec::new(),
        };
        let commands = parts(plan.clone(), placements.clone(), Some(outcome.clone()));
        let sizes: Vec<usize> = commands.iter().map(Command::encoded_len).collect();
        assert!(sizes.iter().all(|size| *size <= PART_BYTES_MAX), "{sizes:?}");
        assert!(sizes.iter().rev().skip(1).all(|size| *size > PART_BYTES_MAX - 2000), "{sizes:?}");
        let records = || {
            commands.iter().map(|command| match command {
                Command::CommitPlan(record) => record,
                other => panic!("{other:?}"),
            })
        };
        assert!(records().flat_map(|record| &record.stops).eq(&plan.stops));
        assert!(records().flat_map(|record| &record.placements).eq(&placements));
        let last = commands.len() - 1;
        assert!(records().enumerate().all(|(at, record)| record.outcome.is_some() == (at == last)));
    }
}
