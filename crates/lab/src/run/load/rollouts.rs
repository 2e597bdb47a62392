//! What the client has seen of the deployments of its jobs, and when.

use std::collections::BTreeSet;

use crate::run::client::{DeploymentEvent, JobIds};

/// The deployments that have ended well, of jobs that have one each.
#[derive(Debug)]
pub(super) struct Rollouts {
    ids: JobIds,
    /// Numbers of their jobs.
    successful: BTreeSet<u32>,
    /// When the last of them was seen to be successful: seconds since the first request.
    done_s: f64,
}

impl Rollouts {
    /// Of the jobs of that run.
    pub fn new(ids: JobIds) -> Self {
        Self { ids, successful: BTreeSet::new(), done_s: f64::NAN }
    }

    /// The client has seen a deployment.
    ///
    /// # Errors
    /// When one has failed: which, and why.
    pub fn record(&mut self, at_s: f64, event: &DeploymentEvent) -> Result<(), String> {
        let Some(job) = self.ids.number(&event.job) else { return Ok(()) };
        match event.status.as_str() {
            "successful" => {
                if self.successful.insert(job) {
                    self.done_s = at_s;
                }
                Ok(())
            }
            "failed" | "cancelled" => {
                Err(format!("the deployment of job {} is {}: {}", event.job, event.status, event.description))
            }
            _ => Ok(()),
        }
    }

    /// How many have ended well.
    pub fn successful(&self) -> u64 {
        self.successful.len() as u64
    }

    /// When the last of them did; NaN before the first.
    pub fn done_s(&self) -> f64 {
        self.done_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(job: String, status: &str) -> DeploymentEvent {
        DeploymentEvent { job, status: status.to_owned(), description: "why".to_owned() }
    }

    #[test]
    fn each_job_counts_once_and_that_of_others_does_not() {
        let ids = JobIds::new();
        let mut rollouts = Rollouts::new(ids);
        for (at_s, job, status) in [
            (0.1, ids.id(0), "running"),
            (0.2, ids.id(0), "successful"),
            (0.3, ids.id(1), "successful"),
            (0.4, ids.id(0), "successful"),
            (0.5, "web".to_owned(), "failed"),
        ] {
            rollouts.record(at_s, &event(job, status)).unwrap();
        }
        assert_eq!((rollouts.successful(), rollouts.done_s()), (2, 0.3));
        let failed = rollouts.record(0.6, &event(ids.id(2), "failed")).unwrap_err();
        assert!(failed.ends_with("is failed: why"), "{failed}");
    }
}
