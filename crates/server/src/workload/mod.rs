//! Identities of tasks: tokens that a server signs for the tasks of placed allocations, and their verification. The same identity
//! decides which variables a task receives.
//!
//! A token is a JWT (RFC 7519) with the signature ES256: outside verifiers, as Vault and the clouds, take that one, and of
//! EdDSA only some of them do. It names the allocation, and is nothing any more once that has ended.

mod claims;
mod jwt;
mod keys;
mod placed_task;
mod secrets;
mod sign;
mod template_variables;
mod verify;

#[cfg(test)]
pub(crate) mod tests;

use berth_model::{JobKey, job::Job};

pub(crate) use keys::{PublicKey, public_keys};
pub(crate) use placed_task::TaskAt;
pub(crate) use secrets::{READ_A_SECOND_MAX, no_secrets, read_secrets};
pub(crate) use sign::{SIGNED_A_SECOND_MAX, sign, too_often};
pub(crate) use template_variables::{keys_of, may_wait, not_watched, read_watched};
pub(crate) use verify::{Workload, Workloads, is_token};

/// A task as policies and the variables of jobs know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TaskName {
    /// Its job.
    pub job: JobKey,
    /// The name of its group.
    pub group: String,
    /// The task's name.
    pub task: String,
}

/// The id under which the tasks of a job are known: runs of a job at set times, and what is dispatched, are known as that job.
fn job_known_as(job: &Job) -> &str {
    if job.parent_id.is_empty() { &job.key.id } else { &job.parent_id }
}

/// The one algorithm of signatures: it is fixed by the key, whatever a token says of itself.
pub(crate) const ALGORITHM: &str = "ES256";
