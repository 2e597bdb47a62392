//! Query parameters of routes.

/// How a parameter's value reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Any text.
    Text,
    /// A whole number, not below zero.
    Number,
    /// `true` or `false`; without a value it is true.
    Flag,
    /// A span of time as Go writes it, as `30s`.
    Duration,
    /// One of these words; the first is meant when there is none.
    Word(&'static [&'static str]),
    /// Any text, any number of times.
    Texts,
}

/// A parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// How its value reads.
    pub kind: ParameterKind,
    /// What it is for.
    pub summary: &'static str,
}

impl Parameter {
    /// A parameter, for tables.
    pub(crate) const fn new(name: &'static str, kind: ParameterKind, summary: &'static str) -> Self {
        Self { name, kind, summary }
    }
}
