//! `GET /v1/job/:id/submission`: the source of a version of a job.

use berth_api::http::{JobSubmission, JobSubmissionRead};
use berth_model::{job::Submission, store::JobVersion};

use super::read::read_row;
use crate::http::{
    call::{Call, Reply},
    failure::Failure,
    reply,
};

/// `GET /v1/job/:id/submission?version=N`: of the newest version, if none is named.
pub(in crate::nomad) async fn submission(call: Call) -> Reply {
    let requested = call.query.number("version")?;
    read_row(&call, |_, row| {
        let none = || Failure::not_found("job source not found");
        let version =
            requested.map_or(Some(row.current()), |requested| row.version(requested)).ok_or_else(none)?;
        let read = version.submission.as_deref().map(|submission| read(version, submission));
        reply::json(&call.query, &read.ok_or_else(none)?)
    })
    .await
}

fn read(version: &JobVersion, submission: &Submission) -> JobSubmissionRead {
    let flags = &submission.variable_flags;
    JobSubmissionRead {
        submission: JobSubmission {
            source: submission.source.clone(),
            format: submission.format.clone(),
            variable_flags: (!flags.is_empty()).then(|| flags.clone()),
            variables: submission.variables.clone(),
        },
        namespace: version.job.key.namespace.to_string(),
        job_id: version.job.key.id.to_string(),
        version: version.version,
        job_modify_index: version.index.0,
    }
}
