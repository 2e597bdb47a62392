//! The formats in which data is printed.

use serde::Serialize;

use crate::failure::{Exit, Failure};

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Aligned text.
    #[default]
    Table,
    /// The API's own JSON.
    Json,
}

impl Format {
    /// Prints the value as JSON, or as the text that `table` makes of it.
    pub fn print<T: Serialize + ?Sized>(
        self,
        value: &T,
        table: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = match self {
            Self::Table => table(value),
            Self::Json => pretty(value)?,
        };
        Ok(super::print(&text)?)
    }
}

fn pretty<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write JSON: {error}")))?;
    Ok(text + "\n")
}
