//! Names and values below each other, for one thing in detail.

use unicode_width::UnicodeWidthStr;

use super::text::clean;

/// Names and values, in order. Values may hold what others wrote: they are shown cleaned.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// Adds a value.
    pub fn with(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        self.0.push((name, clean(value.as_ref()).into_owned()));
        self
    }

    /// Adds a value unless it is empty.
    pub fn with_some(self, name: &'static str, value: impl AsRef<str>) -> Self {
        if value.as_ref().is_empty() { self } else { self.with(name, value) }
    }

    /// One line each.
    pub fn render(&self) -> String {
        let width = self.0.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        self.0
            .iter()
            .map(|(name, value)| format!("{name:width$}  {value}").trim_end().to_owned() + "\n")
            .collect()
    }
}
