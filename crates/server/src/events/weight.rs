//! Estimates the memory that a batch pins although the state has replaced it.

use berth_model::{
    deployment::DeploymentGroup,
    eval::Failures,
    event::StateChange,
    store::{JobSlot, JobVersion},
};

use super::{Change, ChangeRecord, EventBatch, EventObject};
use crate::shared::View;

/// A job in memory takes about so many times the bytes of its encoding.
const JOB_BYTES_FACTOR: u64 = 2;
/// About what an observation takes.
const OBSERVATION_BYTES: u64 = 2 << 10;
/// About what the description of a node takes.
const NODE_BYTES: u64 = 8 << 10;

/// What a batch holds on to in bytes, and what the batches before it hold on to since it replaced that. Evaluations that follow
/// from each other share their failures, which count once.
pub(super) fn bytes(before: &View, batch: &EventBatch) -> u64 {
    let mut last: Option<&Failures> = None;
    let failures = batch.changes.iter().filter_map(|recorded| match &recorded.past {
        EventObject::Eval(eval, _) if !eval.failures.is_empty() => Some(&eval.failures),
        _ => None,
    });
    let failure_bytes = failures.map(|failures| {
        let is_known = last.replace(failures).is_some_and(|last| last.is_shared_with(failures));
        if is_known { 0 } else { failures.memory_bytes() as u64 }
    });
    failure_bytes.sum::<u64>() + batch.changes.iter().map(|recorded| one(before, recorded)).sum::<u64>()
}

fn one(before: &View, ChangeRecord { change, past }: &ChangeRecord) -> u64 {
    let own = size_of::<ChangeRecord>() as u64 + past_bytes(past);
    own + match change {
        Change::Observed(..) => OBSERVATION_BYTES,
        Change::Logged(
            StateChange::JobRegistered(_) | StateChange::JobDeregistered(_) | StateChange::JobLaunched(_),
        ) => newest_job_bytes(past),
        // Events of its allocations hold on to its versions, and the state no longer does.
        Change::Logged(StateChange::JobCollected(slot, _)) => all_versions_bytes(before, *slot),
        Change::Logged(StateChange::NodeRegistered(_) | StateChange::NodeCollected(..)) => NODE_BYTES,
        Change::Logged(_) => 0,
    }
}

/// What is held for this change alone.
fn past_bytes(past: &EventObject) -> u64 {
    let bytes = match past {
        EventObject::Nothing | EventObject::There => 0,
        EventObject::Node(node) => size_of_val(&**node),
        EventObject::Job(job) => size_of_val(&**job) + size_of::<JobVersion>(),
        EventObject::Alloc(alloc) => {
            let extra = alloc.detail.extra().map_or(0, size_of_val);
            size_of_val(&**alloc) + extra + size_of_val(&*alloc.named)
        }
        EventObject::Eval(eval, _) => size_of_val(&**eval),
        EventObject::Deployment(of, _) => size_of_val(&**of) + size_of::<DeploymentGroup>() * of.groups.len(),
        EventObject::NodePool(row) => size_of_val(&**row),
        EventObject::Variable(variable) => size_of_val(&**variable) + variable.sealed.len(),
    };
    bytes as u64
}

fn newest_job_bytes(past: &EventObject) -> u64 {
    let EventObject::Job(job) = past else { return 0 };
    job.row.job().encoded_len() as u64 * JOB_BYTES_FACTOR
}

fn all_versions_bytes(before: &View, slot: JobSlot) -> u64 {
    let row = before.store.jobs().row(slot);
    let versions = row.iter().flat_map(|row| row.versions.iter());
    versions.map(|version| version.job.encoded_len() as u64).sum::<u64>() * JOB_BYTES_FACTOR
}
