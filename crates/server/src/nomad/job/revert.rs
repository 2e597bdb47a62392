//! `PUT /v1/job/:id/revert`: an earlier version of a job becomes its newest one.

use std::sync::Arc;

use berth_api::http::JobRevert;
use berth_model::{
    command::{Command, RegisterJob},
    job::Job,
};
use hyper::StatusCode;

use super::{check_is, key, not_found};
use crate::http::{
    call::{Call, Reply},
    failure::Failure,
    propose, reply,
};
use crate::nomad::{jobs, namespaces};

/// `PUT /v1/job/:id/revert`
pub(in crate::nomad) async fn revert(mut call: Call) -> Reply {
    let request: JobRevert = call.json().await?;
    let key = key(&call);
    check_is(&key, &request.job_id)?;
    let view = call.view();
    let row = view.job(&key).ok_or_else(not_found)?;
    let current = row.current();
    if request.enforce_prior_version.is_some_and(|version| version != current.version) {
        let text = format!("the job has version {}, not the one that is enforced", current.version);
        return Err(Failure::new(StatusCode::CONFLICT, text));
    }
    if request.job_version == current.version && !current.job.stop {
        return Err(Failure::bad_request(format!("version {} is the current one", current.version)));
    }
    let version = row.version(request.job_version).ok_or_else(|| {
        let versions: Vec<String> = row.versions.iter().map(|version| version.version.to_string()).collect();
        let text = format!(
            "version {} not found, the versions kept are {}",
            request.job_version,
            versions.join(", ")
        );
        Failure::not_found(text)
    })?;
    let job = Arc::new(Job { stop: false, ..Job::clone(&version.job) });
    // What was accepted once may be refused today.
    jobs::check_size(&job)?;
    namespaces::check_job(&view, &job)?;
    let eval = call.mint_eval();
    // What was looked at here must still be so when it is written.
    let command =
        RegisterJob { job, eval, only_if: Some(current.index), submission: version.submission.clone() };
    let index = call.propose(Command::RegisterJob(Box::new(command))).await?;
    reply::json(&call.query, &propose::registered(eval, index, index))
}
