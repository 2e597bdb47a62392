//! The state after all writes have ceased: everything must be as its job desires, on the nodes and in the server's
//! lists.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::Deserialize;
use tokio::time::sleep;

use super::ledger::{Ledger, SharedLedger};
use crate::run::{RunError, Target, http::Connection};

/// Until everything must be as it should.
const SETTLED_MAX: Duration = Duration::from_secs(60);
const POLL_EVERY: Duration = Duration::from_millis(500);
/// How many wrong findings of each kind are listed for people.
const WRONG_SAMPLES_MAX: usize = 5;

/// What is not as it should be.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// Allocations that differ from the desired state, one by one, for people.
    pub allocs: Vec<String>,
    /// Evaluations that are neither done nor blocked.
    pub evals: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SettlingAlloc {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "JobID")]
    job: String,
    desired_status: String,
    client_status: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EvalRow {
    status: String,
}

/// Waits until nothing is stuck, for as long as that may take, and reports what is.
pub(super) async fn settle(target: &Target, ledger: &SharedLedger) -> Result<Unsettled, RunError> {
    let started_at = Instant::now();
    loop {
        let stuck = check_once(target, ledger).await?;
        if stuck.allocs.is_empty() && stuck.evals == 0 || started_at.elapsed() > SETTLED_MAX {
            return Ok(stuck);
        }
        sleep(POLL_EVERY).await;
    }
}

async fn check_once(target: &Target, ledger: &SharedLedger) -> Result<Unsettled, RunError> {
    let mut connection = Connection::open(target).await?;
    let evals: Vec<EvalRow> = connection.list("/v1/evaluations?").await?;
    let listed: Vec<SettlingAlloc> = connection.list("/v1/allocations?task_states=false&").await?;
    let entries = ledger.lock();
    let mut allocs = mismatches(&entries);
    allocs.extend(unlike_listed(&entries, &listed));
    Ok(Unsettled { allocs, evals: evals.iter().filter(|eval| eval.status == "pending").count() })
}

/// Where the nodes run more or less of a job than desired, or another revision.
fn mismatches(entries: &Ledger) -> Vec<String> {
    let mut running = entries.tasks.by_revision();
    let mut wrong = Vec::new();
    for (job, revision, count) in entries.job_states.live() {
        let runs = running.remove(&(job, revision)).unwrap_or_default();
        let difference =
            || format!("nodes run {runs} of {count} allocations of job {job}, revision {revision}");
        wrong.extend((0..count.abs_diff(runs)).map(|_| difference()));
    }
    let unwanted = |((job, revision), runs): ((&str, u64), u32)| {
        let difference = format!("nodes run job {job}, revision {revision}, which is not desired");
        (0..runs).map(move |_| difference.clone())
    };
    wrong.extend(running.into_iter().flat_map(unwanted));
    wrong
}

/// Where the server's list and the nodes differ about what runs.
fn unlike_listed(entries: &Ledger, listed: &[SettlingAlloc]) -> Vec<String> {
    let live = listed.iter().filter(|alloc| ["pending", "running"].contains(&alloc.client_status.as_str()));
    let mut running: BTreeMap<&str, &str> =
        entries.tasks.running().iter().map(|(id, runs)| (id.as_str(), runs.job.as_str())).collect();
    let mut wrong = Vec::new();
    for SettlingAlloc { id, job, desired_status, client_status } in live {
        let runs = running.remove(id.as_str()).is_some();
        if !runs || desired_status != "run" || client_status != "running" {
            let runs = if runs { "runs" } else { "does not run" };
            wrong.push(format!(
                "{id} of job {job} {runs}, desired: {desired_status}, listed as {client_status}"
            ));
        }
    }
    wrong.extend(running.into_iter().map(|(id, job)| format!("{id} of job {job} runs, and is not listed")));
    wrong
}

impl Unsettled {
    /// For people; none when nothing is stuck.
    pub fn failure(&self) -> Option<String> {
        let (allocs, evals) = (self.allocs.len(), self.evals);
        let some = self.allocs.iter().take(WRONG_SAMPLES_MAX).cloned().collect::<Vec<_>>().join("; ");
        (allocs + evals > 0)
            .then(|| format!("{allocs} allocations and {evals} evaluations are stuck: {some}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        nodes::{TaskChange, TaskEntry},
        run::restart::job_states::{JobState, REVISION},
    };

    fn entries(runs: &[(&str, &str, u64)]) -> Ledger {
        let mut entries = Ledger::default();
        entries.job_states.begin("web", 1, JobState::Live(2));
        for (alloc, job, revision) in runs {
            let meta = BTreeMap::from([(REVISION.to_owned(), revision.to_string())]);
            let (alloc, job) = ((*alloc).to_owned(), (*job).to_owned());
            let entry = TaskEntry { change: TaskChange::Started, node: 0, alloc, job, meta };
            entries.tasks.record(entry, &entries.job_states);
        }
        entries
    }

    fn listed(id: &str, desired_status: &str, client_status: &str) -> SettlingAlloc {
        let [id, job, desired_status, client_status] =
            [id, "web", desired_status, client_status].map(str::to_owned);
        SettlingAlloc { id, job, desired_status, client_status }
    }

    #[test]
    fn nothing_is_stuck_where_nodes_run_what_jobs_want() {
        let entries = entries(&[("a", "web", 2)]);
        assert!(mismatches(&entries).is_empty());
        let ended = listed("b", "stop", "complete");
        assert!(unlike_listed(&entries, &[listed("a", "run", "running"), ended]).is_empty());
        assert_eq!(Unsettled::default().failure(), None);
    }

    #[test]
    fn what_is_missing_outdated_or_left_over_is_stuck() {
        let outdated = entries(&[("a", "web", 1), ("b", "gone", 4)]);
        assert_eq!(
            mismatches(&outdated),
            [
                "nodes run 0 of 1 allocations of job web, revision 2",
                "nodes run job gone, revision 4, which is not desired",
                "nodes run job web, revision 1, which is not desired",
            ]
        );
        let wrong =
            unlike_listed(&outdated, &[listed("a", "stop", "running"), listed("c", "run", "pending")]);
        assert_eq!(
            wrong,
            [
                "a of job web runs, desired: stop, listed as running",
                "c of job web does not run, desired: run, listed as pending",
                "b of job gone runs, and is not listed",
            ]
        );
    }
}
