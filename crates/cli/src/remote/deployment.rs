//! Requests about deployments.

use berth_api::http::{AllocationStub, Deployment, DeploymentChanged, DeploymentPause, DeploymentPromote};
use serde_json::json;

use super::Remote;
use crate::failure::Failure;

impl Remote {
    pub async fn deployments(&self) -> Result<Vec<Deployment>, Failure> {
        self.get(&self.list(self.target("/v1/deployments"))).await
    }

    /// A job's deployments, newest first.
    pub async fn job_deployments(&self, job: &str) -> Result<Vec<Deployment>, Failure> {
        self.get(&self.list(self.target("/v1/job").part(job).part("deployments"))).await
    }

    /// A job's last deployment, if it has had one.
    pub async fn job_deployment(&self, job: &str) -> Result<Option<Deployment>, Failure> {
        self.get(&self.target("/v1/job").part(job).part("deployment")).await
    }

    /// A deployment by its whole id.
    pub async fn deployment(&self, id: &str) -> Result<Deployment, Failure> {
        self.get(&self.target("/v1/deployment").part(id)).await
    }

    /// What is part of a deployment.
    pub async fn deployment_allocations(&self, id: &str) -> Result<Vec<AllocationStub>, Failure> {
        self.get(&self.target("/v1/deployment/allocations").part(id)).await
    }

    /// Lets canaries take the place of the old allocations, of these groups or of all.
    pub async fn promote(&self, id: &str, groups: &[String]) -> Result<DeploymentChanged, Failure> {
        let body = DeploymentPromote {
            deployment_id: id.to_owned(),
            all: groups.is_empty(),
            groups: (!groups.is_empty()).then(|| groups.to_vec()),
        };
        self.put(&self.target("/v1/deployment/promote").part(id), &body).await
    }

    /// Gives a deployment up.
    pub async fn fail_deployment(&self, id: &str) -> Result<DeploymentChanged, Failure> {
        self.put(&self.target("/v1/deployment/fail").part(id), &json!({})).await
    }

    /// Holds a deployment, or lets it go on.
    pub async fn pause_deployment(&self, id: &str, pause: bool) -> Result<DeploymentChanged, Failure> {
        let body = DeploymentPause { deployment_id: id.to_owned(), pause };
        self.put(&self.target("/v1/deployment/pause").part(id), &body).await
    }

    /// Lets a deployment go on that waits for other regions.
    pub async fn unblock_deployment(&self, id: &str) -> Result<DeploymentChanged, Failure> {
        self.put(&self.target("/v1/deployment/unblock").part(id), &json!({})).await
    }
}
