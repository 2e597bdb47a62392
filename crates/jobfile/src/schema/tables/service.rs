//! Services and their checks.

use super::{connect::CONNECT, *};

/// A name under which others find a port.
pub(crate) static SERVICE: Schema = Schema {
    what: "service",
    label: None,
    fields: &[
        text("name", "Name"),
        text("provider", "Provider"),
        text("port", "PortLabel"),
        texts("tags", "Tags"),
        texts("canary_tags", "CanaryTags"),
        text_map("meta", "Meta"),
        text_map("canary_meta", "CanaryMeta"),
        text("address_mode", "AddressMode"),
        text("address", "Address"),
        text("task", "TaskName"),
        text("on_update", "OnUpdate"),
        blocks("check", "Checks", &CHECK),
        block("check_restart", "CheckRestart", &CHECK_RESTART),
        block("identity", "Identity", &IDENTITY),
        text_map("tagged_addresses", "TaggedAddresses"),
        flag("enable_tag_override", "EnableTagOverride"),
        block("weights", "Weights", &WEIGHTS),
        block("connect", "Connect", &CONNECT),
        text("cluster", "Cluster"),
        text("kind", "Kind"),
    ],
    server_owned: &["Namespace"],
};

static WEIGHTS: Schema = schema("weights", &[whole("passing", "Passing"), whole("warning", "Warning")]);

/// A check that is run periodically.
pub(crate) static CHECK: Schema = schema(
    "check",
    &[
        text("name", "Name"),
        text("type", "Type"),
        text("port", "PortLabel"),
        duration("interval", "Interval"),
        duration("timeout", "Timeout"),
        text("path", "Path"),
        text("method", "Method"),
        text("protocol", "Protocol"),
        field("header", "Header", Shape::TextsMap),
        text("body", "Body"),
        text("command", "Command"),
        texts("args", "Args"),
        text("task", "TaskName"),
        text("initial_status", "InitialStatus"),
        whole("success_before_passing", "SuccessBeforePassing"),
        whole("failures_before_critical", "FailuresBeforeCritical"),
        text("on_update", "OnUpdate"),
        block("check_restart", "CheckRestart", &CHECK_RESTART),
        whole("failures_before_warning", "FailuresBeforeWarning"),
        text("address_mode", "AddressMode"),
        text("advertise", "Advertise"),
        flag("expose", "Expose"),
        text("grpc_service", "GRPCService"),
        flag("grpc_use_tls", "GRPCUseTLS"),
        text("notes", "Notes"),
        texts("success_codes", "SuccessCodes"),
        text("tls_server_name", "TLSServerName"),
        flag("tls_skip_verify", "TLSSkipVerify"),
    ],
);

/// When bad answers restart a task.
pub(crate) static CHECK_RESTART: Schema = schema(
    "check_restart",
    &[whole("limit", "Limit"), duration("grace", "Grace"), flag("ignore_warnings", "IgnoreWarnings")],
);
