//! One job: reading it and what belongs to it, changing it, stopping it.

mod change;
mod read;

use berth_model::{Index, JobKey};

pub(super) use change::{deregister, evaluate, register};
pub(super) use read::{allocations, deployment, deployments, evaluations, read, summary, versions};

use super::{call::Call, failure::Failure};
use crate::state::View;

fn key(call: &Call) -> JobKey {
    JobKey::new(call.namespace(), call.param("id"))
}

fn not_found() -> Failure {
    Failure::not_found("job not found")
}

/// Where the job last changed. One that is not there may come with any change of the table.
fn index(view: &View, key: &JobKey) -> Index {
    view.store.job(key).map_or(view.store.jobs().modify_index(), |row| row.modify_index)
}
