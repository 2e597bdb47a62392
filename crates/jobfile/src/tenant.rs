//! Files that describe namespaces, quotas, node pools and variables: in the syntax of job files, with the same messages.

use serde_json::Value as Json;

use crate::{
    Inputs, decode,
    diagnostic::Diagnostics,
    hcl, json,
    report::Report,
    schema::{Body, NAMESPACE, NODE_POOL, NODE_POOL_FILE, QUOTA, Schema, VARIABLE},
    source::{self, Syntax},
};

/// Reads a namespace, in HCL or JSON, and gives the JSON of the API.
///
/// # Errors
/// With all that is wrong with the file.
pub fn parse_namespace(source: &[u8], file: &str) -> Result<Json, Diagnostics> {
    parse(source, file, TenantFormat::both(&NAMESPACE, decode::namespace))
}

/// Reads a quota, in HCL or JSON, and gives the JSON of the API.
///
/// # Errors
/// With all that is wrong with the file.
pub fn parse_quota(source: &[u8], file: &str) -> Result<Json, Diagnostics> {
    parse(source, file, TenantFormat::both(&QUOTA, decode::quota))
}

/// Reads a variable, in HCL or JSON, and gives the JSON of the API.
///
/// # Errors
/// With all that is wrong with the file.
pub fn parse_variable(source: &[u8], file: &str) -> Result<Json, Diagnostics> {
    parse(source, file, TenantFormat::both(&VARIABLE, decode::variable))
}

/// Reads a node pool, in HCL (a block with its name) or JSON, and gives the JSON of the API.
///
/// # Errors
/// With all that is wrong with the file.
pub fn parse_node_pool(source: &[u8], file: &str) -> Result<Json, Diagnostics> {
    let hcl = (&NODE_POOL_FILE, decode::node_pool_file as DecodeFn);
    parse(source, file, TenantFormat { hcl, json: (&NODE_POOL, decode::node_pool) })
}

type DecodeFn = fn(&Body<'_>) -> Json;

/// How such a file is written.
struct TenantFormat {
    hcl: (&'static Schema, DecodeFn),
    json: (&'static Schema, DecodeFn),
}

impl TenantFormat {
    /// The same in both syntaxes.
    fn both(schema: &'static Schema, decode: DecodeFn) -> Self {
        Self { hcl: (schema, decode), json: (schema, decode) }
    }
}

fn parse(source: &[u8], file: &str, shape: TenantFormat) -> Result<Json, Diagnostics> {
    let text = source::checked(source, file)?;
    let read = match source::syntax_of(text, file) {
        Syntax::Hcl => hcl::read(text, file, &Inputs::default(), |entries, report| {
            let (schema, decode) = shape.hcl;
            Some(decode(&Body::of_hcl_file(entries, schema, report)))
        }),
        Syntax::Json => json::document(Report::new(file, text), text, |document, report| {
            let (schema, decode) = shape.json;
            Body::of_json(document, schema.what, schema, report).as_ref().map(decode)
        }),
    };
    read.map(|(described, _)| described)
}
