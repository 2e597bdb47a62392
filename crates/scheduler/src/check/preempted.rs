//! Whether what a plan pushes out may be pushed out, and somebody waits for it.

use berth_model::alloc::StopReason;

use super::{Checked, Faults};

/// How much lower the priority of what is pushed out must be.
const PRIORITY_GAP: u8 = 10;

pub(super) fn check(checked: &Checked<'_>, faults: &mut Faults) {
    let preemption = checked.store.scheduler_config().preemption;
    let (job, store) = (checked.job, checked.store);
    for stop in checked.plan.stops.iter().filter(|stop| stop.reason == StopReason::Preempted) {
        if !preemption.is_on_for(job.job_type) {
            faults.add(format!("allocation {} is pushed out by a job that may not", stop.alloc));
        }
        let victim = store.alloc(stop.alloc).and_then(|(_, row)| store.job_of(row));
        if let Some((victim, _)) = victim {
            if victim.priority.saturating_add(PRIORITY_GAP) > job.priority {
                faults.add(format!("allocation {} is pushed out, and its priority is too high", stop.alloc));
            }
            let batch_on_batch = victim.job_type.runs_to_completion() && job.job_type.runs_to_completion();
            if batch_on_batch && !preemption.batch_on_batch {
                faults.add(format!("batch allocation {} is pushed out by batch work", stop.alloc));
            }
        }
        if !checked.plan.placements.iter().any(|placement| placement.after.contains(&stop.alloc)) {
            faults.add(format!("allocation {} is pushed out for nobody", stop.alloc));
        }
    }
}
