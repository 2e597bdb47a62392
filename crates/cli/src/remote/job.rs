//! Requests about jobs.

use berth_api::http::{
    AllocationStub, EvaluateOptions, Evaluation, JobDeregistered, JobDispatch, JobDispatched, JobEvaluate,
    JobExplanation, JobPlan, JobPlanned, JobRegister, JobRegistered, JobRevert, JobScale, JobScaleStatus,
    JobStub, JobSubmissionRead, JobSummary, JobTag, JobVersionChanged, JobVersions, PeriodicForced, Target,
};
use berth_model::job::Job;
use serde_json::{Value, json};

use super::Remote;
use crate::failure::{Exit, Failure};

/// What versions are compared with.
#[derive(Debug, Clone, Copy)]
pub enum DiffAgainst<'a> {
    /// Versions come without their differences.
    None,
    /// Each with the one before it.
    Before,
    /// Each with the version of this tag.
    Tag(&'a str),
    /// Each with this version.
    Version(u64),
}

/// The condition that a job is not there yet.
pub fn only_if_new() -> JobRegister {
    JobRegister { enforce_index: true, ..JobRegister::default() }
}

/// Jobs that are read to find the newest among them.
const CHILDREN_READ: usize = 1_000;

impl Remote {
    /// Registers a job; with an index only if the job was last registered there, 0 for never.
    pub async fn register(&self, job: &Job, conditions: JobRegister) -> Result<JobRegistered, Failure> {
        let body = JobRegister { job: berth_jobfile::to_json(job), ..conditions };
        self.put(&self.target("/v1/jobs"), &body).await
    }

