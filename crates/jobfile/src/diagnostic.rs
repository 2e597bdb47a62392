//! What is wrong with a job file, where, and what to do about it.

mod excerpt;

use crate::decode::is_deceptive;
use std::fmt;

pub use excerpt::Excerpt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// There is no job.
    Error,
    /// The owner of the job should know it, whether there is a job or not.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// The file's name, as the caller gave it.
    pub file: String,
    /// Where in the file.
    pub location: Location,
    /// What to do about it.
    pub help: Option<String>,
}

/// Where in its file an error or warning is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// At a line.
    Line(Excerpt),
    /// At this path of a JSON document, as `Job.TaskGroups[0].Count`.
    Path(String),
    /// The file as a whole.
    File,
}

impl Location {
    fn line_and_column(&self) -> Option<(usize, usize)> {
        match self {
            Self::Line(excerpt) => Some((excerpt.line, excerpt.column)),
            Self::Path(_) | Self::File => None,
        }
    }
}

impl Diagnostic {
    /// A mistake of a file as a whole.
    pub(crate) fn of_file(file: &str, message: impl Into<String>) -> Self {
        let (severity, file) = (Severity::Error, file.to_owned());
        Self { severity, message: message.into(), file, location: Location::File, help: None }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.severity, self.message)?;
        let margin = match &self.location {
            Location::Line(excerpt) => excerpt.line.to_string().len(),
            Location::Path(_) | Location::File => 1,
        };
        match &self.location {
            Location::Line(excerpt) => {
                writeln!(f, "{:margin$}--> {}:{}:{}", "", self.file, excerpt.line, excerpt.column)?;
                excerpt.draw(f, margin)?;
            }
            Location::Path(path) => writeln!(f, "{:margin$}--> {}: {path}", "", self.file)?,
            Location::File => writeln!(f, "{:margin$}--> {}", "", self.file)?,
        }
        self.help.iter().try_for_each(|help| writeln!(f, "{:margin$} = help: {help}", ""))
    }
}

/// All mistakes that were found, at least one, and the warnings beside them; or all warnings, maybe none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    entries: Vec<Diagnostic>,
    omitted: usize,
    unknown_drivers: Vec<String>,
}

impl Diagnostics {
    /// These, and how many more there are.
    pub(crate) fn new(mut entries: Vec<Diagnostic>, omitted: usize) -> Self {
        entries.sort_by_key(|diagnostic| diagnostic.location.line_and_column());
        Self { entries, omitted, unknown_drivers: Vec::new() }
    }

    pub(crate) fn with_unknown_drivers(self, unknown_drivers: Vec<String>) -> Self {
        Self { unknown_drivers, ..self }
    }

    /// Drivers that are mistakes unless a node has them: whoever knows the nodes reads the job again with
    /// [`Inputs::drivers`](crate::Inputs::drivers).
    pub fn unknown_drivers(&self) -> &[String] {
        &self.unknown_drivers
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Each, in order of its line, or of discovery where there are no lines.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.entries.iter()
    }

    /// The messages alone, a line each, for clients that can show no more.
    pub fn messages(&self) -> String {
        let mut lines: Vec<_> = self.entries.iter().map(|diagnostic| diagnostic.message.clone()).collect();
        if self.omitted > 0 {
            lines.push(format!("and {} more", self.omitted));
        }
        lines.join("\n")
    }

    /// The errors, without the warnings.
    pub fn errors(&self) -> Self {
        let mut errors = self.clone();
        errors.entries.retain(|diagnostic| diagnostic.severity == Severity::Error);
        errors
    }

    /// How many were found too, but not kept.
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(only: Diagnostic) -> Self {
        Self { entries: vec![only], ..Self::default() }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.entries.iter().enumerate() {
            write!(f, "{}{diagnostic}", if i == 0 { "" } else { "\n" })?;
        }
        if self.omitted > 0 {
            writeln!(f, "\nand {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// A word of the source in backquotes, safe to print: cut when long, and without what would steer a terminal.
pub(crate) fn quoted(word: &str) -> String {
    const CHARS_MAX: usize = 64;
    let mut chars = word.chars();
    let cut: String = chars.by_ref().take(CHARS_MAX).map(printable).collect();
    let dots = if chars.next().is_some() { "…" } else { "" };
    format!("`{cut}{dots}`")
}

/// A message that may hold words of the source: cut when long, and without what would steer a terminal.
pub(crate) fn printable_text(message: &str) -> String {
    const CHARS_MAX: usize = 400;
    message.chars().take(CHARS_MAX).map(printable).collect()
}

/// The character, or a mark in place of one that would steer a terminal or turn the reading direction.
fn printable(c: char) -> char {
    if is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c }
}
