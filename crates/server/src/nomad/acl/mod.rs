//! Policies, roles, tokens, and the bootstrap token.

pub(super) mod bootstrap;
pub(super) mod onetime;
pub(super) mod policies;
pub(super) mod roles;
mod seal;
pub(super) mod tokens;

use axum::{body::Body, response::Response};
use berth_model::{Index, acl::ChangeAcl, command::Command};
use hyper::StatusCode;

use crate::{
    access::CallerView,
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
};

/// Refuses what has no meaning where everybody may do everything.
fn check_on(call: &Call) -> Result<(), Failure> {
    if !call.api.policy.is_open() {
        return Ok(());
    }
    let text = "ACL support disabled: this server was started without --acl";
    Err(Failure::new(StatusCode::BAD_REQUEST, text))
}

fn index(view: &CallerView) -> Index {
    view.acl_index()
}

/// Proposes a change, and says where it was committed.
async fn change(call: &Call, change: ChangeAcl) -> Result<Index, Failure> {
    call.propose(Command::ChangeAcl(Box::new(change))).await
}

/// The answer to a change that has nothing else to say.
async fn change_and_answer(call: &Call, what: ChangeAcl) -> Reply {
    let index = change(call, what).await?;
    let mut response = Response::new(Body::empty());
    reply::stamp(response.headers_mut(), index, &call.view());
    Ok(response)
}
