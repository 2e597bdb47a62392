//! Constraints, affinities and spreads.

use super::*;

/// A condition on a node.
pub(crate) static CONSTRAINT: Schema = schema(
    "constraint",
    &[
        text("attribute", "LTarget"),
        text("operator", "Operand"),
        text("value", "RTarget"),
        text("version", ""),
        text("semver", ""),
        text("regexp", ""),
        text("set_contains", ""),
        text("set_contains_all", ""),
        text("set_contains_any", ""),
        flag("is_set", ""),
        flag("is_not_set", ""),
        flag("distinct_hosts", ""),
        text("distinct_property", ""),
    ],
);

/// A preference for nodes, or with a negative weight against them.
pub(crate) static AFFINITY: Schema = schema(
    "affinity",
    &[
        text("attribute", "LTarget"),
        text("operator", "Operand"),
        text("value", "RTarget"),
        whole("weight", "Weight"),
        text("version", ""),
        text("semver", ""),
        text("regexp", ""),
        text("set_contains", ""),
        text("set_contains_all", ""),
        text("set_contains_any", ""),
    ],
);

/// A spread over the values of an attribute.
pub(crate) static SPREAD: Schema = schema(
    "spread",
    &[text("attribute", "Attribute"), whole("weight", "Weight"), blocks("target", "SpreadTarget", &TARGET)],
);

/// The share of one value in a spread.
pub(crate) static TARGET: Schema = labelled_schema("target", "Value", &[whole("percent", "Percent")]);
