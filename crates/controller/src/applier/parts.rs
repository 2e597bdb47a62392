//! A plan as the commands that are written: as many as entries are needed, or one where it is all or nothing.

use berth_model::{
    alloc::{Placement, Stop},
    command::{Command, EvalOutcome, PlanRecord},
};
use berth_scheduler::Plan;

/// Placements in one entry; an entry is at most 1 MiB, and a placement rarely needs more than 100 bytes.
pub const PLACEMENTS_PER_ENTRY_MAX: usize = 6000;

/// The commands of a plan of which these placements passed, each with about how many bytes it needs. Ends come first, so
/// that no part needs room that a later one frees.
pub(super) fn parts(
    plan: Plan,
    passing: Vec<Placement>,
    outcome: Option<EvalOutcome>,
) -> Vec<(Command, usize)> {
    let record = |placements, stops, outcome| PlanRecord {
        eval: plan.eval,
        job: plan.job.clone(),
        job_version: plan.job_version,
        snapshot_index: plan.snapshot_index,
        placements,
        stops,
        outcome,
    };
    let mut records = if plan.all_at_once {
        vec![record(passing, plan.stops.clone(), None)]
    } else {
        let cut = cut(&plan.stops, &passing).into_iter();
        cut.map(|(placements, stops)| record(placements.to_vec(), stops.to_vec(), None)).collect()
    };
    if outcome.is_some() {
        match records.last_mut() {
            Some(last) => last.outcome = outcome,
            None => records.push(record(Vec::new(), Vec::new(), outcome)),
        }
    }
    records.into_iter().map(sized).collect()
}

/// What goes together: stops alone, and placements with the last of them where there is room.
fn cut<'a>(stops: &'a [Stop], placements: &'a [Placement]) -> Vec<(&'a [Placement], &'a [Stop])> {
    let mut parts: Vec<(&[Placement], &[Stop])> =
        stops.chunks(PLACEMENTS_PER_ENTRY_MAX).map(|stops| (&[][..], stops)).collect();
    for placements in placements.chunks(PLACEMENTS_PER_ENTRY_MAX) {
        let has_room = |(placed, stops): &&mut (&[Placement], &[Stop])| {
            placed.is_empty() && stops.len() + placements.len() < PLACEMENTS_PER_ENTRY_MAX
        };
        match parts.last_mut().filter(has_room) {
            Some(last) => last.0 = placements,
            None => parts.push((placements, &[])),
        }
    }
    parts
}

fn sized(record: PlanRecord) -> (Command, usize) {
    let failures = record.outcome.as_ref().map_or(0, |outcome| outcome.failures.len());
    let bytes = berth_scheduler::plan_bytes(&record.placements, record.stops.len(), failures);
    (Command::CommitPlan(Box::new(record)), bytes)
}
