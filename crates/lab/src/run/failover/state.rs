//! The jobs as clients read them: sums over all of them, and which allocations of each run.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::run::{RunError, Target, client::JobIds, http::Connection};

/// Jobs that are named of those whose allocations are not what they were, for people.
const NAMED_MAX: usize = 5;

/// The allocations of all jobs of a kind, counted by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::run) struct AllocCounts {
    pub jobs: u64,
    pub running: u64,
    pub complete: u64,
    /// Declared lost, or unknown while their node is away.
    pub lost: u64,
    /// Waiting, starting or failed.
    pub others: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct JobRow {
    job_summary: SummaryRow,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SummaryRow {
    summary: BTreeMap<String, GroupCounts>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GroupCounts {
    queued: u64,
    complete: u64,
    failed: u64,
    running: u64,
    starting: u64,
    lost: u64,
    unknown: u64,
}

/// Reads the sums of all jobs of these ids.
pub(in crate::run) async fn sums(connection: &mut Connection, ids: JobIds) -> Result<AllocCounts, RunError> {
    let jobs: Vec<JobRow> = connection.list(&format!("/v1/jobs?prefix={}&", ids.prefix())).await?;
    Ok(add_up(&jobs))
}

fn add_up(jobs: &[JobRow]) -> AllocCounts {
    let mut sums = AllocCounts { jobs: jobs.len() as u64, ..AllocCounts::default() };
    for group in jobs.iter().flat_map(|job| job.job_summary.summary.values()) {
        sums.running += group.running;
        sums.complete += group.complete;
        sums.lost += group.lost + group.unknown;
        sums.others += group.queued + group.starting + group.failed;
    }
    sums
}

/// Which allocations of a job run: how many, and the sum of their ids, in which any other set shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct JobRuns {
    count: u32,
    ids: u128,
    /// Allocations that are desired to run and do not.
    not_running: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AllocRow {
    #[serde(rename = "ID")]
    id: String,
    desired_status: String,
    client_status: String,
}

impl JobRuns {
    fn of(allocs: &[AllocRow]) -> Self {
        let mut runs = Self::default();
        for alloc in allocs.iter().filter(|alloc| alloc.desired_status == "run") {
            if alloc.client_status == "running" {
                let digits: String = alloc.id.chars().filter(|c| *c != '-').collect();
                runs.count += 1;
                runs.ids = runs.ids.wrapping_add(u128::from_str_radix(&digits, 16).unwrap_or_default());
            } else {
                runs.not_running += 1;
            }
        }
        runs
    }
}

/// Which allocations run, job by job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunningAllocs(Vec<JobRuns>);

impl RunningAllocs {
    /// Reads those of so many jobs.
    pub async fn read(target: &Target, ids: JobIds, jobs: u32) -> Result<Self, RunError> {
        let mut connection = Connection::open(target).await?;
        let mut all = Vec::with_capacity(jobs as usize);
        for number in 0..jobs {
            let path = format!("/v1/job/{}/allocations", ids.id(number));
            let (allocs, _) = connection.get::<Vec<AllocRow>>(&path).await?;
            all.push(JobRuns::of(&allocs));
        }
        Ok(Self(all))
    }

    /// How they differ from what they were before, for people; none where they do not.
    pub fn unlike(&self, before: &Self, ids: JobIds) -> Option<String> {
        let pairs = (0..).zip(self.0.iter().zip(&before.0)).filter(|(_, (now, before))| now != before);
        let differences: Vec<String> = pairs
            .map(|(number, (now, before))| {
                let others = if now.count == before.count { ", and others" } else { "" };
                let JobRuns { count, not_running, .. } = now;
                format!(
                    "job {} runs {count} of {}{others}, {not_running} do not",
                    ids.id(number),
                    before.count
                )
            })
            .collect();
        let some = differences.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
        (!differences.is_empty()).then(|| {
            format!("the allocations of {} jobs are not those that ran before: {some}", differences.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(id: &str, client_status: &str) -> AllocRow {
        let [id, desired_status, client_status] = [id, "run", client_status].map(str::to_owned);
        AllocRow { id, desired_status, client_status }
    }

    #[test]
    fn any_other_set_of_allocations_shows() {
        let ids = JobIds::of(1);
        let running = |allocs: &[(&str, &str)]| {
            let allocs: Vec<_> = allocs.iter().map(|(id, status)| alloc(id, status)).collect();
            RunningAllocs(vec![JobRuns::of(&allocs)])
        };
        let before = running(&[("0a-1", "running"), ("0b-2", "running")]);
        assert_eq!(running(&[("0b-2", "running"), ("0a-1", "running")]).unlike(&before, ids), None);
        let other = running(&[("0a-1", "running"), ("0c-2", "running")]).unlike(&before, ids).unwrap();
        assert!(other.contains("job lab-00000001-0 runs 2 of 2, and others, 0 do not"), "{other}");
        let lost = running(&[("0a-1", "running"), ("0b-2", "lost")]).unlike(&before, ids).unwrap();
        assert!(lost.contains("runs 1 of 2, 1 do not"), "{lost}");
    }

    #[test]
    fn sums_are_of_all_groups() {
        let job = r#"{"ID": "a", "JobSummary": {"Summary": {
            "one": {"Queued": 1, "Complete": 2, "Failed": 3, "Running": 4, "Starting": 5, "Lost": 6, "Unknown": 7},
            "two": {"Queued": 0, "Complete": 1, "Failed": 0, "Running": 1, "Starting": 0, "Lost": 0, "Unknown": 0}}}}"#;
        let jobs: Vec<JobRow> = serde_json::from_str(&format!("[{job}]")).unwrap();
        assert_eq!(add_up(&jobs), AllocCounts { jobs: 1, running: 5, complete: 3, lost: 13, others: 9 });
    }
}
