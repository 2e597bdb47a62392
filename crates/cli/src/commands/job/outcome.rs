//! Follows a change to a job until its allocations run, and reports the outcome.

use std::time::Instant;

use berth_api::http::{Deployment, Time};
use clap::Args;
use serde_json::Value;

use super::launches::next_launch_lines;
use crate::{
    commands::deployment::Evidence,
    failure::{Exit, Failure},
    follow::{JobChange, Progress, follow},
    output::{self, clean, count, funnels, no_node, short_id},
    remote::Remote,
};

/// Whether to follow a change until its allocations run.
#[derive(Debug, Clone, Copy, Args)]
pub struct DetachArgs {
    /// Do not wait; print the evaluation's id and exit
    #[arg(long)]
    detach: bool,
    /// Print full ids
    #[arg(long)]
    verbose: bool,
}

/// A change that the server has accepted.
pub struct AcceptedChange<'a> {
    /// The job's id.
    pub job: &'a str,
    /// What happened to it, as `registered`.
    pub action: &'a str,
    /// The evaluation that acts on it; empty for none.
    pub eval: &'a str,
    /// All consequences come after this index.
    pub index: u64,
    /// When it was requested.
    pub since: Instant,
    /// Its allocations end by themselves: their ends are waited for.
    pub ends: bool,
}

impl DetachArgs {
    /// Follows the change until its allocations run, unless it is not to be followed.
    pub async fn or_follow(self, remote: &Remote, accepted: &AcceptedChange<'_>) -> Result<(), Failure> {
        let job = clean(accepted.job);
        if accepted.eval.is_empty() {
            output::eprint_line(&format!("job {job} is {}; nothing is evaluated now", accepted.action));
            print_next_launch(remote, accepted.job).await;
            return Ok(());
        }
        if self.detach {
            return Ok(output::print(&format!("{}\n", accepted.eval))?);
        }
        let eval = output::id(accepted.eval, self.verbose);
        output::eprint_line(&format!("job {job} is {}, evaluation {eval}", accepted.action));
        let change = JobChange { job: accepted.job, index: accepted.index };
        let goal = if accepted.ends { Progress::to_the_end } else { Progress::starting };
        let progress = follow(remote, &change, goal(accepted.eval), accepted.since).await?;
        if let Some(deployment) = progress.deployment()
            && let Some(evidence) = Evidence::of(remote, deployment).await
        {
            evidence.report_lines().iter().for_each(|line| output::eprint_line(line));
        }
        if accepted.ends
            && progress.outcome() != Some("complete")
            && let Some((id, _)) = progress.failed().next()
        {
            Evidence::log_of(remote, id).await.iter().for_each(|line| output::eprint_line(line));
        }
        if progress.allocs().is_empty() && progress.unplaced().is_none() {
            print_why_nothing_started(remote, accepted.job).await;
        }
        judge(&job, &progress)
    }
}

/// Prints why nothing was started where no evaluation does: of a job that only makes others when it does, of one that has failed
/// when it is tried again, of a system job for which groups there is no node. The change stands, whether or not the server
/// says more of it.
async fn print_why_nothing_started(remote: &Remote, job: &str) {
    let Ok(found) = remote.job(job).await else { return };
    let launches = launches(&found);
    launches.iter().for_each(|line| output::eprint_line(line));
    if !launches.is_empty() {
        return;
    }
    let Ok(explained) = remote.explain(job, None).await else { return };
    if explained.retry_at != Time::default() {
        let (at, job) = (output::rfc3339(explained.retry_at.0), clean(job));
        output::eprint_line(&format!("failed allocations are replaced from {at} on"));
        output::eprint_line(&format!("to replace them now: berth job eval -force-reschedule {job}"));
    }
    if !is_per_node(&found) {
        return;
    }
    for group in explained.groups.iter().filter(|group| group.missing == 0) {
        let Some(failure) = &group.failure else { continue };
        no_node(&group.name, failure).lines().for_each(output::eprint_line);
    }
}

/// Prints when a job that only creates other jobs will create one, or how. The change stands, whether or not the job may be read.
async fn print_next_launch(remote: &Remote, id: &str) {
    if let Ok(job) = remote.job(id).await {
        launches(&job).iter().for_each(|line| output::eprint_line(line));
    }
}

/// What comes next of a job, as the API reports it, that only makes other jobs.
fn launches(job: &Value) -> Vec<String> {
    let next = job["PeriodicLaunch"]["Next"].as_u64().filter(|next| *next > 0).map(output::rfc3339);
    next_launch_lines(job, next.as_deref())
}

