//! Parses and validates job files without registering them.

use std::collections::BTreeMap;

use berth_api::http::{Job, JobValidated, JobsParse};
use berth_jobfile::{Inputs, Severity};
use serde::de::IgnoredAny;

use super::{
    BODY_NAME, drivers,
    register::{Conditions, JOB, settle_region},
    warnings,
};
use crate::{
    access::CallerView,
    http::{
        call::{self, Call, Reply},
        failure::Failure,
        ignored::Ignored,
        reply,
    },
};

/// The name that messages give to a job file that came in a body.
const FILE_NAME: &str = "JobHCL";
/// The name that messages give to values of variables that came in a body.
const VARIABLES_NAME: &str = "Variables";

/// `PUT /v1/jobs/parse`
pub(in crate::nomad) async fn parse(mut call: Call) -> Reply {
    let (latest, ignored) = (call.later_view(), call.ignored());
    let read = move |text: &[u8]| {
        let request: JobsParse = call::parse(text, &ignored)?;
        // Job files of strangers read no files of ours: there is no folder for them to begin at.
        let inputs = Inputs::default().file(VARIABLES_NAME, request.variables);
        let job = drivers::read(inputs, &latest, |inputs| {
            let source = &request.job_hcl;
            if request.canonicalize {
                let parsed = berth_jobfile::parse_hcl(source, FILE_NAME, inputs)?;
                return Ok(berth_jobfile::to_json(&parsed.job));
            }
            berth_jobfile::parse_hcl_as_given(source, FILE_NAME, inputs).map(|(job, _)| job)
        });
        job.map_err(|diagnostics| Failure::bad_request(diagnostics.to_string()))
    };
    // A small text may ask for lists of millions.
    let job = call.body_apart(call.api.limits.job_body_bytes_max, read).await?;
    reply::json(&call.query, &Job(job))
}

/// `PUT /v1/validate/job`
pub(in crate::nomad) async fn validate(mut call: Call) -> Reply {
    let (latest, ignored) = (call.later_view(), call.ignored().apart_from(JOB));
    let region = call.server().region.clone();
    let read = move |text: &[u8]| {
        // A job that is empty has mistakes; that there is none is one of the request.
        if call::parse::<BTreeMap<String, IgnoredAny>>(text, &Ignored::default())?.is_empty() {
            return Err(Failure::bad_request("there is no job: send it as `Job`"));
        }
        call::parse::<Conditions>(text, &ignored).map(|_| validated(text, &latest, &region))
    };
    let validated = call.body(call.api.limits.job_body_bytes_max, read).await?;
    reply::json(&call.query, &validated)
}

fn validated(text: &[u8], latest: &impl Fn() -> CallerView, region: &str) -> JobValidated {
    let read = |inputs: &Inputs| berth_jobfile::parse_json_with(text, BODY_NAME, inputs);
    let diagnostics = match drivers::read(Inputs::default(), latest, read) {
        Ok(mut parsed) => {
            if let Err(refused) = settle_region(&mut parsed.job, region) {
                return JobValidated {
                    driver_config_validated: true,
                    validation_errors: Some(vec![refused.clone()]),
                    error: refused,
                    warnings: parsed.warnings.messages(),
                };
            }
            let warnings = warnings(&latest(), &parsed.job, &parsed.warnings);
            return JobValidated { driver_config_validated: true, warnings, ..JobValidated::default() };
        }
        Err(diagnostics) => diagnostics,
    };
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    JobValidated {
        driver_config_validated: true,
        validation_errors: Some(errors.map(|diagnostic| diagnostic.message.clone()).collect()),
        error: diagnostics.to_string(),
        warnings: String::new(),
    }
}
