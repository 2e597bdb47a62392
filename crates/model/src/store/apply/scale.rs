//! Changing how many allocations a group wants.

use std::sync::Arc;

use super::{Store, eval_of, rules::Rules};
use crate::{
    command::{Outcome, Refusal, ScaleJob},
    eval::Trigger,
    event::StateChange,
    job::Job,
};

impl Store {
    /// A count that changes makes a new version of the job, unless that was stopped meanwhile; a message alone is only
    /// kept.
    pub(super) fn scale_job(
        &mut self,
        scale: ScaleJob,
        rules: Rules,
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        let ScaleJob { job: key, mut event } = scale;
        let slot = self.jobs.find(&key).ok_or_else(|| Refusal::NoJob(key.clone()))?;
        let job =
            self.jobs.row(slot).map(|row| row.job().clone()).ok_or_else(|| Refusal::NoJob(key.clone()))?;
        if job.stop && event.count.is_some() && rules.stopped_jobs_do_not_scale() {
            return Err(Refusal::JobStopped(key));
        }
        let group = job.groups.iter().position(|group| group.name == event.group);
        let group = group.ok_or_else(|| Refusal::NoGroup(key.clone(), event.group.clone()))?;
        (event.at, event.index) = (self.at, self.index);
        event.previous_count = job.groups[group].count;
        if let (Some(count), Some(eval)) = (event.count, event.eval) {
            let mut scaled = Job::clone(&job);
            scaled.groups[group].count = count;
            let scaled = Arc::new(scaled);
            // What was written down has another count.
            self.register_version(scaled.clone(), None, events);
            self.create_eval(eval_of(eval, &scaled, Trigger::JobScaling), events);
        }
        events.push(StateChange::JobScaled(slot, event.group.clone()));
        self.jobs.scaled(slot, event);
        Ok(())
    }
}