    /// What a version of a job was made of, the newest if none is named; none where it was not submitted.
    pub async fn submission(
        &self,
        job: &str,
        version: Option<u64>,
    ) -> Result<Option<JobSubmissionRead>, Failure> {
        let target = self.job_target(job, "submission");
        let target = version.into_iter().fold(target, |target, version| target.param("version", version));
        match self.get(&target).await {
            Ok(submission) => Ok(Some(submission)),
            Err(failure) if failure.exit() == Exit::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// What registering a job would do, with the difference to the job as it is if that is asked for.
    pub async fn plan(&self, job: &Job, diff: bool, policy_override: bool) -> Result<JobPlanned, Failure> {
        let body = JobPlan { job: berth_jobfile::to_json(job), diff, policy_override };
        self.put(&self.job_target(&job.key.id, "plan"), &body).await
    }

    /// Why a job waits, and with a node's whole id what stands in the way there.
    pub async fn explain(&self, job: &str, node: Option<&str>) -> Result<JobExplanation, Failure> {
        let target = self.job_target(job, "explain");
        let target = node.into_iter().fold(target, |target, node| target.param("node", node));
        self.get(&target).await
    }

    /// Stops a job, and deletes it with `purge`.
    pub async fn deregister(
        &self,
        job: &str,
        purge: bool,
        eval_priority: Option<u8>,
    ) -> Result<JobDeregistered, Failure> {
        let target = self.target("/v1/job").part(job).param("purge", purge);
        let target =
            eval_priority.into_iter().fold(target, |target, request| target.param("eval_priority", request));
        self.delete(&target).await
    }

    /// Makes an earlier version of a job the newest one, or the newest one again that was stopped; with `only_if` only
    /// while that one is the newest.
    pub async fn revert(
        &self,
        job: &str,
        version: u64,
        only_if: Option<u64>,
    ) -> Result<JobRegistered, Failure> {
        let body = JobRevert { job_id: job.to_owned(), job_version: version, enforce_prior_version: only_if };
        self.put(&self.job_target(job, "revert"), &body).await
    }

    /// Changes how many allocations a group wants.
    pub async fn scale(
        &self,
        job: &str,
        group: &str,
        count: u32,
        message: &str,
    ) -> Result<JobRegistered, Failure> {
        let body = JobScale {
            count: Some(count.into()),
            target: [("Group".to_owned(), group.to_owned())].into(),
            message: message.to_owned(),
            ..JobScale::default()
        };
        self.put(&self.job_target(job, "scale"), &body).await
    }

    /// How many allocations each group wants and has.
    pub async fn scale_status(&self, job: &str) -> Result<JobScaleStatus, Failure> {
        self.get(&self.job_target(job, "scale")).await
    }

    /// Runs a parameterized job with values for its parameters.
    pub async fn dispatch(
        &self,
        job: &str,
        dispatch: &JobDispatch,
        token: Option<&str>,
    ) -> Result<JobDispatched, Failure> {
        let target = self.job_target(job, "dispatch");
        let target = token.into_iter().fold(target, |target, token| target.param("idempotency_token", token));
        self.put(&target, dispatch).await
    }

    /// Runs a periodic job now.
    pub async fn force(&self, job: &str) -> Result<PeriodicForced, Failure> {
        self.put(&self.target("/v1/job").part(job).part("periodic").part("force"), &json!({})).await
    }

    /// Evaluates a job; `force_reschedule` replaces what of it failed at once.
    pub async fn evaluate(&self, job: &str, force_reschedule: bool) -> Result<JobRegistered, Failure> {
        let body = JobEvaluate { job_id: job.to_owned(), eval_options: EvaluateOptions { force_reschedule } };
        self.put(&self.job_target(job, "evaluate"), &body).await
    }

    /// Gives a version of a job a tag, the newest one when none is named.
    pub async fn tag_version(
        &self,
        job: &str,
        tag: &str,
        version: Option<u64>,
        description: &str,
    ) -> Result<JobVersionChanged, Failure> {
        let body = JobTag { version, description: description.to_owned() };
        self.put(&self.tag_target(job, tag), &body).await
    }

    /// Takes a tag away.
    pub async fn untag_version(&self, job: &str, tag: &str) -> Result<JobVersionChanged, Failure> {
        self.delete(&self.tag_target(job, tag)).await
    }

    fn tag_target(&self, job: &str, tag: &str) -> Target {
        self.job_target(job, "versions").part(tag).part("tag")
    }

    /// The versions of a job that are kept, newest first, and how they differ if that is asked for.
    pub async fn job_versions(&self, job: &str, diffs: DiffAgainst<'_>) -> Result<JobVersions, Failure> {
        let target = self.job_target(job, "versions");
        self.get(&match diffs {
            DiffAgainst::None => target,
            DiffAgainst::Before => target.param("diffs", true),
            DiffAgainst::Tag(tag) => target.param("diffs", true).param("diff_tag", tag),
            DiffAgainst::Version(version) => target.param("diffs", true).param("diff_version", version),
        })
        .await
    }
    pub async fn jobs(&self) -> Result<Vec<JobStub>, Failure> {
        // How many of them run changes without the list's index, or each allocation of the cluster would wake its readers.
        if let Some(read_targets) = &self.read_targets {
            read_targets.record_unindexed();
        }
        let jobs: Vec<JobStub> = self.get(&self.list(self.target("/v1/jobs"))).await?;
        if jobs.is_empty() {
            self.check_namespace().await?;
        }
        Ok(jobs)
    }

    /// The newest of the jobs that a periodic or parameterized job made, the newest first. Ids hold the time unless they were
    /// dispatched with a token or a prefix: of more than so many of those, some that are newer may be missed.
    pub async fn newest_children(&self, parent: &str, most: usize) -> Result<Vec<JobStub>, Failure> {
        let of = self.target("/v1/jobs").param("prefix", format!("{parent}/"));
        let of = of.param("reverse", true).param("per_page", CHILDREN_READ);
        let mut jobs: Vec<JobStub> = self.get(&of).await?;
        jobs.retain(|job| job.parent_id == parent);
        jobs.sort_by_key(|job| std::cmp::Reverse(job.create_index));
        jobs.truncate(most);
        Ok(jobs)
    }

    /// A job as its owner wrote it, and what the server knows of it.
    pub async fn job(&self, id: &str) -> Result<Value, Failure> {
        self.get(&self.target("/v1/job").part(id)).await
    }

    /// How many of a job's allocations are in which state.
    pub async fn job_summary(&self, id: &str) -> Result<JobSummary, Failure> {
        self.get(&self.job_target(id, "summary")).await
    }

    /// A job's allocations.
    pub async fn job_allocations(&self, id: &str) -> Result<Vec<AllocationStub>, Failure> {
        self.get(&self.list(self.job_target(id, "allocations"))).await
    }

    /// The same, and what they hold.
    pub async fn job_allocations_with_resources(&self, id: &str) -> Result<Vec<AllocationStub>, Failure> {
        self.get(&self.list(self.job_target(id, "allocations")).param("resources", "true")).await
    }

    /// A job's evaluations that are still retained.
    pub async fn job_evaluations(&self, id: &str) -> Result<Vec<Evaluation>, Failure> {
        self.get(&self.job_target(id, "evaluations")).await
    }

    fn job_target(&self, job: &str, part: &str) -> Target {
        self.target("/v1/job").part(job).part(part)
    }
}
