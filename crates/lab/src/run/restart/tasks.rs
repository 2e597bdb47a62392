//! The running tasks, by the journal of their nodes.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::job_states::{JobState, JobStates, revision_of};
use crate::nodes::{TaskChange, TaskEntry};

/// Unexpected ends whose allocations are reported by name.
const NAMED_MAX: usize = 20;

/// The tasks of all nodes; each allocation has one.
#[derive(Debug, Default)]
pub(super) struct RunningTasks {
    running: HashMap<String, RunningTask>,
    by_job: HashMap<String, HashSet<String>>,
    ended_unexpectedly: u64,
    named: Vec<String>,
}

/// A task that runs.
#[derive(Debug)]
pub(super) struct RunningTask {
    pub job: String,
    /// Revision of its job.
    pub revision: u64,
}

impl RunningTasks {
    /// A node has reported something. An end is expected if a later write of its job had been begun by then.
    pub fn record(&mut self, entry: TaskEntry, job_states: &JobStates) {
        let revision = revision_of(Some(&entry.meta));
        match entry.change {
            TaskChange::Started => {
                self.by_job.entry(entry.job.clone()).or_default().insert(entry.alloc.clone());
                self.running.insert(entry.alloc, RunningTask { job: entry.job, revision });
            }
            TaskChange::Ended => {
                if self.running.remove(&entry.alloc).is_some()
                    && let Some(allocs) = self.by_job.get_mut(&entry.job)
                {
                    allocs.remove(&entry.alloc);
                }
                if job_states.latest(&entry.job) == Some(JobState::Live(revision)) {
                    self.ended_unexpectedly += 1;
                    if self.named.len() < NAMED_MAX {
                        let TaskEntry { alloc, job, node, .. } = entry;
                        self.named.push(format!("{alloc} of job {job} on node {node}"));
                    }
                }
            }
        }
    }

    /// How many run of jobs whose ids begin so.
    pub fn count(&self, prefix: &str) -> usize {
        self.by_job.iter().filter(|(job, _)| job.starts_with(prefix)).map(|(_, allocs)| allocs.len()).sum()
    }

    /// All that run, by allocation.
    pub fn running(&self) -> &HashMap<String, RunningTask> {
        &self.running
    }

    /// The job, of those whose ids begin so, of one of the allocations that run: which one, `random` says.
    pub fn pick_job(&self, prefix: &str, random: u64) -> Option<&str> {
        let jobs: Vec<&str> = self
            .by_job
            .iter()
            .filter(|(job, allocs)| job.starts_with(prefix) && !allocs.is_empty())
            .map(|(job, _)| job.as_str())
            .collect();
        jobs.get(usize::try_from(random % jobs.len().max(1) as u64).ok()?).copied()
    }

    /// The allocations of a job that run.
    pub fn of_job(&self, job: &str) -> HashSet<String> {
        self.by_job.get(job).cloned().unwrap_or_default()
    }

    /// Tasks that have ended unexpectedly.
    pub fn ended_unexpectedly(&self) -> u64 {
        self.ended_unexpectedly
    }

    /// Some of these, for people.
    pub fn named(&self) -> &[String] {
        &self.named
    }

    /// How many run of each job and revision.
    pub fn by_revision(&self) -> BTreeMap<(&str, u64), u32> {
        let mut counts = BTreeMap::new();
        for RunningTask { job, revision } in self.running.values() {
            *counts.entry((job.as_str(), *revision)).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::restart::job_states::REVISION;

    fn entry(change: TaskChange, alloc: &str, revision: u64) -> TaskEntry {
        let meta = BTreeMap::from([(REVISION.to_owned(), revision.to_string())]);
        TaskEntry { change, node: 7, alloc: alloc.to_owned(), job: "web".to_owned(), meta }
    }

    #[test]
    fn an_end_is_asked_for_by_a_later_write_of_the_job() {
        let (mut job_states, mut tasks) = (JobStates::default(), RunningTasks::default());
        job_states.begin("web", 1, JobState::Live(1));
        tasks.record(entry(TaskChange::Started, "a", 1), &job_states);
        tasks.record(entry(TaskChange::Started, "b", 1), &job_states);
        tasks.record(entry(TaskChange::Ended, "a", 1), &job_states);
        assert_eq!((tasks.ended_unexpectedly(), tasks.count("")), (1, 1));
        job_states.begin("web", 1, JobState::Live(2));
        tasks.record(entry(TaskChange::Ended, "b", 1), &job_states);
        tasks.record(entry(TaskChange::Started, "c", 2), &job_states);
        assert_eq!(tasks.by_revision(), BTreeMap::from([(("web", 2), 1)]));
        job_states.begin("web", 1, JobState::Stopped);
        tasks.record(entry(TaskChange::Ended, "c", 2), &job_states);
        assert_eq!((tasks.ended_unexpectedly(), tasks.count("")), (1, 0));
        assert_eq!(tasks.named(), ["a of job web on node 7"]);
        assert!(tasks.of_job("web").is_empty());
    }
}
