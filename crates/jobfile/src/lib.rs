//! Job files: HCL and JSON to [`berth_model::job::Job`] and back, with messages that point at the mistake.
//!
//! Both syntaxes become the same `tree`, and one decoder, led by the tables in `schema`, knows names, types,
//! defaults and rules. What Berth does not act upon yet is kept and warned of, never dropped.

mod blocks;
mod decode;
mod diagnostic;
mod drivers;
mod excess;
mod format;
mod hcl;
mod inputs;
mod json;
mod limits;
mod record;
mod report;
mod rules;
mod schema;
mod setting;
mod source;
mod span;
mod starters;
mod suggest;
mod syntax;
mod tenant;
mod tree;

use std::collections::BTreeMap;

use berth_model::job::Job;

pub use decode::is_deceptive;
pub use diagnostic::{Diagnostic, Diagnostics, Excerpt, Location, Severity};
pub use drivers::{DriverSetting, SettingSupport, contains_tasks, driver_settings};
pub use excess::{Excess, excess};
pub use format::format;
pub use inputs::Inputs;
pub use json::{group_to_json, head_to_json, to_json};
pub use limits::{
    CONSTRAINT_BYTES_MAX, DEPTH_MAX, GROUP_TASKS_MAX, JOB_ALLOCATIONS_MAX, JOB_BYTES_MAX, JOB_GROUPS_MAX,
    MAP_BYTES_MAX, NAME_BYTES_MAX, SOURCE_BYTES_MAX,
};
pub use rules::{
    HOST_VOLUME_CAPABILITIES, HostVolumeRule, Level, NAMESPACE_CAPABILITIES, NODE_POOL_CAPABILITIES,
    NamespaceRule, NodePoolRule, OPERATOR_CAPABILITIES, OperatorRule, PolicyRules, VARIABLE_CAPABILITIES,
    VariableRule, parse_policy,
};
pub use schema::{definitions, unenforced};
pub use starters::{STARTERS, Starter};
pub use tenant::{parse_namespace, parse_node_pool, parse_quota, parse_variable};

use source::Syntax;

/// A job that was read, with the warnings about it.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedJob {
    /// The job.
    pub job: Job,
    /// What is accepted and not implemented; often none.
    pub warnings: Diagnostics,
}

impl From<(Job, Diagnostics)> for ParsedJob {
    fn from((job, warnings): (Job, Diagnostics)) -> Self {
        Self { job, warnings }
    }
}

/// Reads a job in HCL. `file` is the name that messages give.
pub fn parse_hcl(source: &str, file: &str, inputs: &Inputs) -> Result<ParsedJob, Diagnostics> {
    hcl::parse(source::checked(source.as_bytes(), file)?, file, inputs)
}

/// Checks a job in HCL, and gives it in Nomad's JSON with nothing but what it says, and what was found: what registers it
/// fills in the rest.
pub fn parse_hcl_as_given(
    source: &str,
    file: &str,
    inputs: &Inputs,
) -> Result<(serde_json::Value, Diagnostics), Diagnostics> {
    hcl::parse_as_given(source::checked(source.as_bytes(), file)?, file, inputs)
}

/// Reads a job in the JSON of Nomad's API: the job itself, or an object that holds it as `Job`.
pub fn parse_json(source: &[u8], file: &str) -> Result<ParsedJob, Diagnostics> {
    parse_json_with(source, file, &Inputs::default())
}

/// The same, with the drivers of the nodes and the caller's namespace.
pub fn parse_json_with(source: &[u8], file: &str, inputs: &Inputs) -> Result<ParsedJob, Diagnostics> {
    json::parse(source::checked(source, file)?, file, inputs)
}

/// Whether what is to be read as a job looks like JSON, or `file` ends in `.json`.
pub fn is_json(source: &[u8], file: &str) -> bool {
    source::checked(source, file).is_ok_and(|text| source::syntax_of(text, file) == Syntax::Json)
}

/// Reads a job in JSON when it looks like JSON or `file` ends in `.json`, else in HCL.
pub fn parse(source: &[u8], file: &str, inputs: &Inputs) -> Result<ParsedJob, Diagnostics> {
    let text = source::checked(source, file)?;
    match source::syntax_of(text, file) {
        Syntax::Hcl => hcl::parse(text, file, inputs),
        Syntax::Json => json::parse(text, file, inputs),
    }
}

/// The values of variables that such a file takes from the environment, by name: of those that it declares, and that
/// neither files nor the command line give. Given on the command line, they make the same job.
pub fn from_environment(source: &[u8], file: &str, inputs: &Inputs) -> BTreeMap<String, String> {
    match source::checked(source, file) {
        Ok(text) if source::syntax_of(text, file) == Syntax::Hcl => hcl::from_environment(text, file, inputs),
        _ => BTreeMap::new(),
    }
}
