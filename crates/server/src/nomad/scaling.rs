//! Scaling policies: they stand in jobs, autoscalers read them here.

use berth_api::http::ScalingPolicy;
use berth_model::Index;

use super::{jobs::Jobs, namespaces};
use crate::{
    WatchKey,
    http::{
        array::Items,
        block,
        call::{Call, Reply},
        failure::Failure,
        list::array_of,
        reply,
    },
    nomad::convert,
    state::View,
};

/// `GET /v1/scaling/policies`
pub(super) async fn policies(call: Call) -> Reply {
    let job = call.query.text("job").map(str::to_owned);
    block::read(&call, &[WatchKey::Jobs], index, |view| {
        let jobs = Jobs::of(call.namespace(), "");
        let own = jobs.all(view).filter(|row| job.as_deref().is_none_or(|job| job == &*row.key.id));
        let policies: Vec<ScalingPolicy> = own.flat_map(convert::scaling_policies).collect();
        let stub = |policy: &ScalingPolicy, items: &mut Items| {
            items.push(&convert::scaling_policy_stub(policy.clone()))
        };
        array_of(&call, policies, stub, |policy| serde_json::to_value(policy).ok())
    })
    .await
}

/// `GET /v1/scaling/policy/:id`
pub(super) async fn policy(call: Call) -> Reply {
    block::read(&call, &[WatchKey::Jobs], index, |view| {
        let jobs = Jobs::of(namespaces::ALL, "");
        let policy =
            jobs.all(view).flat_map(convert::scaling_policies).find(|policy| policy.id == call.param("id"));
        reply::json(&call.query, &policy.ok_or_else(|| Failure::not_found("scaling policy not found"))?)
    })
    .await
}

fn index(view: &View) -> Index {
    view.store.jobs().modify_index()
}
