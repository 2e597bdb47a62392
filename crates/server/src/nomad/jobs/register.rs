//! `PUT /v1/jobs`: wishing for a job, and what all requests that carry a job have in common.

use berth_api::http::JobRegistered;
use berth_jobfile::{Inputs, Parsed};
use berth_model::{
    Index,
    command::{Command, RegisterJob},
    job::Job,
};
use hyper::StatusCode;
use serde::Deserialize;

use super::{BODY_NAME, drivers, warnings};
use crate::{
    http::{
        call::{self, Call, Reply},
        failure::Failure,
        propose, reply,
    },
    nomad::namespaces,
};

/// What a registration may say beside the job, which is read by itself: as a tree of JSON it would take many times as
/// much memory.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Conditions {
    enforce_index: bool,
    job_modify_index: u64,
}

/// `PUT /v1/jobs`
pub(in crate::nomad) async fn register(mut call: Call) -> Reply {
    register_as(&mut call, None).await
}

/// Registers the job in the body, whose id must be `id` if that is given.
pub(in crate::nomad) async fn register_as(call: &mut Call, id: Option<&str>) -> Reply {
    let parse_job = parse_job(call);
    let read = move |text: &[u8]| Ok((call::parse::<Conditions>(text)?, parse_job(text)?));
    let (conditions, Parsed { job, warnings: read }) =
        call.body(call.api.limits.job_body_bytes_max, read).await?;
    check_place(call, &job, id)?;
    let warnings = warnings(&call.view(), &job, &read);
    let eval = call.mint_eval();
    let only_if = conditions.enforce_index.then_some(Index(conditions.job_modify_index));
    let command = RegisterJob { job: job.into(), eval, only_if };
    let index = call.propose(Command::RegisterJob(Box::new(command))).await?;
    let registered = propose::registered(eval, index, index);
    reply::json(&call.query, &JobRegistered { warnings, ..registered })
}

/// Refuses a job that has become larger than a cluster takes: by another count, or by what a dispatch gave it. Those that
/// come as text have been asked already.
pub(in crate::nomad) fn check_size(job: &Job) -> Result<(), Failure> {
    match berth_jobfile::excess(job) {
        None => Ok(()),
        Some(excess) => Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, excess.to_string())),
    }
}

/// What reads the job in a body.
pub(in crate::nomad) fn parse_job(call: &Call) -> impl Fn(&[u8]) -> Result<Parsed, Failure> + Send + use<> {
    let latest = call.later_view();
    move |text| {
        let read = |inputs: &Inputs| berth_jobfile::parse_json_with(text, BODY_NAME, inputs);
        let read = drivers::read(Inputs::default(), &latest, read);
        read.map_err(|mistakes| Failure::bad_request(mistakes.to_string()))
    }
}

/// The job's namespace and id must be those that the request speaks of, and its caller may mount what it mounts.
pub(in crate::nomad) fn check_place(call: &Call, job: &Job, id: Option<&str>) -> Result<(), Failure> {
    call.access().require(&job.key.namespace)?;
    call.access().require_host_volumes(job)?;
    namespaces::check_job(&call.view(), job)?;
    if let Some(asked) = call.query.text("namespace").filter(|asked| *asked != &*job.key.namespace) {
        let own = &job.key.namespace;
        return Err(Failure::bad_request(format!(
            "the job is of namespace `{own}`, the request of `{asked}`"
        )));
    }
    match id {
        Some(id) if id != &*job.key.id => {
            let own = &job.key.id;
            Err(Failure::bad_request(format!("the job's id is `{own}`, the request is about `{id}`")))
        }
        _ => Ok(()),
    }
}
