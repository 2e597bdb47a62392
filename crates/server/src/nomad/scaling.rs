//! Scaling policies: they stand in jobs, autoscalers read them here.

use berth_api::http::ScalingPolicy;
use berth_model::Index;

use super::{jobs::Jobs, namespaces};
use crate::{
    WatchKey,
    access::CallerView,
    http::{
        array::Items,
        block,
        call::{Call, Reply},
        failure::Failure,
        list::array_of,
        reply,
    },
    nomad::convert,
};

/// `GET /v1/scaling/policies`
pub(super) async fn policies(call: Call) -> Reply {
    let job = call.query.text("job").map(str::to_owned);
    block::answer(&call, &[WatchKey::Jobs], index, async |view| {
        let (jobs, job) = (Jobs::of(call.namespace(), ""), job.clone());
        let find = move || {
            let own = jobs.all(&view).filter(|row| job.as_deref().is_none_or(|job| job == &*row.key.id));
            own.flat_map(convert::scaling_policies).collect::<Vec<ScalingPolicy>>()
        };
        let policies = call.api.heavy.run(find).await;
        let stub = |policy: &ScalingPolicy, items: &mut Items| {
            items.push(&convert::scaling_policy_stub(policy.clone()))
        };
        array_of(&call, policies, stub, |policy| serde_json::to_value(policy).ok()).await
    })
    .await
}

/// `GET /v1/scaling/policy/:id`
pub(super) async fn policy(call: Call) -> Reply {
    block::answer(&call, &[WatchKey::Jobs], index, async |view| {
        let id = call.param("id").to_owned();
        let find = move || {
            let jobs = Jobs::of(namespaces::ALL, "");
            jobs.all(&view).flat_map(convert::scaling_policies).find(|policy| policy.id == id)
        };
        let policy = call.api.heavy.run(find).await;
        let policy = policy.ok_or_else(|| Failure::not_found("scaling policy not found"))?;
        reply::json(&call.query, &policy)
    })
    .await
}

fn index(view: &CallerView) -> Index {
    view.jobs_index()
}
