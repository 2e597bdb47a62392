//! Jobs in HCL: text to syntax, syntax to values, values to a job.

mod evaluate;

use berth_model::job::Job;

use crate::{decode, diagnostic::Diagnostics, report::Report, syntax};

pub(crate) fn parse(source: &str, file: &str) -> Result<Job, Diagnostics> {
    let report = Report::new(file, source);
    let items = syntax::parse(source, &report);
    // What follows broken syntax is guesswork; looking for its meaning would only add noise.
    let report = report.checked()?;
    let entries = evaluate::entries(items, &report);
    let job = decode::hcl(&entries, &report);
    report.finish(job)
}
