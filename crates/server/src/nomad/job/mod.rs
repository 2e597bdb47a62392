//! One job: reading it and what belongs to it, changing it, stopping it.

mod change;
mod explain;
mod launch;
mod plan;
mod read;
mod revert;
mod scale;
mod submission;
mod versions;

use berth_model::{Index, JobKey};

pub(super) use change::{deregister, evaluate, register};
pub(super) use explain::explain;
pub(super) use launch::{dispatch, force};
pub(super) use plan::plan;
pub(super) use read::{allocations, deployment, deployments, evaluations, read, summary};
pub(super) use revert::revert;
pub(super) use scale::{read as scale_status, scale};
pub(super) use submission::submission;
pub(super) use versions::{stable, tag, untag, versions};

use crate::{
    access::CallerView,
    http::{call::Call, failure::Failure},
};

fn key(call: &Call) -> JobKey {
    JobKey::new(call.namespace(), call.param("id"))
}

fn not_found() -> Failure {
    Failure::not_found("job not found")
}

/// Refuses a body that names another job than the path; one that names none is about that of the path.
fn check_is(key: &JobKey, id_in_body: &str) -> Result<(), Failure> {
    if id_in_body.is_empty() || id_in_body == &*key.id {
        return Ok(());
    }
    let cut: String = id_in_body.chars().take(64).collect();
    Err(Failure::bad_request(format!("the body is about job `{cut}`, the path about `{}`", key.id)))
}

/// Where the job last changed. One that is not there may come with any change of the table.
fn index(view: &CallerView, key: &JobKey) -> Index {
    view.job(key).map_or(view.jobs_index(), |row| row.modify_index)
}
