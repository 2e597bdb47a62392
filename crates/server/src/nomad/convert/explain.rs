//! Explanations of why a job waits.

use berth_api::http::{GroupExplanation, JobExplanation, QueueStanding, SmallestChange};
use berth_model::{Index, JobKey, eval::GroupFailure};
use berth_scheduler::{
    explain::{self, Explanation},
    fairness::Standing,
};

use super::eval::metric;

/// An explanation, made on the state of an index.
pub fn explanation(
    key: &JobKey,
    explained: Explanation,
    standing: Option<Standing>,
    index: Index,
) -> JobExplanation {
    JobExplanation {
        job_id: key.id.to_string(),
        namespace: key.namespace.to_string(),
        groups: explained.groups.into_iter().map(group).collect(),
        queue: standing.map(queue),
        index: index.0,
    }
}

fn queue(standing: Standing) -> QueueStanding {
    let Standing { share, tenants_ahead, jobs_ahead } = standing;
    QueueStanding { share, namespaces_ahead: tenants_ahead, jobs_ahead }
}

fn group(explained: explain::GroupExplanation) -> GroupExplanation {
    let explain::GroupExplanation { group, missing, preempted, funnel, changes, here } = explained;
    let failure =
        (missing > 0).then(|| metric(&GroupFailure { group: group.clone(), count: missing, funnel }));
    let change = |change: explain::Change| SmallestChange { change: change.what, nodes: change.nodes };
    let changes = changes.into_iter().map(change).collect();
    let preempted_allocations = preempted.iter().map(ToString::to_string).collect();
    GroupExplanation { name: group, missing, preempted_allocations, failure, changes, obstacles: here }
}
