//! From named fields to a job: types, defaults and rules, the same for both syntaxes.
//!
//! A mistake is reported and a default stands in for the value, so that decoding goes on and finds the next one; the
//! job only counts if the report stays empty.

mod affinity;
mod as_written;
mod comparison;
mod constraint;
mod group;
mod job;
mod name;
mod network;
mod resources;
mod rules;
mod spread;
mod task;
mod tenant;
mod version;

use berth_model::job::Job;

use crate::{
    report::Report,
    schema::{Body, FILE, JOB},
    tree::{Entry, Node, Tree},
};

pub use name::is_deceptive;
pub(crate) use rules::policy;
pub(crate) use task::check_signal;
pub(crate) use tenant::{namespace, node_pool, node_pool_file, quota, variable};

/// The job of a file in HCL, if there is one.
pub(crate) fn hcl(entries: &[Entry<'_>], report: &Report<'_>) -> Option<Job> {
    let file = Body::of_hcl_file(entries, &FILE, report);
    let jobs = file.blocks("job");
    if let Some(second) = jobs.get(1) {
        report.error(second.at_self(), "only one job may stand in a file");
    }
    jobs.first().map(job::job)
}

/// The job of a file in HCL as Nomad's clients read it: nothing but what is given. None, and reported, if it is no job.
pub(crate) fn hcl_as_given(entries: &[Entry<'_>], report: &Report<'_>) -> Option<serde_json::Value> {
    let file = Body::of_hcl_file(entries, &FILE, report);
    let jobs = file.blocks("job");
    if let Some(second) = jobs.get(1) {
        report.error(second.at_self(), "only one job may stand in a file");
    }
    let first = jobs.first()?;
    job::job(first);
    report.is_sound().then(|| as_written::job(first))
}

/// The job of a JSON document, bare or held as `Job` by an object with a request's other parts.
pub(crate) fn json(document: &Node<'_>, report: &Report<'_>) -> Option<Job> {
    let wrapped = match &document.tree {
        Tree::Object(entries) => entries.iter().find(|entry| entry.key.text == "Job"),
        _ => None,
    };
    let node = wrapped.map_or(document, |entry| &entry.value);
    Body::of_json(node, "Job", &JOB, report).as_ref().map(job::job)
}
