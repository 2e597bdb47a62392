//! Explanations of why a job waits.

use berth_api::http::{GroupExplanation, JobExplanation, QueuePosition, SmallestChange, Time};
use berth_model::{JobKey, eval::GroupFailure};
use berth_scheduler::{
    explain::{self, Explanation},
    fairness::FairPosition,
};

use super::eval::metric;
use crate::access::CallerView;

/// An explanation, made on the state of an index.
pub fn explanation(
    view: &CallerView,
    key: &JobKey,
    explained: Explanation,
    position: Option<FairPosition>,
) -> JobExplanation {
    JobExplanation {
        job_id: key.id.to_string(),
        namespace: key.namespace.to_string(),
        retry_at: Time(explained.retry_at.map_or(0, |at| at.0)),
        groups: explained.groups.into_iter().map(|explained| group(view, explained)).collect(),
        queue: position.map(queue),
        index: view.log_index().0,
    }
}

fn queue(position: FairPosition) -> QueuePosition {
    let FairPosition { share, tenants_ahead, jobs_ahead } = position;
    QueuePosition { share, namespaces_ahead: tenants_ahead, jobs_ahead }
}

fn group(view: &CallerView, explained: explain::GroupExplanation) -> GroupExplanation {
    let explain::GroupExplanation { group, missing, preempted, funnel, nowhere, changes, here } = explained;
    let failure = (missing > 0 || nowhere).then(|| {
        let count = missing.max(1);
        metric(&GroupFailure { group: group.as_str().into(), count, funnel: funnel.into() })
    });
    let change =
        |change: explain::SuggestedChange| SmallestChange { change: change.what, nodes: change.nodes };
    let changes = changes.into_iter().map(change).collect();
    let seen = preempted.iter().filter(|id| view.alloc(**id).is_some());
    let preempted_allocations = seen.map(ToString::to_string).collect();
    GroupExplanation { name: group, missing, preempted_allocations, failure, changes, obstacles: here }
}
