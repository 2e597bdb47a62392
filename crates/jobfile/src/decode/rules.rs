//! The rules of policies.

use crate::{
    diagnostic::quoted,
    rules::{
        HOST_VOLUME_CAPABILITIES, HostVolumeRule, Level, NAMESPACE_CAPABILITIES, NODE_POOL_CAPABILITIES,
        NamespaceRule, NodePoolRule, OPERATOR_CAPABILITIES, OperatorRule, PolicyRules, VARIABLE_CAPABILITIES,
        VariableRule,
    },
    schema::Body,
    suggest::nearest,
};

const READ_WRITE: &[(&str, Level)] = &[("read", Level::Read), ("write", Level::Write), ("deny", Level::Deny)];
const IN_NAMESPACE: &[(&str, Level)] =
    &[("read", Level::Read), ("write", Level::Write), ("scale", Level::Scale), ("deny", Level::Deny)];
const OF_PLUGINS: &[(&str, Level)] =
    &[("list", Level::List), ("read", Level::Read), ("write", Level::Write), ("deny", Level::Deny)];
/// Of what may be done in a namespace, with what Berth does not have.
const GRANTS_NOTHING: &[&str] = &[
    "cancel-deployment",
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

/// The rules of a policy.
pub(crate) fn policy(body: &Body<'_>) -> PolicyRules {
    let namespaces: Vec<NamespaceRule> = body.blocks("namespace").iter().map(namespace).collect();
    let host_volumes = body.blocks("host_volume").iter().map(host_volume).collect();
    let node_pools = body.blocks("node_pool").iter().map(node_pool).collect();
    if let Some(rule) = body.block("sentinel") {
        rule.choice("policy", READ_WRITE);
        nothing_yet(&rule, "sentinel");
    }
    let part = |name: &str| {
        let rule = body.block(name)?;
        let levels = if name == "plugin" { OF_PLUGINS } else { READ_WRITE };
        capabilities(&rule, &[]);
        let level = rule.choice("policy", levels);
        if rule.lacks("policy") {
            report_empty_rule(&rule);
        }
        level
    };
    let rules = PolicyRules {
        agent: part("agent"),
        node: part("node"),
        operator: body.block("operator").map(|rule| operator(&rule)).unwrap_or_default(),
        quota: part("quota"),
        plugin: part("plugin"),
        namespaces,
        host_volumes,
        node_pools,
    };
    const ALL: &[&str] = &[
        "namespace",
        "node_pool",
        "host_volume",
        "agent",
        "node",
        "operator",
        "quota",
        "plugin",
        "sentinel",
    ];
    if ALL.iter().all(|name| !body.has(name)) {
        body.missing(
            "the policy has no rules",
            "write for example `namespace \"default\" { policy = \"read\" }`",
        );
    }
    rules
}

fn namespace(rule: &Body<'_>) -> NamespaceRule {
    let pattern = named(rule, "namespace");
    let level = rule.choice("policy", IN_NAMESPACE);
    let capabilities = capabilities(rule, NAMESPACE_CAPABILITIES);
    for word in capabilities.iter().filter(|word| GRANTS_NOTHING.contains(&word.as_str())) {
        let message = format!("capability {} grants nothing yet", quoted(word));
        rule.report.warn(rule.at("capabilities"), &message, "it is checked and kept");
    }
    let variables = rule.block("variables").map_or(Vec::new(), |variables| {
        let paths = variables.blocks("path");
        paths.iter().map(variable_rule).collect()
    });
    NamespaceRule { pattern, level, capabilities, variables }
}

fn host_volume(rule: &Body<'_>) -> HostVolumeRule {
    let pattern = named(rule, "host_volume");
    let level = rule.choice("policy", READ_WRITE);
    let capabilities = capabilities(rule, HOST_VOLUME_CAPABILITIES);
    HostVolumeRule { pattern, level, capabilities }
}

fn node_pool(rule: &Body<'_>) -> NodePoolRule {
    let pattern = named(rule, "node_pool");
    let level = rule.choice("policy", READ_WRITE);
    let capabilities = capabilities(rule, NODE_POOL_CAPABILITIES);
    if rule.lacks("policy") && capabilities.is_empty() {
        report_empty_rule(rule);
    }
    NodePoolRule { pattern, level, capabilities }
}

fn operator(rule: &Body<'_>) -> OperatorRule {
    let level = rule.choice("policy", READ_WRITE);
    let capabilities = capabilities(rule, OPERATOR_CAPABILITIES);
    if rule.lacks("policy") && capabilities.is_empty() {
        report_empty_rule(rule);
    }
    if capabilities.iter().any(|word| word == "license-read") {
        let message = "capability `license-read` grants nothing: there are no licenses";
        rule.report.warn(rule.at("capabilities"), message, "it is checked and kept");
    }
    OperatorRule { level, capabilities }
}

fn report_empty_rule(rule: &Body<'_>) {
    rule.missing("the rule says nothing", "write `policy = \"read\"`, `\"write\"` or `\"deny\"`");
}

fn variable_rule(rule: &Body<'_>) -> VariableRule {
    let pattern = named(rule, "path");
    let capabilities = capabilities(rule, VARIABLE_CAPABILITIES);
    if capabilities.is_empty() {
        rule.missing("the rule says nothing", "write for example `capabilities = [\"read\"]`");
    }
    VariableRule { pattern, capabilities }
}

/// A pattern of names: letters, digits, dashes and underscores, and `*` for any text.
fn named(rule: &Body<'_>, what: &str) -> String {
    let pattern = rule.label().unwrap_or_default();
    let fits =
        |c: char| c.is_ascii_alphanumeric() || "-_*".contains(c) || (what == "path" && "/.~@".contains(c));
    if pattern.is_empty() {
        rule.missing(&format!("{what} has no name"), &format!("write `{what} \"default\" {{ ... }}`"));
    } else if pattern.len() > 128 || !pattern.chars().all(fits) {
        let message = format!("{} cannot be the name of a {what}", quoted(&pattern));
        let help = "names have letters, digits, dashes and underscores, and `*` stands for any text";
        rule.report.error_with_help(rule.at_label(), message, help);
    }
    pattern
}

fn capabilities(rule: &Body<'_>, known: &[&str]) -> Vec<String> {
    let words = rule.texts("capabilities").unwrap_or_default();
    for word in words.iter().filter(|word| !known.contains(&word.as_str())) {
        let message = format!("there is no capability {}", quoted(word));
        let help = nearest(word, known.iter().copied()).map_or_else(
            || format!("known are {}", known.join(", ")),
            |word| format!("did you mean `{word}`?"),
        );
        rule.report.error_with_help(rule.at("capabilities"), message, help);
    }
    words
}

/// What Berth does not have is denied and granted alike.
fn nothing_yet(rule: &Body<'_>, what: &str) {
    let message = format!("rules about {what} change nothing yet");
    rule.report.warn(rule.at_self(), &message, "they are checked and kept");
}
