//! Requests about evaluations.

use berth_api::http::{AllocationStub, Evaluation, PlanTrace};

use super::Remote;
use crate::failure::{Exit, Failure};

impl Remote {
    /// Evaluations, of one job or one status where they are given.
    pub async fn evaluations(
        &self,
        job: Option<&str>,
        status: Option<&str>,
    ) -> Result<Vec<Evaluation>, Failure> {
        let target = self.list(self.target("/v1/evaluations"));
        let target = job.into_iter().fold(target, |target, job| target.param("job", job));
        let target = status.into_iter().fold(target, |target, status| target.param("status", status));
        self.get(&target).await
    }

    /// An evaluation by its whole id, with its relatives.
    pub async fn evaluation(&self, id: &str) -> Result<Evaluation, Failure> {
        self.get(&self.target("/v1/evaluation").part(id).param("related", true)).await
    }

    /// How an evaluation was answered; nothing where a server does not report it.
    pub async fn evaluation_plans(&self, id: &str) -> Result<Vec<PlanTrace>, Failure> {
        let plans = self.get(&self.target("/v1/evaluation").part(id).part("plans")).await;
        match plans {
            Err(failure) if failure.exit() == Exit::NotFound => Ok(Vec::new()),
            plans => plans,
        }
    }

    /// What an evaluation placed.
    pub async fn evaluation_allocations(&self, id: &str) -> Result<Vec<AllocationStub>, Failure> {
        self.get(&self.target("/v1/evaluation").part(id).part("allocations")).await
    }
}
