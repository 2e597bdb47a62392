//! Aligned names and values, for one item in detail.

use unicode_width::UnicodeWidthStr;

use super::{layout::Layout, style::Tone, text::clean};

/// Names and values, in order. Values may hold what others wrote: they are shown cleaned.
#[derive(Debug, Clone)]
pub struct Fields {
    layout: Layout,
    fields: Vec<(&'static str, String)>,
}

impl Fields {
    pub fn new(layout: Layout) -> Self {
        Self { layout, fields: Vec::new() }
    }

    /// Adds a value.
    pub fn with(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        self.fields.push((name, clean(value.as_ref()).into_owned()));
        self
    }

    /// Adds a value unless it is empty.
    pub fn with_some(self, name: &'static str, value: impl AsRef<str>) -> Self {
        if value.as_ref().is_empty() { self } else { self.with(name, value) }
    }

    /// Adds the word for a status, in its tone.
    pub fn with_status(mut self, name: &'static str, status: impl AsRef<str>) -> Self {
        let status = clean(status.as_ref()).into_owned();
        self.fields.push((name, self.layout.palette.paint(&status, Tone::of_status(&status))));
        self
    }

    /// Renders one line for each field, with values aligned.
    pub fn render(&self) -> String {
        let width = self.fields.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        self.fields
            .iter()
            .map(|(name, value)| format!("{name:width$}  {value}").trim_end().to_owned() + "\n")
            .collect()
    }
}

/// Sections of text, parted by empty lines; empty ones are left out.
pub fn sections(sections: impl IntoIterator<Item = String>) -> String {
    sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
}
