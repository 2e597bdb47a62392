//! The status of jobs, in short and with their allocations.

use berth_api::http::{JobStatus, JobStatusAlloc};
use berth_model::store::JobRow;

use super::{alloc::client_status, job::children};
use crate::access::{AllocParts, CallerView};

/// How a job fares.
pub fn job_status(view: &CallerView, row: &JobRow) -> JobStatus {
    let version = row.current();
    let job = &version.job;
    let mut allocs: Vec<JobStatusAlloc> =
        view.allocs_of(row).filter_map(|slot| view.alloc_in(slot)).map(|parts| alloc(&parts)).collect();
    allocs.sort_by(|a, b| a.id.cmp(&b.id));
    let statuses = || children(view, row).map(|child| child.status().as_str().to_owned()).collect();
    JobStatus {
        id: row.key.id.to_string(),
        namespace: row.key.namespace.to_string(),
        name: job.name.clone(),
        job_type: job.job_type.as_str().to_owned(),
        node_pool: job.node_pool.clone(),
        datacenters: job.datacenters.clone(),
        priority: job.priority,
        version: version.version,
        submit_time: version.submitted_at.0,
        modify_index: row.modify_index.0,
        allocs,
        group_count_sum: job.groups.iter().map(|group| u64::from(group.count)).sum(),
        child_statuses: job.only_launches().then(statuses),
        parent_id: job.parent_id.clone(),
        latest_deployment: None,
        stop: job.stop,
        is_pack: false,
        status: row.status().as_str().to_owned(),
    }
}

fn alloc(parts: &AllocParts<'_>) -> JobStatusAlloc {
    JobStatusAlloc {
        id: parts.row.id.to_string(),
        group: parts.group.name.clone(),
        client_status: client_status(parts).to_owned(),
        node_id: parts.node.map(|node| node.id.to_string()).unwrap_or_default(),
        deployment_status: None,
        job_version: parts.row.job_version,
        followup_eval_id: String::new(),
        has_paused_task: false,
    }
}
