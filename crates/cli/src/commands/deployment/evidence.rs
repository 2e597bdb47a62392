//! Why a deployment failed: the allocation that was last found unhealthy, the reason, and the last lines of its task's log.

use berth_api::http::{Allocation, Deployment, TaskState, UnhealthyAlloc};
use serde::Serialize;

use crate::{
    commands::alloc::tail::last_lines,
    failure::Failure,
    output::{clean, short_id},
    remote::{Remote, StreamRead, StreamSource, StreamStart},
};

/// Lines of each log that are shown.
const LINES: usize = 5;
/// Bytes of a line that are shown.
const LINE_BYTES_MAX: usize = 512;

/// An allocation that was found unhealthy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Evidence {
    group: String,
    #[serde(rename = "AllocID")]
    alloc_id: String,
    reason: String,
    /// Empty where nothing is known of its tasks any more.
    task: String,
    stdout: Vec<String>,
    stderr: Vec<String>,
    /// Why there are no lines, if that is no answer to what the task printed.
    log_error: String,
}

impl Evidence {
    /// Of a deployment that failed; none of any other, and where nothing was found unhealthy.
    pub async fn of(remote: &Remote, deployment: &Deployment) -> Option<Self> {
        if deployment.status != "failed" {
            return None;
        }
        let (group, last) = culprit(deployment)?;
        let mut evidence = Self {
            group: group.clone(),
            alloc_id: last.alloc_id.clone(),
            reason: last.reason.clone(),
            task: String::new(),
            stdout: Vec::new(),
            stderr: Vec::new(),
            log_error: String::new(),
        };
        if let Err(failure) = evidence.read_logs(remote).await {
            evidence.log_error = failure.to_string().trim().trim_start_matches("error: ").to_owned();
        }
        Some(evidence)
    }

    /// What the last lines are of the log of an allocation that has failed, a line for each; none of one whose log cannot be
    /// read, or whose task never wrote any.
    pub async fn log_of(remote: &Remote, alloc_id: &str) -> Vec<String> {
        let mut evidence = Self {
            group: String::new(),
            alloc_id: alloc_id.to_owned(),
            reason: String::new(),
            task: String::new(),
            stdout: Vec::new(),
            stderr: Vec::new(),
            log_error: String::new(),
        };
        // What could be read is worth showing.
        let _ = evidence.read_logs(remote).await;
        evidence.log_lines()
    }

    async fn read_logs(&mut self, remote: &Remote) -> Result<(), Failure> {
        let alloc = remote.allocation(&self.alloc_id).await?;
        self.task = troubled(&alloc).unwrap_or_default();
        if self.task.is_empty() {
            return Ok(());
        }
        self.stderr = self.lines(remote, "stderr").await?;
        self.stdout = self.lines(remote, "stdout").await?;
        Ok(())
    }

    async fn lines(&self, remote: &Remote, stream: &'static str) -> Result<Vec<String>, Failure> {
        let source = StreamSource::Log { task: &self.task, stream };
        let from = StreamStart::Offset(0);
        let read = StreamRead { alloc: &self.alloc_id, source, from, follow: false };
        let end = last_lines(remote, &read, LINES).await?;
        let text = String::from_utf8_lossy(&end.bytes);
        Ok(text.lines().map(|line| line[..line.floor_char_boundary(LINE_BYTES_MAX)].to_owned()).collect())
    }

    /// For people, one line per finding.
    pub fn report_lines(&self) -> Vec<String> {
        let Self { group, alloc_id, reason, .. } = self;
        let alloc = short_id(alloc_id);
        let mut report_lines =
            vec![format!("allocation {alloc} of group {} is unhealthy: {}", clean(group), clean(reason))];
        report_lines.extend(self.log_lines());
        if !self.log_error.is_empty() {
            report_lines.push(format!("its log cannot be read: {}", clean(&self.log_error)));
        }
        report_lines
    }

    fn log_lines(&self) -> Vec<String> {
        let mut report_lines = Vec::new();
        for (stream, lines) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !lines.is_empty() {
                report_lines.push(format!("the last lines of {stream} of task {}:", clean(&self.task)));
                report_lines.extend(lines.iter().map(|line| format!("  {}", clean(line))));
            }
        }
        report_lines
    }
}

/// The allocation that the deployment names as why it failed; the first that was found unhealthy where it names none.
fn culprit(deployment: &Deployment) -> Option<(&String, &UnhealthyAlloc)> {
    let unhealthy = || {
        let groups = deployment.task_groups.iter();
        groups.filter_map(|(name, group)| Some((name, group.last_unhealthy.as_ref()?)))
    };
    let is_named = |(_, last): &(_, &UnhealthyAlloc)| {
        deployment.status_description.contains(&format!("allocation {}", short_id(&last.alloc_id)))
    };
    unhealthy().find(is_named).or_else(|| unhealthy().next())
}

/// The least healthy task: one that has failed, or else has restarted most often.
fn troubled(alloc: &Allocation) -> Option<String> {
    let states = alloc.task_states.iter().flatten();
    let worst = |(_, state): &(&String, &TaskState)| (state.failed, state.restarts);
    states.max_by_key(worst).map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use berth_api::http::DeploymentState;

    use super::*;

    #[test]
    fn the_allocation_is_shown_that_made_the_deployment_fail() {
        let group = |alloc: &str| DeploymentState {
            last_unhealthy: Some(UnhealthyAlloc { alloc_id: alloc.to_owned(), ..UnhealthyAlloc::default() }),
            ..DeploymentState::default()
        };
        let (a, b) = ("aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000001");
        let mut deployment = Deployment {
            status_description:
                "Failed due to unhealthy allocations (group \"z\", allocation bbbbbbbb: it ended)".to_owned(),
            task_groups: [("a".to_owned(), group(a)), ("z".to_owned(), group(b))].into(),
            ..Deployment::default()
        };
        assert_eq!(culprit(&deployment).unwrap().0, "z");
        deployment.status_description = "somebody has had enough of it".to_owned();
        assert_eq!(culprit(&deployment).unwrap().0, "a");
    }
}
