//! Job files: HCL and JSON to [`berth_model::job::Job`] and back, with messages that point at the mistake.
//!
//! Both syntaxes become the same `tree`, and one decoder, led by the tables in `schema`, knows names, types,
//! defaults and rules. What Nomad knows and Berth does not yet is refused by name, never dropped.

mod decode;
mod diagnostic;
mod duration;
mod hcl;
mod json;
mod limits;
mod report;
mod schema;
mod setting;
mod source;
mod span;
mod suggest;
mod syntax;
mod tree;

use berth_model::job::Job;

pub use diagnostic::{Diagnostic, Diagnostics, Excerpt, Place};
pub use json::to_json;
pub use limits::{DEPTH_MAX, SOURCE_BYTES_MAX};

use source::Syntax;

/// Reads a job in HCL. `file` is the name that messages give.
pub fn parse_hcl(source: &str, file: &str) -> Result<Job, Diagnostics> {
    hcl::parse(source::checked(source.as_bytes(), file)?, file)
}

/// Reads a job in the JSON of Nomad's API: the job itself, or an object that holds it as `Job`.
pub fn parse_json(source: &[u8], file: &str) -> Result<Job, Diagnostics> {
    json::parse(source::checked(source, file)?, file)
}

/// Reads a job in JSON when it looks like JSON or `file` ends in `.json`, else in HCL.
pub fn parse(source: &[u8], file: &str) -> Result<Job, Diagnostics> {
    let text = source::checked(source, file)?;
    match source::syntax_of(text, file) {
        Syntax::Hcl => hcl::parse(text, file),
        Syntax::Json => json::parse(text, file),
    }
}
