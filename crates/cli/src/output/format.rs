//! Output formats: text for people, and what scripts read.

use serde::Serialize;
use serde_json::Value;

use super::{Layout, template::Template};
use crate::failure::{Exit, Failure};

/// What a reading command prints.
pub trait View: Serialize {
    /// For people: tables and fields.
    fn text(&self, layout: Layout) -> String;

    /// The id of each item, as other commands take it.
    fn names(&self) -> Vec<String>;
}

/// In which form data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Aligned text, as wide as the terminal.
    #[default]
    Table,
    /// Aligned text with every column and whole ids.
    Wide,
    /// The API's own JSON.
    Json,
    /// The same as YAML.
    Yaml,
    /// Ids alone, one a line: what other commands take.
    Name,
}

/// Renders a view in one of the formats or by a template.
#[derive(Debug)]
pub enum Renderer<'a> {
    /// One of the named ones.
    Named(Format),
    /// The user's own template.
    Template(Box<Template<'a>>),
}

impl Renderer<'_> {
    /// The text to print.
    pub fn render(&self, view: &impl View) -> Result<String, Failure> {
        match self {
            Self::Named(Format::Table) => Ok(view.text(Layout::stdout(false))),
            Self::Named(Format::Wide) => Ok(view.text(Layout::stdout(true))),
            Self::Named(Format::Json) => Ok(serde_json::to_string_pretty(view).map_err(unwritable)? + "\n"),
            Self::Named(Format::Yaml) => serde_saphyr::to_string(&json(view)?).map_err(unwritable),
            Self::Named(Format::Name) => Ok(view.names().iter().map(|name| format!("{name}\n")).collect()),
            Self::Template(template) => template.render(&json(view)?),
        }
    }

    /// The text to print on one line, where there is such a form.
    pub fn line(&self, view: &impl View) -> Option<Result<String, Failure>> {
        let json = || serde_json::to_string(view).map(|text| text + "\n").map_err(unwritable);
        matches!(self, Self::Named(Format::Json)).then(json)
    }
}

fn json(view: &impl View) -> Result<Value, Failure> {
    serde_json::to_value(view).map_err(unwritable)
}

fn unwritable(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, format!("cannot write the answer: {error}"))
}
