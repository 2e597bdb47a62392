//! Files in HCL: text to syntax, syntax to values, values to a job or what else a file describes.

mod dynamic;
mod error;
mod evaluate;
mod expression;
mod functions;
mod locals;
mod operators;
mod references;
mod scope;
mod template;
mod types;
mod value;
mod variables;

use std::collections::BTreeMap;

use crate::{
    Inputs, ParsedJob, decode,
    diagnostic::Diagnostics,
    report::Report,
    syntax::{self, Item},
    tree::Entry,
};

use evaluate::Evaluator;
use scope::{Frame, Scope};

/// Blocks beside the job that only help to write it.
const HELPERS: &[&str] = &["variable", "variables", "locals"];

pub(crate) fn parse(source: &str, file: &str, inputs: &Inputs) -> Result<ParsedJob, Diagnostics> {
    read(source, file, inputs, decode::hcl).map(ParsedJob::from)
}

/// The job as it is given, as JSON.
pub(crate) fn parse_as_given(
    source: &str,
    file: &str,
    inputs: &Inputs,
) -> Result<(serde_json::Value, Diagnostics), Diagnostics> {
    read(source, file, inputs, decode::hcl_as_given)
}

/// The values of variables that the file takes from the environment, by name; none of a file with broken syntax.
pub(crate) fn from_environment(source: &str, file: &str, inputs: &Inputs) -> BTreeMap<String, String> {
    let report = Report::new(file, source).with(inputs);
    let items = syntax::parse(source, &report);
    variables::from_environment(&Evaluator::new(&report, inputs.base_dir.as_deref()), &items, inputs)
}

/// Reads a file of which `decode` makes something.
pub(crate) fn read<T>(
    source: &str,
    file: &str,
    inputs: &Inputs,
    decode: impl FnOnce(&[Entry<'_>], &Report<'_>) -> Option<T>,
) -> Result<(T, Diagnostics), Diagnostics> {
    let report = Report::new(file, source).with(inputs);
    let (helpers, rest): (Vec<Item<'_>>, Vec<Item<'_>>) =
        syntax::parse(source, &report).into_iter().partition(|item| HELPERS.contains(&&*item.key.text));
    // What follows broken syntax is guesswork; looking for its meaning would only add noise.
    let report = report.checked()?;
    let entries = {
        let evaluator = Evaluator::new(&report, inputs.base_dir.as_deref());
        let variables = variables::values(&evaluator, &helpers, inputs)?;
        let var = Frame::new("var", variables, Scope::default());
        let local = Frame::new("local", locals::values(&evaluator, &helpers, var.scope()), var.scope());
        // Without its variables a job makes no sense; nor does what is cut off at a limit.
        let entries = report.is_sound().then(|| evaluator.body(&rest, local.scope()));
        entries.filter(|_| !evaluator.is_over())
    };
    let Some(entries) = entries else { return Err(report.into_errors()) };
    if !report.is_sound() {
        report.expect_missing_values();
    }
    let decoded = decode(&entries, &report);
    report.finish(decoded)
}
