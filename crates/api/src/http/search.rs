//! Search: what begins with a text, and what has it anywhere in its name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of `PUT /v1/search`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct Search {
    /// How the names or ids begin.
    pub prefix: String,
    /// Where to look, as `jobs` or `nodes`; `all` or empty for everywhere.
    pub context: String,
}

/// What begins so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "Found")]
pub struct SearchResult {
    /// Names or ids by context, at most 20 of each.
    pub matches: BTreeMap<String, Vec<String>>,
    /// Whether there are more, by context.
    pub truncations: BTreeMap<String, bool>,
}

/// The body of `PUT /v1/search/fuzzy`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct FuzzySearch {
    /// What the names hold somewhere, at least two characters; case does not matter.
    pub text: String,
    /// Where to look, as for [`Search`].
    pub context: String,
}

/// What has the text in its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
#[schemars(rename = "FuzzyFound")]
pub struct FuzzySearchResult {
    /// By context, at most 20 of each, those first that have the text earliest.
    pub matches: BTreeMap<String, Vec<FuzzyMatch>>,
    /// Whether there are more, by context.
    pub truncations: BTreeMap<String, bool>,
}

/// Something that has the text in its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct FuzzyMatch {
    /// Its name; of something without a name of its own its id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Where it is: namespace, job and group, as deep as it lies.
    pub scope: Vec<String>,
}
