//! From the model to the JSON of Nomad's HTTP API: the only place where our types become Nomad's.

mod alloc;
mod checks;
mod deployment;
mod device;
mod diff;
mod eval;
mod event;
mod explain;
mod file;
mod image;
mod job;
mod job_status;
mod node;
mod plan;
mod plan_trace;
mod redact;
mod scale;
mod scheduling;
mod task;
mod tenants;

mod usage;

pub use alloc::{AllocStubParts, allocation, allocation_stub};
pub use checks::alloc_checks;
pub use deployment::deployment;
pub use diff::job_diff;
pub use eval::{evaluation, evaluation_stub};
pub use event::{Payload, Subject, payload, subject};
pub use explain::explanation;
pub use file::file_info;
pub use image::image;
pub use job::{group_summary, job, job_stub, summary};
pub use job_status::job_status;
pub use node::{NodeStubParts, eligibility, node, node_stub};
pub use plan::planned;
pub use plan_trace::plan_trace;
pub use scale::{scale_status, scaled_groups, scaling_policy, scaling_policy_stub};
pub use scheduling::{scheduler_config, scheduler_config_of_request};
pub use tenants::{namespace, namespace_of_request, quota, quota_of_request, quota_usage};

pub use usage::{alloc_usage, host_stats};

/// An id as text; empty for none.
fn id_text(id: Option<impl std::fmt::Display>) -> String {
    id.map(|id| id.to_string()).unwrap_or_default()
}
