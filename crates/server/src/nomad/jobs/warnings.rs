//! Warnings about a job that is accepted.

use berth_jobfile::Diagnostics;
use berth_model::job::Job;

use crate::access::CallerView;

/// What was found when it was read, and what the cluster, as it is set up, does not do for it: a line each.
pub(in crate::nomad) fn warnings(view: &CallerView, job: &Job, read: &Diagnostics) -> String {
    let mut lines: Vec<String> = Some(read.messages()).filter(|read| !read.is_empty()).into_iter().collect();
    if !view.scheduler_config().memory_oversubscription(&job.node_pool) {
        let tasks = job.groups.iter().flat_map(|group| group.tasks.iter().map(move |task| (group, task)));
        let beyond = tasks.filter(|(_, task)| task.resources.memory_max_mb > task.resources.memory_mb);
        lines.extend(beyond.map(|(group, task)| {
            format!(
                "task `{}` of group `{}` gets no more than its memory: memory_max takes \
                 `berth operator scheduler set -memory-oversubscription true`",
                task.name, group.name
            )
        }));
    }
    lines.extend(unknown_pool(view, job));
    lines.join("\n")
}

/// Nomad refuses such a job. Here it waits: a pool is there with its first node, which an autoscaler may only start for the job.
fn unknown_pool(view: &CallerView, job: &Job) -> Option<String> {
    let pool = &job.node_pool;
    (!view.has_node_pool(pool)).then(|| {
        format!(
            "job `{}` waits: node pool `{pool}` has no node, and no operator has described it; `berth node pool list` shows \
             those that are there",
            job.key.id
        )
    })
}
