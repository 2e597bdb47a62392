//! The rules of policies, in HCL or JSON, in the syntax of job files and with the same messages.

use crate::{
    Inputs, decode,
    diagnostic::Diagnostics,
    hcl, json,
    report::Report,
    schema::{Body, POLICY},
    source::{self, Syntax},
};

/// How far a rule goes, in one word. Of two words about the same thing the later one in this order holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It may be listed.
    List,
    /// It may be read.
    Read,
    /// It may be scaled.
    Scale,
    /// It may be changed.
    Write,
    /// Nothing, whatever else is said.
    Deny,
}

/// What a policy allows in some namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRule {
    /// Their names: `*` stands for any text.
    pub pattern: String,
    /// The rule's level, from its `policy` setting.
    pub level: Option<Level>,
    /// In many, all of [`NAMESPACE_CAPABILITIES`].
    pub capabilities: Vec<String>,
    /// The rules for variables of these namespaces.
    pub variables: Vec<VariableRule>,
}

/// What a policy allows with some variables of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableRule {
    /// Their paths: `*` stands for any text, slashes included.
    pub pattern: String,
    /// Each is one of [`VARIABLE_CAPABILITIES`].
    pub capabilities: Vec<String>,
}

/// What a policy allows with some volumes of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostVolumeRule {
    /// Their names: `*` stands for any text.
    pub pattern: String,
    /// The rule's level, from its `policy` setting.
    pub level: Option<Level>,
    /// In many, all of [`HOST_VOLUME_CAPABILITIES`].
    pub capabilities: Vec<String>,
}

/// What a policy allows with some node pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePoolRule {
    /// Their names: `*` stands for any text.
    pub pattern: String,
    /// The rule's level, from its `policy` setting.
    pub level: Option<Level>,
    /// In many, all of [`NODE_POOL_CAPABILITIES`].
    pub capabilities: Vec<String>,
}

/// What a policy allows with the cluster as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorRule {
    /// The rule's level, from its `policy` setting.
    pub level: Option<Level>,
    /// In many, all of [`OPERATOR_CAPABILITIES`].
    pub capabilities: Vec<String>,
}

/// The rules of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyRules {
    /// In the order of the file.
    pub namespaces: Vec<NamespaceRule>,
    /// About volumes of nodes, in the order of the file.
    pub host_volumes: Vec<HostVolumeRule>,
    /// About node pools, in the order of the file.
    pub node_pools: Vec<NodePoolRule>,
    /// About servers and agents.
    pub agent: Option<Level>,
    /// The level for nodes.
    pub node: Option<Level>,
    /// The rule for the cluster as a whole.
    pub operator: OperatorRule,
    /// The level for quotas.
    pub quota: Option<Level>,
    /// About plugins of volumes.
    pub plugin: Option<Level>,
}

/// What may be done in a namespace, word by word.
pub const NAMESPACE_CAPABILITIES: &[&str] = &[
    "deny",
    "list-jobs",
    "parse-job",
    "read-job",
    "submit-job",
    "register-job",
    "revert-job",
    "deregister-job",
    "purge-job",
    "evaluate-job",
    "plan-job",
    "tag-job-version",
    "stable-job",
    "force-periodic-job",
    "fail-deployment",
    "pause-deployment",
    "promote-deployment",
    "unblock-deployment",
    "cancel-deployment",
    "set-alloc-health-deployment",
    "dispatch-job",
    "scale-job",
    "read-job-scaling",
    "list-scaling-policies",
    "read-scaling-policy",
    "read-logs",
    "read-fs",
    "alloc-exec",
    "alloc-node-exec",
    "alloc-lifecycle",
    "gc-allocation",
    "pause-allocation",
    "delete-service-registration",
    "sentinel-override",
    "submit-recommendation",
    "csi-register-plugin",
    "csi-write-volume",
    "csi-read-volume",
    "csi-list-volume",
    "csi-mount-volume",
    "host-volume-create",
    "host-volume-register",
    "host-volume-read",
    "host-volume-write",
    "host-volume-delete",
];

/// What may be done with variables, word by word.
pub const VARIABLE_CAPABILITIES: &[&str] = &["deny", "list", "read", "write", "destroy"];

/// What may be done with volumes of nodes, word by word.
pub const HOST_VOLUME_CAPABILITIES: &[&str] = &["deny", "mount-readonly", "mount-readwrite"];

/// What may be done with node pools, word by word.
pub const NODE_POOL_CAPABILITIES: &[&str] = &["deny", "delete", "read", "write"];

/// What may be done with the cluster as a whole, word by word.
pub const OPERATOR_CAPABILITIES: &[&str] =
    &["deny", "snapshot-save", "license-read", "keyring-read", "keyring-rotate", "keyring-delete"];

/// Reads the rules of a policy, and what they say of things that Berth does not have yet, as warnings.
///
/// # Errors
/// With all that is wrong with them.
pub fn parse_policy(source: &[u8], file: &str) -> Result<(PolicyRules, Diagnostics), Diagnostics> {
    let text = source::checked(source, file)?;
    match source::syntax_of(text, file) {
        Syntax::Hcl => hcl::read(text, file, &Inputs::default(), |entries, report| {
            Some(decode::policy(&Body::of_hcl_file(entries, &POLICY, report)))
        }),
        Syntax::Json => json::document(Report::new(file, text), text, |document, report| {
            Body::of_json(document, POLICY.what, &POLICY, report).as_ref().map(decode::policy)
        }),
    }
}
