//! Jobs in the JSON of Nomad's API.

pub(crate) mod read;
pub(crate) mod write;

use crate::{Inputs, ParsedJob, decode, diagnostic::Diagnostics, report::Report, tree::Node};

pub use self::write::{group_to_json, head_to_json, to_json};

pub(crate) fn parse(source: &str, file: &str, inputs: &Inputs) -> Result<ParsedJob, Diagnostics> {
    let report = Report::new(file, source).with(inputs).ignoring_unknown_keys();
    document(report, source, decode::json).map(ParsedJob::from)
}

/// Reads a document of which `decode` makes something.
pub(crate) fn document<T>(
    report: Report<'_>,
    source: &str,
    decode: impl FnOnce(&Node<'_>, &Report<'_>) -> Option<T>,
) -> Result<(T, Diagnostics), Diagnostics> {
    let document = read::document(source, &report);
    let report = report.checked()?;
    let decoded = decode(&document, &report);
    report.finish(decoded)
}
