//! Files of policies: what those may do who have them.

use super::*;

/// A file that describes a policy. Both syntaxes use the same names.
pub(crate) static POLICY: Schema = schema(
    "policy",
    &[
        labelled("namespace", "namespace", &NAMESPACE_RULE),
        labelled("node_pool", "node_pool", &OBJECT_RULE),
        labelled("host_volume", "host_volume", &OBJECT_RULE),
        block("agent", "agent", &PART_RULE),
        block("node", "node", &PART_RULE),
        block("operator", "operator", &PART_RULE),
        block("quota", "quota", &PART_RULE),
        block("plugin", "plugin", &PART_RULE),
        block("sentinel", "sentinel", &PART_RULE),
    ],
);

/// What may be done in namespaces.
static NAMESPACE_RULE: Schema = labelled_schema(
    "namespace rule",
    "Name",
    &[
        text("policy", "policy"),
        texts("capabilities", "capabilities"),
        block("variables", "variables", &VARIABLES_RULE),
    ],
);

/// What may be done with the variables of a namespace.
static VARIABLES_RULE: Schema = schema("variables rule", &[labelled("path", "path", &PATH_RULE)]);

/// What may be done with the variables below a path.
static PATH_RULE: Schema = labelled_schema("path rule", "Name", &[texts("capabilities", "capabilities")]);

/// What may be done with things of one kind that have names.
static OBJECT_RULE: Schema =
    labelled_schema("rule", "Name", &[text("policy", "policy"), texts("capabilities", "capabilities")]);

/// What may be done with one part of a cluster.
static PART_RULE: Schema = schema("rule", &[text("policy", "policy"), texts("capabilities", "capabilities")]);
