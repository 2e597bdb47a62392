//! Jobs in HCL: text to syntax, syntax to values, values to a job.

mod evaluate;

use crate::{Inputs, Parsed, decode, diagnostic::Diagnostics, report::Report, syntax};

pub(crate) fn parse(source: &str, file: &str, _: &Inputs) -> Result<Parsed, Diagnostics> {
    let report = Report::new(file, source);
    let items = syntax::parse(source, &report);
    // What follows broken syntax is guesswork; looking for its meaning would only add noise.
    let report = report.checked()?;
    let entries = evaluate::entries(items, &report);
    let job = decode::hcl(&entries, &report);
    report.finish(job).map(Parsed::from)
}
