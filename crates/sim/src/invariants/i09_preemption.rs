//! I9: preemption never inverts priority.

use berth_model::{
    alloc::StopReason,
    command::{Command, Entry, PlanRecord},
    store::Store,
};

use super::CheckResult;

const RULE: &str = "I9 what is preempted has a lower priority";
/// How much lower it is at least; nothing is guaranteed to any namespace here.
const PRIORITY_GAP: u8 = 10;

/// What an entry preempts is of lower priority, in the state before it. Whether less would have done is judged for each plan where it
/// is made, by the checker of plans: until it is applied others may have made room.
pub fn check(before: &Store, entry: &Entry) -> CheckResult {
    let mut plans = entry.commands.iter().filter_map(|command| match command {
        Command::CommitPlan(plan) => Some(&**plan),
        _ => None,
    });
    plans.try_for_each(|plan| check_plan(before, plan))
}

/// A plan of a job that has changed since is not applied.
fn check_plan(store: &Store, plan: &PlanRecord) -> CheckResult {
    let Some(row) = store.job(&plan.job).filter(|row| row.current().version == plan.job_version) else {
        return Ok(());
    };
    let stops = plan.stops.iter().filter(|stop| stop.reason == StopReason::Preempted);
    for id in stops.map(|stop| stop.alloc) {
        let Some((_, alloc)) = store.alloc(id).filter(|(_, alloc)| alloc.is_desired()) else { continue };
        let Some((victim, _)) = store.job_of(alloc) else { continue };
        let priority = row.job().priority;
        if victim.priority.saturating_add(PRIORITY_GAP) > priority {
            let victim = victim.priority;
            return Err((
                RULE,
                format!("{id} of priority {victim} makes room for {} of {priority}", plan.job),
            ));
        }
    }
    Ok(())
}
