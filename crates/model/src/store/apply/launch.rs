//! Making the runs of periodic jobs.

use std::sync::Arc;

use super::{Store, eval_of, rules::Rules};
use crate::{
    command::{LaunchJob, Outcome, Refusal},
    eval::Trigger,
    event::StateChange,
    store::Launch,
};

impl Store {
    /// Makes the run for which a job is due, once: what is due already dealt with is refused, however often it is
    /// proposed.
    pub(super) fn launch_job(
        &mut self,
        launch: LaunchJob,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let LaunchJob { job: key, due, at, eval } = launch;
        let slot = self.jobs.find(&key).ok_or_else(|| Refusal::NoJob(key.clone()))?;
        let row = self.jobs.row(slot).ok_or_else(|| Refusal::NoJob(key.clone()))?;
        let periodic = row.job().clock().filter(|_| row.launch.is_none_or(|last| last.at < due));
        let periodic = periodic.ok_or_else(|| Refusal::NotDue(key.clone(), due))?;
        let overlapped = periodic.prohibit_overlap && self.jobs.has_living_run(&key);
        let run = Arc::new(row.job().run_at(at));
        let missed_since = Some(due).filter(|due| *due != at && rules.missed_runs_are_recorded());
        self.jobs.update(slot, self.index, |row| row.launch = Some(Launch { at, overlapped, missed_since }));
        events.push(StateChange::JobLaunched(slot));
        // Somebody may have run it by hand in the very same second.
        if !overlapped && self.jobs.find(&run.key).is_none() {
            self.register_version(run.clone(), None, events);
            self.create_eval(eval_of(eval, &run, Trigger::PeriodicJob), events);
        }
        Ok(())
    }
}
