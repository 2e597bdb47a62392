//! Rights to named objects: the most specific rule that matches a name alone applies.

use std::collections::BTreeMap;

use super::{
    capability::{Capabilities, Capability},
    pattern::Pattern,
};

/// What may be done with which names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RightsByName {
    /// With exactly these: no pattern adds to that.
    exact: BTreeMap<String, Capabilities>,
    /// With others: the first that fits says all.
    patterns: Vec<(Pattern, Capabilities)>,
}

impl RightsByName {
    /// Adds what may be done with a name, in which `*` stands for any text.
    pub fn add(&mut self, name: &str, granted: Capabilities) {
        if !Pattern::is_one(name) {
            let before = self.exact.entry(name.to_owned()).or_default();
            *before = before.and(granted);
            return;
        }
        let pattern = Pattern::from(name);
        match self.patterns.binary_search_by(|(one, _)| one.cmp(&pattern)) {
            Ok(at) => self.patterns[at].1 = self.patterns[at].1.and(granted),
            Err(at) => self.patterns.insert(at, (pattern, granted)),
        }
    }

    /// Adds what may be done with this very name, no letter of which stands for others, to what patterns say of it. A rule about
    /// exactly this name goes before: it stays as it is.
    pub fn add_unless_named(&mut self, name: &str, granted: Capabilities) {
        if !self.exact.contains_key(name) {
            let rights = self.with(name);
            self.exact.insert(name.to_owned(), rights.and(granted));
        }
    }

    /// What may be done with a name.
    pub fn with(&self, name: &str) -> Capabilities {
        let fits = || self.patterns.iter().find(|(pattern, _)| pattern.fits(name));
        self.exact.get(name).copied().or_else(|| fits().map(|(_, granted)| *granted)).unwrap_or_default()
    }

    /// Whether it may be done with any name at all.
    pub fn any(&self, capability: Capability) -> bool {
        let patterns = self.patterns.iter().map(|(_, granted)| granted);
        self.exact.values().chain(patterns).any(|granted| granted.has(capability))
    }
}
