//! The names that an expression may use.

use super::value::Value;

/// Names and their values, the innermost first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scope<'p>(Option<&'p Frame<'p>>);

/// One name and what is around it.
#[derive(Debug)]
pub(super) struct Frame<'p> {
    name: &'p str,
    value: Value,
    outer: Scope<'p>,
}

impl<'p> Frame<'p> {
    pub fn new(name: &'p str, value: Value, outer: Scope<'p>) -> Self {
        Self { name, value, outer }
    }

    pub fn scope(&'p self) -> Scope<'p> {
        Scope(Some(self))
    }
}

impl<'p> Scope<'p> {
    /// The value that a name stands for.
    pub fn get(self, name: &str) -> Option<&'p Value> {
        self.frames().find(|frame| frame.name == name).map(|frame| &frame.value)
    }

    /// All names.
    pub fn names(self) -> impl Iterator<Item = &'p str> + Clone {
        self.frames().map(|frame| frame.name)
    }

    fn frames(self) -> impl Iterator<Item = &'p Frame<'p>> + Clone {
        std::iter::successors(self.0, |frame| frame.outer.0)
    }
}