/// Whether a job, as the API reports it, runs one allocation on each node instead of a count.
fn is_per_node(job: &Value) -> bool {
    matches!(job["Type"].as_str(), Some("system" | "sysbatch"))
}

/// Whether the allocations of a job, as the API reports it, end by themselves. One that only makes other jobs never ends.
pub fn ends(job: &Value) -> bool {
    let makes_jobs = !job["Periodic"].is_null() || !job["ParameterizedJob"].is_null();
    matches!(job["Type"].as_str(), Some("batch" | "sysbatch")) && !makes_jobs
}

/// The same of a job that has been changed: the change stands, whether or not the job may be read.
pub async fn ends_of(remote: &Remote, id: &str) -> bool {
    remote.job(id).await.is_ok_and(|job| ends(&job))
}

/// What came of its deployment.
fn judge_deployment(job: &str, deployment: &Deployment, awaits_promotion: bool) -> Result<(), Failure> {
    let id = short_id(&deployment.id);
    if awaits_promotion {
        output::eprint_line(&format!("deployment {id} waits for its promotion"));
        output::eprint_line(&format!("next: berth job promote {job}, or berth deployment fail {id}"));
        return Ok(());
    }
    match deployment.status.as_str() {
        "successful" => {
            output::eprint_line(&format!("deployment {id} is successful"));
            Ok(())
        }
        "paused" => {
            output::eprint_line(&format!("deployment {id} is paused; next: berth deployment resume {id}"));
            Ok(())
        }
        status => {
            let message = format!("deployment {id} is {status}: {}", deployment.status_description);
            let help = format!("berth deployment status {id}");
            Err(Failure::new(Exit::Failed, clean(&message)).help(help))
        }
    }
}

/// What came of it, and what to do next.
fn judge(job: &str, progress: &Progress) -> Result<(), Failure> {
    if let Some(failures) = progress.unplaced() {
        return Err(Failure::report(Exit::Unplaced, &format!("error: {}", funnels(failures))).help(format!(
            "it is placed as soon as there is room; `berth explain {job}` says what would place it now"
        )));
    }
    if let Some(eval) = progress.eval().filter(|eval| eval.status == "failed" || eval.status == "canceled") {
        let message =
            format!("evaluation {} is {}: {}", short_id(&eval.id), eval.status, eval.status_description);
        return Err(Failure::new(Exit::Failed, clean(&message)).help(format!("berth job status {job}")));
    }
    if let Some(deployment) = progress.deployment() {
        return judge_deployment(job, deployment, progress.awaits_promotion());
    }
    if progress.outcome() == Some("complete") {
        output::eprint_line(&format!("job {job} is complete"));
        return Ok(());
    }
    if progress.was_stopped() {
        let message = format!("job {job} was stopped before it was done");
        return Err(Failure::new(Exit::Failed, message).help(format!("berth job status {job}")));
    }
    let failing: Vec<_> = progress.failing().collect();
    if let [(id, alloc), ..] = failing[..] {
        let (many, id) = (count(failing.len(), "allocation"), short_id(id));
        let message = format!("tasks of {many} fail again and again: {}: {}", alloc.name, alloc.trouble);
        return Err(Failure::new(Exit::Failed, clean(&message))
            .help(format!("they go on being started: `berth alloc logs {id}` shows what they print, `berth job stop {job}` ends it")));
    }
    let failed: Vec<_> = progress.failed().collect();
    if let [(id, alloc), ..] = failed[..] {
        let message =
            format!("{} failed: {}: {}", count(failed.len(), "allocation"), alloc.name, alloc.trouble);
        return Err(
            Failure::new(Exit::Failed, clean(&message)).help(format!("berth alloc status {}", short_id(id)))
        );
    }
    if let Some("failed") = progress.outcome() {
        let message = format!("job {job} failed");
        return Err(Failure::new(Exit::Failed, message).help(format!("berth job status {job}")));
    }
    if let Some(id) = progress.allocs().keys().next() {
        output::eprint_line(&format!("next: berth alloc logs {}", short_id(id)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_jobs_of_each_node_lack_nodes_without_an_evaluation_that_says_so() {
        let of = |kind: &str| is_per_node(&json!({ "Type": kind }));
        assert!(of("system") && of("sysbatch"));
        assert!(!of("service") && !of("batch") && !is_per_node(&json!({})));
    }
}
