//! Files that describe namespaces, quotas and variables: in the syntax of job files, with the same messages.

use serde_json::Value as Json;

use crate::{
    Inputs, decode,
    diagnostic::Diagnostics,
    hcl, json,
    report::Report,
    schema::{Body, NAMESPACE, QUOTA, Schema, VARIABLE},
    source::{self, Syntax},
};

/// Reads a namespace, in HCL or JSON, and gives the JSON of the API.
///
/// # Errors
/// With all that is wrong with the file.
pub fn parse_namespace(source: &[u8], file: &str) -> Result<Json, Diagnostics> {
    parse(source, file, &NAMESPACE, decode::namespace)
}

/// Reads a quota, in HCL or JSON, and gives the JSON of the API.
///
/// # Errors
/// With all that is wrong with the file.
pub fn parse_quota(source: &[u8], file: &str) -> Result<Json, Diagnostics> {
    parse(source, file, &QUOTA, decode::quota)
}

/// Reads a variable, in HCL or JSON, and gives the JSON of the API.
///
/// # Errors
/// With all that is wrong with the file.
pub fn parse_variable(source: &[u8], file: &str) -> Result<Json, Diagnostics> {
    parse(source, file, &VARIABLE, decode::variable)
}

fn parse(
    source: &[u8],
    file: &str,
    schema: &'static Schema,
    decode: fn(&Body<'_>) -> Json,
) -> Result<Json, Diagnostics> {
    let text = source::checked(source, file)?;
    let read = match source::syntax_of(text, file) {
        Syntax::Hcl => hcl::read(text, file, &Inputs::default(), |entries, report| {
            Some(decode(&Body::of_hcl_file(entries, schema, report)))
        }),
        Syntax::Json => json::document(Report::new(file, text), text, |document, report| {
            Body::of_json(document, schema.what, schema, report).as_ref().map(decode)
        }),
    };
    read.map(|(described, _)| described)
}
