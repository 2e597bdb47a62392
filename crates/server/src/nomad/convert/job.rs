//! Jobs: whole, in lists, and their summaries.

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_api::http::{
    ChildrenSummary, GroupSummary, JobServerFields, JobStub, JobSummary, JobVersionTag, PeriodicLaunch,
};
use berth_model::{
    JobKey,
    job::VersionTag,
    store::{GroupCounts, JobRow, JobStatus, JobVersion},
};
use serde_json::Value;

use crate::access::CallerView;

/// One version of a job, whole.
pub fn job(view: &CallerView, row: &JobRow, version: &JobVersion) -> Value {
    let is_newest = version.version == row.current().version;
    job_with(if is_newest { view.job_outcome(row) } else { "" }, row, version)
}

/// One version of a job, whole, with the outcome of the job if it is the newest one.
pub(super) fn job_with(outcome: &str, row: &JobRow, version: &JobVersion) -> Value {
    let mut job = berth_jobfile::to_json(&version.job);
    let standing = serde_json::to_value(standing(outcome, row, version));
    if let (Value::Object(job), Ok(Value::Object(standing))) = (&mut job, standing) {
        job.extend(standing);
    }
    add_scaling(&mut job, row, version);
    job
}

/// What a server knows of the scaling policies within a job: by which id they are read alone, and what they scale.
fn add_scaling(job: &mut Value, row: &JobRow, version: &JobVersion) {
    let Some(groups) = job.get_mut("TaskGroups").and_then(Value::as_array_mut) else { return };
    for (group, json) in version.job.groups.iter().zip(groups) {
        let members = json.get_mut("Scaling").and_then(Value::as_object_mut);
        let (Some(scaling), Some(members)) = (group.scaling.as_deref(), members) else { continue };
        let policy = super::scale::policy(row, &group.name, scaling);
        let known = [
            ("ID", policy.id.into()),
            ("Target", policy.target.into_iter().collect()),
            ("CreateIndex", policy.create_index.into()),
            ("ModifyIndex", policy.modify_index.into()),
        ];
        members.extend(known.map(|(name, value): (&str, Value)| (name.to_owned(), value)));
    }
}

fn standing(outcome: &str, row: &JobRow, version: &JobVersion) -> JobServerFields {
    JobServerFields {
        parent_id: version.job.parent_id.clone(),
        dispatched: version.job.dispatched,
        payload: (!version.job.payload.is_empty()).then(|| STANDARD.encode(&version.job.payload)),
        status: row.status().as_str().to_owned(),
        status_description: String::new(),
        outcome: outcome.to_owned(),
        stable: version.stable,
        version: version.version,
        version_tag: version.tag.as_deref().map(tag),
        submit_time: version.submitted_at.0,
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
        job_modify_index: version.index.0,
        periodic_launch: (version.version == row.current().version).then(|| periodic_launch(row)).flatten(),
    }
}

fn tag(tag: &VersionTag) -> JobVersionTag {
    JobVersionTag {
        name: tag.name.clone(),
        description: tag.description.clone(),
        tagged_time: tag.tagged_at.0,
    }
}

/// When a periodic job was and will be due.
fn periodic_launch(row: &JobRow) -> Option<PeriodicLaunch> {
    row.job().periodic.as_ref()?;
    Some(PeriodicLaunch {
        last: row.launch.map_or(0, |launch| launch.at.0),
        overlapped: row.launch.is_some_and(|launch| launch.overlapped),
        missed_since: row.launch.and_then(|launch| launch.missed_since).map_or(0, |since| since.0),
        next: row.due().map_or(0, |due| due.0),
    })
}

/// A job in a list.
pub fn job_stub(view: &CallerView, row: &JobRow, with_meta: bool) -> JobStub {
    let version = row.current();
    let job = &version.job;
    JobStub {
        id: job.key.id.to_string(),
        parent_id: job.parent_id.clone(),
        name: job.name.clone(),
        namespace: job.key.namespace.to_string(),
        datacenters: job.datacenters.clone(),
        node_pool: job.node_pool.clone(),
        job_type: job.job_type.as_str().to_owned(),
        priority: job.priority,
        periodic: job.periodic.is_some(),
        parameterized_job: job.parameterized.is_some() && !job.dispatched,
        stop: job.stop,
        status: row.status().as_str().to_owned(),
        status_description: String::new(),
        outcome: view.job_outcome(row).to_owned(),
        job_summary: summary(view, row),
        meta: with_meta.then(|| job.meta.clone()),
        version: version.version,
        submit_time: version.submitted_at.0,
        create_index: row.create_index.0,
        modify_index: row.modify_index.0,
        job_modify_index: version.index.0,
    }
}

/// The allocations of a job, counted by group and status.
pub fn summary(view: &CallerView, row: &JobRow) -> JobSummary {
    let group = |counts: &GroupCounts| (counts.group.to_string(), group_summary(view, row, counts));
    JobSummary {
        job_id: row.key.name().to_owned(),
        namespace: row.key.namespace.to_string(),
        summary: row.counts.iter().map(group).collect(),
        children: row.job().only_launches().then(|| children_summary(view, row)),
        create_index: row.create_index.0,
        modify_index: view.job_counts_index(row).0,
    }
}

/// The jobs that a job made. Their ids begin with its own.
pub fn children<'v>(view: &'v CallerView, row: &'v JobRow) -> impl Iterator<Item = &'v JobRow> {
    let JobKey { namespace, id } = &row.key;
    let (first, next) =
        (JobKey::new(namespace, &format!("{id}/")), JobKey::new(namespace, &format!("{id}0")));
    view.jobs(first..next).filter(|child| *child.job().parent_id == *row.key.id)
}

/// How the jobs that a job made fare.
fn children_summary(view: &CallerView, row: &JobRow) -> ChildrenSummary {
    let mut summary = ChildrenSummary::default();
    for child in children(view, row) {
        match child.status() {
            JobStatus::Pending => summary.pending += 1,
            JobStatus::Running => summary.running += 1,
            JobStatus::Dead => summary.dead += 1,
        }
    }
    summary
}

/// The allocations of a group, counted by status.
pub fn group_summary(view: &CallerView, row: &JobRow, counts: &GroupCounts) -> GroupSummary {
    // A group that the newest version has dropped may still run, counted by its position in an older one.
    let position = row.versions.iter().find_map(|version| Some(version.job.group(&counts.group)?.0));
    let (unknown, ran) = view.unknown(row, &counts.group);
    let running = position.map_or(0, |at| view.running(row, at)).saturating_sub(ran);
    let running = running.min(counts.live.saturating_sub(unknown));
    GroupSummary {
        queued: counts.queued,
        complete: counts.complete,
        failed: counts.failed,
        running,
        starting: counts.live.saturating_sub(running + unknown),
        lost: counts.lost,
        unknown,
    }
}
