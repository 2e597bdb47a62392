//! Jobs in the JSON of Nomad's API.

pub(crate) mod read;
pub(crate) mod write;

use crate::{Parsed, decode, diagnostic::Diagnostics, report::Report};

pub use self::write::to_json;

pub(crate) fn parse(source: &str, file: &str) -> Result<Parsed, Diagnostics> {
    let report = Report::new(file, source);
    let document = read::document(source, &report);
    let report = report.checked()?;
    let job = decode::json(&document, &report);
    report.finish(job).map(Parsed::from)
}
