//! Jobs: whole, in lists, and their counts.

use berth_api::http::{GroupSummary, JobStanding, JobStub, JobSummary};
use berth_model::{
    Index,
    observed::Observed,
    store::{GroupCounts, JobRow, JobVersion},
};
use serde_json::Value;

use crate::state::View;

/// One version of a job, whole.
pub fn job(row: &JobRow, version: &JobVersion) -> Value {
    let mut job = berth_jobfile::to_json(&version.job);
    let standing = serde_json::to_value(standing(row, version));
    if let (Value::Object(job), Ok(Value::Object(standing))) = (&mut job, standing) {
        job.extend(standing);
    }
    job
}

fn standing(row: &JobRow, version: &JobVersion) -> JobStanding {
    JobStanding {
        parent_id: String::new(),
        status: row.status().as_str().to_owned(),
        status_description: String::new(),
        stable: false,
        version: version.version,
        submit_time: version.submitted_at.0,
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
        job_modify_index: version.index.0,
    }
}

/// A job in a list.
pub fn job_stub(view: &View, row: &JobRow, with_meta: bool) -> JobStub {
    let version = row.current();
    let job = &version.job;
    JobStub {
        id: job.key.id.to_string(),
        parent_id: String::new(),
        name: job.name.clone(),
        namespace: job.key.namespace.to_string(),
        datacenters: job.datacenters.clone(),
        node_pool: job.node_pool.clone(),
        job_type: job.job_type.as_str().to_owned(),
        priority: job.priority,
        periodic: false,
        parameterized_job: false,
        stop: job.stop,
        status: row.status().as_str().to_owned(),
        status_description: String::new(),
        job_summary: summary(view, row),
        meta: with_meta.then(|| job.meta.clone()),
        version: version.version,
        submit_time: version.submitted_at.0,
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
        job_modify_index: version.index.0,
    }
}

/// A job's counts.
pub fn summary(view: &View, row: &JobRow) -> JobSummary {
    let group = |counts: &GroupCounts| (counts.group.clone(), group_summary(&view.observed, row, counts));
    JobSummary {
        job_id: row.key.id.to_string(),
        namespace: row.key.namespace.to_string(),
        summary: row.counts.iter().map(group).collect(),
        children: None,
        create_index: row.create_index.0,
        modify_index: summary_index(view, row).0,
    }
}

/// Where a job's counts last changed.
pub fn summary_index(view: &View, row: &JobRow) -> Index {
    let logged = row.modify_index.max(row.allocs_index).max(row.evals_index);
    logged.max(view.observed.job_index(&row.key))
}

fn group_summary(observed: &Observed, row: &JobRow, counts: &GroupCounts) -> GroupSummary {
    // A group that the newest version has dropped may still run, counted by its position in an older one.
    let position = row.versions.iter().find_map(|version| Some(version.job.group(&counts.group)?.0));
    let running = position.map_or(0, |at| observed.running(&row.key, at)).min(counts.live);
    GroupSummary {
        queued: counts.queued,
        complete: counts.complete,
        failed: counts.failed,
        running,
        starting: counts.live - running,
        lost: counts.lost,
        unknown: 0,
    }
}
