//! Deployments: there are none yet; clients ask all the same.

use berth_api::http::Deployment;
use berth_model::Index;

use crate::{
    access::CallerView,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        list::array_of,
    },
};

/// `GET /v1/deployments`
pub(super) async fn list(call: Call) -> Reply {
    none(&call).await
}

/// A list of no deployments.
pub(super) async fn none(call: &Call) -> Reply {
    let nothing = async |_: CallerView| {
        array_of(call, Vec::new(), |none: &Deployment, items| items.push(none), |_| None).await
    };
    block::answer(call, &[], |_| Index::default(), nothing).await
}

/// `GET /v1/deployment/:id`
pub(super) async fn read(_: Call) -> Reply {
    Err(Failure::not_found("deployment not found"))
}
