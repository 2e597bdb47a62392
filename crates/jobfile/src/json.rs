//! Jobs in the JSON of Nomad's API.

mod read;
mod write;

use berth_model::job::Job;

use crate::{decode, diagnostic::Diagnostics, report::Report};

pub use write::to_json;

pub(crate) fn parse(source: &str, file: &str) -> Result<Job, Diagnostics> {
    let report = Report::new(file, source);
    let document = read::document(source, &report);
    let report = report.checked()?;
    let job = decode::json(&document, &report);
    report.finish(job)
}
