//! Jobs in the JSON of Nomad's API.

pub(crate) mod read;
pub(crate) mod write;

use crate::{Parsed, decode, diagnostic::Diagnostics, report::Report, tree::Node};

pub use self::write::to_json;

pub(crate) fn parse(source: &str, file: &str) -> Result<Parsed, Diagnostics> {
    document(source, file, decode::json).map(Parsed::from)
}

/// Reads a document of which `decode` makes something.
pub(crate) fn document<T>(
    source: &str,
    file: &str,
    decode: impl FnOnce(&Node<'_>, &Report<'_>) -> Option<T>,
) -> Result<(T, Diagnostics), Diagnostics> {
    let report = Report::new(file, source);
    let document = read::document(source, &report);
    let report = report.checked()?;
    let decoded = decode(&document, &report);
    report.finish(decoded)
}
