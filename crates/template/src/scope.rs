//! Which variables are known where a template is read, and where rendering finds their values.

use std::collections::BTreeMap;

use crate::limits::VARIABLES_MAX;

/// The variables that are visible at one point. A later one hides an earlier one of its name.
#[derive(Debug)]
pub(crate) struct Scope {
    names: Vec<Box<str>>,
    slots: BTreeMap<Box<str>, Vec<usize>>,
}

/// What a template begins with.
impl Default for Scope {
    fn default() -> Self {
        let name: Box<str> = "$".into();
        Self { names: vec![name.clone()], slots: [(name, vec![0])].into() }
    }
}

impl Scope {
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// # Errors
    /// When there are too many.
    pub fn declare(&mut self, name: &str) -> Result<(), String> {
        if self.names.len() > VARIABLES_MAX {
            return Err(format!(
                "more than {VARIABLES_MAX} variables are declared here, the limit of a template"
            ));
        }
        self.slots.entry(name.into()).or_default().push(self.names.len());
        self.names.push(name.into());
        Ok(())
    }

    /// Where the variable of that name stands among all that are there.
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.slots.get(name)?.last().copied()
    }

    /// Leaves as many as there were.
    pub fn truncate(&mut self, len: usize) {
        for name in self.names.drain(len.min(self.names.len())..).rev() {
            if let Some(slots) = self.slots.get_mut(&name) {
                slots.pop();
                if slots.is_empty() {
                    self.slots.remove(&name);
                }
            }
        }
    }
}
