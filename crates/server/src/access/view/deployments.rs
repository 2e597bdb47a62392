//! Deployments.

use std::{ops::RangeBounds, sync::Arc};

use berth_model::{DeploymentId, Index, JobKey, deployment::Deployment, eval::Eval};

use super::CallerView;
use crate::events::DeploymentJob;

impl CallerView {
    /// A deployment.
    pub fn deployment(&self, id: DeploymentId) -> Option<&Arc<Deployment>> {
        self.view.store.deployments().get(id).filter(|of| self.sees_deployment(of))
    }

    /// What is reported of a deployment's job with it.
    pub fn deployment_job(&self, of: &Deployment) -> DeploymentJob {
        self.view.deployment_job(of)
    }

    /// The deployments whose ids are in a range, by id.
    pub fn deployments_by_id(
        &self,
        ids: impl RangeBounds<DeploymentId>,
    ) -> impl DoubleEndedIterator<Item = &Deployment> {
        self.deployments_of_ids(ids).filter_map(|(_, of)| of)
    }

    /// The deployments that were made in a range of indexes, oldest first; of one index by id. None for those that the caller may not
    /// see: a list looks at so many rows at a time, whether or not they are in it.
    pub fn deployments_by_age(
        &self,
        ages: impl RangeBounds<(Index, DeploymentId)>,
    ) -> impl DoubleEndedIterator<Item = ((Index, DeploymentId), Option<&Deployment>)> {
        let deployments = self.view.store.deployments().by_age(ages);
        deployments.map(|of| ((of.create_index, of.id), self.visible_deployment(of)))
    }

    /// The same for those whose ids are in a range, by id.
    pub fn deployments_of_ids(
        &self,
        ids: impl RangeBounds<DeploymentId>,
    ) -> impl DoubleEndedIterator<Item = (DeploymentId, Option<&Deployment>)> {
        let deployments = self.view.store.deployments().range(ids);
        deployments.map(|of| (of.id, self.visible_deployment(of)))
    }

    /// A job's deployments, oldest first.
    pub fn deployments_of(&self, job: &JobKey) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.view.store.deployments().of_job(job).filter(|of| self.sees_deployment(of))
    }

    /// The deployment that an evaluation reports, which is of the same job.
    pub fn deployment_of_eval(&self, eval: &Eval) -> Option<DeploymentId> {
        self.view.deployment_of_eval(eval)
    }

    /// Where any deployment last changed.
    pub fn deployments_index(&self) -> Index {
        self.view.store.deployments().modify_index()
    }

    fn visible_deployment<'v>(&self, of: &'v Arc<Deployment>) -> Option<&'v Deployment> {
        Some(&**of).filter(|of| self.sees_deployment(of))
    }

    fn sees_deployment(&self, of: &Deployment) -> bool {
        self.access.reaches(&of.job.namespace)
    }
}
