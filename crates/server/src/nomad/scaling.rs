//! Scaling policies, which are part of jobs and are read by autoscalers.

use std::sync::atomic::AtomicBool;

use berth_api::http::ScalingPolicy;
use berth_model::{Index, JobKey};

use super::{jobs::Jobs, namespaces};
use crate::{
    WatchKey,
    access::CallerView,
    http::{
        array::ArrayItems,
        block,
        call::{Call, Reply},
        failure::Failure,
        heavy::{unless_disconnected, while_client_waits},
        list::array_of,
        reply,
    },
    nomad::convert,
};

/// `GET /v1/scaling/policies`
pub(super) async fn policies(call: Call) -> Reply {
    let job = call.query.text("job").map(str::to_owned);
    block::answer(&call, &[WatchKey::Jobs], index, async |view| {
        let (jobs, job, found_in) = (Jobs::of(call.namespace(), ""), job.clone(), view.clone());
        let find = move |client_has_left: &AtomicBool| {
            let all = while_client_waits(client_has_left, jobs.all(&found_in));
            let own = all.filter(|row| job.as_deref().is_none_or(|job| job == &*row.key.id));
            // Where each is: all of them at a time may be large.
            let positions =
                own.flat_map(|row| convert::scaled_groups(row).map(|group| (row.key.clone(), group)));
            unless_disconnected(client_has_left, positions.collect::<Vec<GroupPosition>>())
        };
        let positions = call.api.heavy.run_for_client(find).await?;
        let stubs = view.clone();
        let stub = move |position: &GroupPosition, items: &mut ArrayItems| {
            at(&stubs, position)
                .into_iter()
                .for_each(|policy| items.push(&convert::scaling_policy_stub(policy)));
        };
        array_of(&call, positions, stub, move |position| serde_json::to_value(at(&view, position)?).ok())
            .await
    })
    .await
}

/// `GET /v1/scaling/policy/:id`
pub(super) async fn policy(call: Call) -> Reply {
    block::answer(&call, &[WatchKey::Jobs], index, async |view| {
        let id = call.param("id").to_owned();
        let find = move |client_has_left: &AtomicBool| {
            let jobs = Jobs::of(namespaces::ALL, "");
            let mut all = while_client_waits(client_has_left, jobs.all(&view));
            let found = all.find_map(|row| {
                let mut policies =
                    convert::scaled_groups(row).filter_map(|group| convert::scaling_policy(row, group));
                policies.find(|policy| policy.id == id)
            });
            unless_disconnected(client_has_left, found)
        };
        let policy = call.api.heavy.run_for_client(find).await?;
        let policy = policy.ok_or_else(|| Failure::not_found("scaling policy not found"))?;
        reply::json(&call.query, &policy)
    })
    .await
}

/// A job, and which of its groups.
type GroupPosition = (JobKey, usize);

fn at(view: &CallerView, (job, group): &GroupPosition) -> Option<ScalingPolicy> {
    convert::scaling_policy(view.job(job)?, *group)
}

fn index(view: &CallerView) -> Index {
    view.jobs_index()
}
