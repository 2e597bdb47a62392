//! `berth var put`: writes a variable.

use std::collections::BTreeMap;

use berth_api::http::Variable;
use clap::Args;

use super::format::VarFormat;
use crate::{
    complete,
    failure::{Exit, Failure},
    output,
    remote::Remote,
    source,
};

/// Arguments of `var put`.
#[derive(Debug, Args)]
pub struct VarPutArgs {
    /// Path, unless the file contains it; `@FILE` for a file that describes the variable, in HCL or JSON, `-` for standard input
    #[arg(value_name = "PATH|@FILE|-", add = complete::variables())]
    what: String,
    /// Items: `NAME=VALUE`, `NAME=@FILE` for the content of a file, `NAME=-` for standard input; or a file as above
    #[arg(value_name = "NAME=VALUE")]
    items: Vec<String>,
    /// Write only if it was last changed at this index; 0 if it must not exist yet
    #[arg(long, value_name = "INDEX", conflicts_with = "force")]
    check_index: Option<u64>,
    /// Overwrite whatever is there
    #[arg(long)]
    force: bool,
    /// Format of the file; by default it is detected
    #[arg(long = "in", value_name = "hcl|json", value_parser = ["hcl", "json"])]
    form: Option<String>,
    /// Output format of the written variable, with its items
    #[arg(long, short, value_enum, value_name = "FORM", default_value = "none")]
    out: VarFormat,
}

impl VarPutArgs {
    /// Writes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let (variable, index) = self.described()?;
        let remote = match &*variable.namespace {
            "" => remote.clone(),
            namespace => remote.in_namespace(namespace),
        };
        let only_if = self.check_index.or_else(|| index.filter(|_| !self.force));
        let written = remote.put_variable(&variable, only_if).await?;
        output::eprint_line(&format!(
            "variable {} is written at index {}",
            written.path, written.modify_index
        ));
        Ok(output::print(&self.out.render(&written)?)?)
    }

    /// What is to be written; and where it was last written, if a file says so that was made from it.
    fn described(&self) -> Result<(Variable, Option<u64>), Failure> {
        let (mut variable, index, items) = match (file(&self.what), self.items.split_first()) {
            (Some(path), _) => {
                let (variable, index) = self.read(path)?;
                (variable, index, &self.items[..])
            }
            (None, Some((first, rest))) if file(first).is_some() && !first.contains('=') => {
                let (variable, index) = self.read(file(first).unwrap_or_default())?;
                (Variable { path: self.what.clone(), ..variable }, index, rest)
            }
            (None, _) => (Variable { path: self.what.clone(), ..Variable::default() }, None, &self.items[..]),
        };
        let mut all: BTreeMap<String, String> = variable.items.take().unwrap_or_default();
        for item in items {
            let (name, value) = named(item)?;
            all.insert(name, value);
        }
        let usage = |message: &str| Err(Failure::new(Exit::Usage, message));
        if variable.path.is_empty() {
            return usage(
                "the variable has no path: name one before the file, or write `path = \"...\"` in it",
            );
        }
        if all.is_empty() {
            return usage("the variable has no items: name at least one, as NAME=VALUE");
        }
        variable.items = Some(all);
        Ok((variable, index))
    }

    fn read(&self, path: &str) -> Result<(Variable, Option<u64>), Failure> {
        let (text, name) = (source::read(path)?, source::name(path));
        let is_json = text.trim_ascii_start().starts_with(b"{");
        if self.form.as_deref().is_some_and(|form| (form == "json") != is_json) {
            let message = format!("{name} is not in the form that -in says");
            return Err(Failure::new(Exit::Usage, message));
        }
        let read = berth_jobfile::parse_variable(&text, name);
        let read = read.map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))?;
        let variable: Variable = serde_json::from_value(read)
            .map_err(|error| Failure::new(Exit::Failed, format!("{name}: {error}")))?;
        // What was printed by `var get -out json` says where it was last written.
        let message: Option<Variable> = if is_json { serde_json::from_slice(&text).ok() } else { None };
        let index = message.map(|message| message.modify_index).filter(|index| *index > 0);
        Ok((variable, index))
    }
}

/// The file that an argument names.
fn file(argument: &str) -> Option<&str> {
    if argument == source::STDIN { Some(argument) } else { argument.strip_prefix('@') }
}

/// An item and its value, which may be in a file.
fn named(item: &str) -> Result<(String, String), Failure> {
    let Some((name, value)) = item.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        // What stands there may be a secret without its name.
        return Err(Failure::new(Exit::Usage, "an item is not NAME=VALUE: give each of them a name"));
    };
    let value = match file(value) {
        None => value.to_owned(),
        Some(path) => String::from_utf8(source::read(path)?).map_err(|_| {
            Failure::new(Exit::Failed, format!("{} holds no text, and items are text", source::name(path)))
        })?,
    };
    Ok((name.to_owned(), value))
}
