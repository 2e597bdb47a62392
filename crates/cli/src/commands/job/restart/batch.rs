//! One batch: its allocations are asked to restart, and waited for.

use std::{collections::BTreeMap, time::Duration};

use berth_api::http::AllocationStub;

use super::health::{Look, Patient, Rules};
use crate::{
    failure::{Exit, Failure},
    output::{clean, short_id, tell},
    remote::Remote,
};

/// Between two looks at allocations that are to become well: what agents observe has no index of its own to wait for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a batch is restarted.
pub(super) struct Batch<'a> {
    pub remote: &'a Remote,
    pub rules: &'a Rules,
    /// By name; empty for all that run.
    pub tasks: &'a [String],
    pub all_tasks: bool,
}

impl Batch<'_> {
    /// Restarts tasks where they are. What did not become well again, a line for each.
    pub async fn restart(&self, allocs: &[AllocationStub]) -> Result<Vec<String>, Failure> {
        let (mut patients, mut failures) = (Vec::new(), Vec::new());
        for alloc in allocs {
            let patient = Patient::of(alloc, self.tasks);
            match self.tell_to_restart(&patient).await {
                Ok(()) => patients.push(patient),
                // It may have ended since it was listed.
                Err(failure) if failure.exit() == Exit::NotFound => say(&patient, "has ended meanwhile"),
                Err(failure) if failure.exit() == Exit::Unreachable => return Err(failure),
                Err(failure) => failures.push(format!("{}: {}", said(&patient), failure.to_string().trim())),
            }
        }
        failures.extend(self.until_well(patients, "restarted").await?);
        Ok(failures)
    }

    async fn tell_to_restart(&self, patient: &Patient) -> Result<(), Failure> {
        if self.tasks.is_empty() {
            return self.remote.restart_tasks(&patient.id, "", self.all_tasks).await;
        }
        for task in patient.tasks() {
            self.remote.restart_tasks(&patient.id, task, false).await?;
        }
        Ok(())
    }

    /// Stops allocations, and waits for those that take their place. What did not become well, a line for each.
    pub async fn reschedule(&self, allocs: &[AllocationStub]) -> Result<Vec<String>, Failure> {
        let mut stopped = Vec::new();
        for alloc in allocs {
            let index = self.remote.stop_allocation(&alloc.id).await?.index;
            stopped.push((Patient::of(alloc, &[]), index));
        }
        let mut patients = Vec::new();
        let mut failures = Vec::new();
        while !stopped.is_empty() {
            let known = self.remote.job_allocations(self.rules.job()).await?;
            let mut waiting = Vec::new();
            for (patient, index) in stopped {
                match successor(&known, &patient, index) {
                    Some(successor) => patients.push(patient.successor(successor)),
                    None if patient.is_late(self.rules) => {
                        failures.push(format!("{}: nothing has taken its place", said(&patient)));
                    }
                    None => waiting.push((patient, index)),
                }
            }
            stopped = waiting;
            if !stopped.is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
                self.rules.check_unchanged(self.remote).await?;
            }
        }
        failures.extend(self.until_well(patients, "rescheduled").await?);
        Ok(failures)
    }

    async fn until_well(&self, mut patients: Vec<Patient>, deed: &str) -> Result<Vec<String>, Failure> {
        let mut failures = Vec::new();
        while !patients.is_empty() {
            let known = self.remote.job_allocations(self.rules.job()).await?;
            let known: BTreeMap<&str, &AllocationStub> =
                known.iter().map(|alloc| (alloc.id.as_str(), alloc)).collect();
            let mut waiting = Vec::new();
            for mut patient in patients {
                let look = match known.get(patient.id.as_str()) {
                    Some(alloc) => {
                        let id = &alloc.id;
                        patient.look(self.rules, alloc, async || self.checks_pass(id).await).await
                    }
                    None => Look::Gone,
                };
                match look {
                    Look::Well => say(&patient, deed),
                    Look::Gone => say(&patient, "was stopped meanwhile"),
                    Look::Bad(why) => failures.push(format!("{}: {why}", said(&patient))),
                    Look::NotYet => waiting.push(patient),
                }
            }
            patients = waiting;
            if !patients.is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(failures)
    }

    /// Whether the checks of an allocation that count for its health pass. An agent that cannot be asked now is asked
    /// again.
    async fn checks_pass(&self, id: &str) -> bool {
        let checks = self.remote.allocation_checks(id).await;
        checks.is_ok_and(|checks| {
            checks.values().filter(|check| check.mode == "healthiness").all(|check| check.status == "success")
        })
    }
}

/// Who takes the place of an allocation that was stopped at an index.
fn successor<'a>(known: &'a [AllocationStub], of: &Patient, index: u64) -> Option<&'a AllocationStub> {
    let next = known.iter().find(|alloc| alloc.id == of.id).map(|alloc| alloc.next_allocation.as_str());
    let next = next.filter(|id| !id.is_empty());
    known.iter().find(|alloc| match next {
        Some(next) => alloc.id == next,
        None => alloc.name == of.name && alloc.create_index > index && alloc.desired_status == "run",
    })
}

fn said(patient: &Patient) -> String {
    format!("{} {}", short_id(&patient.id), clean(&patient.name))
}

fn say(patient: &Patient, what: &str) {
    tell(&format!("{} {what}", said(patient)));
}
