//! `berth var get`: one variable.

use clap::Args;

use super::format::VarFormat;
use crate::{
    complete,
    failure::{Exit, Failure},
    output,
    remote::Remote,
};

/// Arguments of `var get`.
#[derive(Debug, Args)]
pub struct VarGetArgs {
    /// Its path
    #[arg(value_name = "PATH", add = complete::variables())]
    path: String,
    /// Print only the value of this item
    #[arg(long, value_name = "NAME", conflicts_with = "out")]
    item: Option<String>,
    /// Output format
    #[arg(long, short, visible_alias = "output", value_enum, value_name = "FORM", default_value = "table")]
    out: VarFormat,
}

impl VarGetArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let variable = remote.variable(&self.path).await?;
        let Some(name) = &self.item else { return Ok(output::print(&self.out.render(&variable)?)?) };
        let value = variable.items.as_ref().and_then(|items| items.get(name));
        let value = value.ok_or_else(|| {
            let names: Vec<&str> = variable.items.iter().flatten().map(|(name, _)| name.as_str()).collect();
            let message = format!("variable {} has no item `{name}`", self.path);
            Failure::new(Exit::NotFound, message).help(format!("it has {}", names.join(", ")))
        })?;
        Ok(output::print(&format!("{value}\n"))?)
    }
}
