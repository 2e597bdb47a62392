//! The counts of a job's groups: reading and changing them.

use std::collections::BTreeMap;

use berth_api::http::{JobRegistered, JobScale};
use berth_model::{
    Index, Timestamp,
    command::{Command, ScaleJob},
    job::{GROUP_COUNT_MAX, Group, Job, Scaling},
    scaling::ScalingEvent,
    store::JobRow,
    value::Value,
};

use super::{index, key, not_found};
use crate::{
    WatchKey,
    access::CallerView,
    convert::value,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    nomad::{convert, jobs},
};

/// Bytes of a message that are kept.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Bytes that are kept of what a scaling says to programs, as JSON.
const META_BYTES_MAX: usize = 8 << 10;

/// `GET /v1/job/:id/scale`
pub(in crate::nomad) async fn read(call: Call) -> Reply {
    let key = key(&call);
    let watch = [WatchKey::Job(key.clone()), WatchKey::JobAllocs(key.clone())];
    let scale_index = |view: &CallerView| match view.job(&key) {
        Some(row) => view.job_counts_index(row),
        None => index(view, &key),
    };
    block::read(&call, &watch, scale_index, |view| {
        let row = view.job(&key).ok_or_else(not_found)?;
        reply::json(&call.query, &convert::scale_status(view, row))
    })
    .await
}

/// `PUT /v1/job/:id/scale`
pub(in crate::nomad) async fn scale(mut call: Call) -> Reply {
    let request: JobScale = call.json().await?;
    let key = key(&call);
    let view = call.view();
    let row = view.job(&key).ok_or_else(not_found)?;
    let group = target(row, &request)?;
    let count = count(row, group, &request)?;
    if let Some(count) = count {
        jobs::check_size(&scaled(row.job(), &group.name, count))?;
    }
    let eval = count.map(|_| call.mint_eval());
    let event = ScalingEvent {
        group: group.name.clone(),
        count,
        previous_count: group.count,
        error: request.error,
        message: message(request.message)?,
        meta: meta(request.meta.unwrap_or_default())?,
        eval,
        at: Timestamp::default(),
        index: Index::default(),
    };
    let Index(at) = call.propose(Command::ScaleJob(Box::new(ScaleJob { job: key, event }))).await?;
    let answer = JobRegistered {
        eval_id: eval.map(|eval| eval.to_string()).unwrap_or_default(),
        eval_create_index: if eval.is_some() { at } else { 0 },
        job_modify_index: if eval.is_some() { at } else { row.current().index.0 },
        index: at,
        known_leader: true,
        ..JobRegistered::default()
    };
    reply::json(&call.query, &answer)
}

/// The job with another count of a group.
fn scaled(job: &Job, group: &str, count: u32) -> Job {
    let mut job = job.clone();
    job.groups.iter_mut().filter(|own| own.name == group).for_each(|own| own.count = count);
    job
}

/// The group that is meant; a job with one group need not name it.
fn target<'r>(row: &'r JobRow, request: &JobScale) -> Result<&'r Group, Failure> {
    let groups = &row.job().groups;
    let names = || groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>().join(", ");
    match (request.target.get("Group"), &groups[..]) {
        (Some(name), _) => groups.iter().find(|group| group.name == *name).ok_or_else(|| {
            let cut: String = name.chars().take(64).collect();
            Failure::bad_request(format!(
                "Target.Group: the job has no group `{cut}`, its groups are {}",
                names()
            ))
        }),
        (None, [only]) => Ok(only),
        (None, _) => {
            Err(Failure::bad_request(format!("Target.Group must name one of the job's groups: {}", names())))
        }
    }
}

fn count(row: &JobRow, group: &Group, request: &JobScale) -> Result<Option<u32>, Failure> {
    let Some(count) = request.count else { return Ok(None) };
    if request.error {
        return Err(Failure::bad_request("Error is for a scaling that was not done: leave Count out"));
    }
    if row.job().job_type.is_per_node() {
        let text = format!("a {} job runs on each node: it has no count", row.job().job_type.as_str());
        return Err(Failure::bad_request(text));
    }
    if row.job().stop {
        return Err(Failure::bad_request("the job is stopped: register it again before scaling it"));
    }
    let fits = u32::try_from(count).ok().filter(|count| *count <= GROUP_COUNT_MAX);
    let fits = fits.ok_or_else(|| {
        Failure::bad_request(format!("Count: `{count}` is not between 0 and {GROUP_COUNT_MAX}"))
    })?;
    if let Some(Scaling { min, max, .. }) = group.scaling.as_deref() {
        let max = if *max == 0 { GROUP_COUNT_MAX } else { *max };
        if !(*min..=max).contains(&fits) {
            let name = &group.name;
            let text = format!(
                "Count: {fits} is not between {min} and {max}, the limits of group `{name}` in its `scaling` block"
            );
            return Err(Failure::bad_request(text));
        }
    }
    Ok(Some(fits))
}

/// Twenty scalings of each group are kept, on every server.
fn meta(values: BTreeMap<String, serde_json::Value>) -> Result<BTreeMap<String, Value>, Failure> {
    let bytes = serde_json::to_vec(&values).map_or(usize::MAX, |text| text.len());
    if bytes > META_BYTES_MAX {
        return Err(Failure::bad_request(format!(
            "Meta has {bytes} bytes, at most {META_BYTES_MAX} are kept: shorten it"
        )));
    }
    Ok(values.iter().map(|(name, json)| (name.clone(), value::from_json(json))).collect())
}

fn message(text: String) -> Result<String, Failure> {
    if text.len() > MESSAGE_BYTES_MAX {
        let bytes = text.len();
        return Err(Failure::bad_request(format!(
            "Message has {bytes} bytes, at most {MESSAGE_BYTES_MAX} are kept"
        )));
    }
    Ok(text)
}
