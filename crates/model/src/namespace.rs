//! Namespaces: tenants in a tree, each with a weight and perhaps a quota.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

/// The namespace of jobs that name none; it is always there.
pub const NAMESPACE_DEFAULT: &str = "default";
/// Longest name.
pub const NAMESPACE_NAME_MAX: usize = 128;
/// How deep the tree may be.
pub const NAMESPACE_DEPTH_MAX: usize = 16;
/// The usual weight, in thousandths.
pub const WEIGHT_MILLI_DEFAULT: u32 = 1000;
/// The heaviest weight, in thousandths.
pub const WEIGHT_MILLI_MAX: u32 = 1_000_000;

/// A tenant, as an operator described it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Namespace {
    /// Letters, digits, dashes and underscores.
    #[n(0)]
    pub name: String,
    /// In words, what it is.
    #[n(1)]
    pub description: String,
    /// The namespace above it; none for one at the top.
    #[n(2)]
    pub parent: Option<String>,
    /// How much more than its siblings it should get, in thousandths; 1 to [`WEIGHT_MILLI_MAX`].
    #[n(3)]
    pub weight_milli: u32,
    /// The quota that it and all below it keep to.
    #[n(4)]
    pub quota: Option<String>,
    /// The operator's own labels.
    #[n(5)]
    pub meta: BTreeMap<String, String>,
    /// The only drivers that its tasks may use; empty for any.
    #[n(6)]
    pub enabled_drivers: Vec<String>,
    /// Drivers that its tasks may not use.
    #[n(7)]
    pub disabled_drivers: Vec<String>,
}

impl Namespace {
    /// A namespace at the top, with the usual weight and no quota.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            parent: None,
            weight_milli: WEIGHT_MILLI_DEFAULT,
            quota: None,
            meta: BTreeMap::new(),
            enabled_drivers: Vec::new(),
            disabled_drivers: Vec::new(),
        }
    }

    /// Whether its tasks may use a driver.
    pub fn allows_driver(&self, driver: &str) -> bool {
        let lists = |drivers: &[String]| drivers.iter().any(|listed| listed == driver);
        (self.enabled_drivers.is_empty() || lists(&self.enabled_drivers)) && !lists(&self.disabled_drivers)
    }
}

/// Whether a text can name a namespace or a quota.
pub fn is_tenant_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=NAMESPACE_NAME_MAX).contains(&name.len()) && name.chars().all(allowed)
}
