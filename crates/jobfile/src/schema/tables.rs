//! The tables: one for each kind of block.

use super::{
    Field, Schema,
    Shape::{self, Block, Blocks, Map, Value},
};

const fn field(hcl: &'static str, json: &'static str, shape: Shape) -> Field {
    Field { hcl, json, shape }
}

/// A field whose shape does not matter because it is refused.
const fn later(hcl: &'static str, json: &'static str) -> Field {
    field(hcl, json, Value)
}

const PLAIN: Schema = Schema { what: "", label: None, fields: &[], later: &[], server_owned: &[] };

/// A file in HCL.
pub(crate) const FILE: Schema = Schema {
    what: "job file",
    fields: &[field("job", "", Blocks)],
    later: &[later("variable", ""), later("variables", ""), later("locals", "")],
    ..PLAIN
};

/// A job.
pub(crate) const JOB: Schema = Schema {
    what: "job",
    label: Some("ID"),
    fields: &[
        field("region", "Region", Value),
        field("namespace", "Namespace", Value),
        field("id", "", Value),
        field("name", "Name", Value),
        field("type", "Type", Value),
        field("priority", "Priority", Value),
        field("all_at_once", "AllAtOnce", Value),
        field("datacenters", "Datacenters", Value),
        field("node_pool", "NodePool", Value),
        field("meta", "Meta", Map),
        field("constraint", "Constraints", Blocks),
        field("spread", "Spreads", Blocks),
        field("group", "TaskGroups", Blocks),
        field("task", "", Blocks),
        field("", "Stop", Value),
    ],
    later: &[
        later("affinity", "Affinities"),
        later("update", "Update"),
        later("migrate", "Migrate"),
        later("reschedule", "Reschedule"),
        later("restart", ""),
        later("periodic", "Periodic"),
        later("parameterized", "ParameterizedJob"),
        later("multiregion", "Multiregion"),
        later("ui", "UI"),
        later("vault", ""),
        later("consul", ""),
        later("consul_token", ""),
        later("vault_token", ""),
        later("dynamic", ""),
        later("", "Payload"),
        later("", "ConsulNamespace"),
        later("", "VaultNamespace"),
    ],
    server_owned: &[
        "Status",
        "StatusDescription",
        "Version",
        "VersionTag",
        "Stable",
        "SubmitTime",
        "CreateIndex",
        "ModifyIndex",
        "JobModifyIndex",
        "ParentID",
        "Dispatched",
        "DispatchIdempotencyToken",
        "NomadTokenID",
        "ConsulToken",
        "VaultToken",
    ],
};

/// A group of tasks.
pub(crate) const GROUP: Schema = Schema {
    what: "group",
    label: Some("Name"),
    fields: &[
        field("count", "Count", Value),
        field("constraint", "Constraints", Blocks),
        field("spread", "Spreads", Blocks),
        field("restart", "RestartPolicy", Block),
        field("reschedule", "ReschedulePolicy", Block),
        field("ephemeral_disk", "EphemeralDisk", Block),
        field("network", "Networks", Blocks),
        field("meta", "Meta", Map),
        field("shutdown_delay", "ShutdownDelay", Value),
        field("task", "Tasks", Blocks),
    ],
    later: &[
        later("affinity", "Affinities"),
        later("update", "Update"),
        later("migrate", "Migrate"),
        later("volume", "Volumes"),
        later("service", "Services"),
        later("scaling", "Scaling"),
        later("disconnect", "Disconnect"),
        later("max_client_disconnect", "MaxClientDisconnect"),
        later("stop_after_client_disconnect", "StopAfterClientDisconnect"),
        later("prevent_reschedule_on_lost", "PreventRescheduleOnLost"),
        later("max_run_duration", "MaxRunDuration"),
        later("consul", "Consul"),
        later("vault", ""),
        later("dynamic", ""),
    ],
    ..PLAIN
};

/// A task.
pub(crate) const TASK: Schema = Schema {
    what: "task",
    label: Some("Name"),
    fields: &[
        field("driver", "Driver", Value),
        field("config", "Config", Map),
        field("user", "User", Value),
        field("env", "Env", Map),
        field("constraint", "Constraints", Blocks),
        field("resources", "Resources", Block),
        field("restart", "RestartPolicy", Block),
        field("meta", "Meta", Map),
        field("kill_timeout", "KillTimeout", Value),
        field("kill_signal", "KillSignal", Value),
        field("logs", "LogConfig", Block),
        field("leader", "Leader", Value),
        field("shutdown_delay", "ShutdownDelay", Value),
    ],
    later: &[
        later("lifecycle", "Lifecycle"),
        later("affinity", "Affinities"),
        later("service", "Services"),
        later("template", "Templates"),
        later("artifact", "Artifacts"),
        later("volume_mount", "VolumeMounts"),
        later("dispatch_payload", "DispatchPayload"),
        later("vault", "Vault"),
        later("consul", "Consul"),
        later("secret", "Secrets"),
        later("identity", "Identity"),
        later("", "Identities"),
        later("action", "Actions"),
        later("schedule", "Schedule"),
        later("scaling", "ScalingPolicies"),
        later("csi_plugin", "CSIPluginConfig"),
        later("kind", "Kind"),
        later("dynamic", ""),
    ],
    ..PLAIN
};

/// What a task holds of its node.
pub(crate) const RESOURCES: Schema = Schema {
    what: "resources",
    fields: &[field("cpu", "CPU", Value), field("memory", "MemoryMB", Value)],
    later: &[
        later("cores", "Cores"),
        later("memory_max", "MemoryMaxMB"),
        later("disk", "DiskMB"),
        later("iops", "IOPS"),
        later("network", "Networks"),
        later("device", "Devices"),
        later("numa", "NUMA"),
        later("secrets", "SecretsMB"),
    ],
    ..PLAIN
};

/// How a task's output is kept.
pub(crate) const LOGS: Schema = Schema {
    what: "logs",
    fields: &[
        field("max_files", "MaxFiles", Value),
        field("max_file_size", "MaxFileSizeMB", Value),
        field("disabled", "Disabled", Value),
    ],
    later: &[later("enabled", "Enabled")],
    ..PLAIN
};

/// When a task is started again.
pub(crate) const RESTART: Schema = Schema {
    what: "restart",
    fields: &[
        field("attempts", "Attempts", Value),
        field("interval", "Interval", Value),
        field("delay", "Delay", Value),
        field("mode", "Mode", Value),
    ],
    later: &[later("render_templates", "RenderTemplates")],
    ..PLAIN
};

/// When an allocation is replaced.
pub(crate) const RESCHEDULE: Schema = Schema {
    what: "reschedule",
    fields: &[
        field("attempts", "Attempts", Value),
        field("interval", "Interval", Value),
        field("delay", "Delay", Value),
        field("delay_function", "DelayFunction", Value),
        field("max_delay", "MaxDelay", Value),
        field("unlimited", "Unlimited", Value),
    ],
    ..PLAIN
};

/// Room on the node's disk.
pub(crate) const EPHEMERAL_DISK: Schema = Schema {
    what: "ephemeral_disk",
    fields: &[
        field("size", "SizeMB", Value),
        field("sticky", "Sticky", Value),
        field("migrate", "Migrate", Value),
    ],
    ..PLAIN
};

/// A group's network.
pub(crate) const NETWORK: Schema = Schema {
    what: "network",
    fields: &[
        field("mode", "Mode", Value),
        field("port", "", Blocks),
        field("", "DynamicPorts", Blocks),
        field("", "ReservedPorts", Blocks),
    ],
    later: &[
        later("mbits", "MBits"),
        later("dns", "DNS"),
        later("hostname", "Hostname"),
        later("cni", "CNI"),
        later("", "Device"),
        later("", "CIDR"),
        later("", "IP"),
    ],
    ..PLAIN
};

/// A port.
pub(crate) const PORT: Schema = Schema {
    what: "port",
    label: Some("Label"),
    fields: &[
        field("static", "Value", Value),
        field("to", "To", Value),
        field("host_network", "HostNetwork", Value),
    ],
    later: &[later("ignore_collision", "IgnoreCollision")],
    ..PLAIN
};

/// A condition on a node.
pub(crate) const CONSTRAINT: Schema = Schema {
    what: "constraint",
    fields: &[
        field("attribute", "LTarget", Value),
        field("operator", "Operand", Value),
        field("value", "RTarget", Value),
        field("version", "", Value),
        field("semver", "", Value),
        field("regexp", "", Value),
        field("set_contains", "", Value),
        field("set_contains_all", "", Value),
        field("set_contains_any", "", Value),
        field("is_set", "", Value),
        field("is_not_set", "", Value),
        field("distinct_hosts", "", Value),
        field("distinct_property", "", Value),
    ],
    ..PLAIN
};

/// A wish to spread.
pub(crate) const SPREAD: Schema = Schema {
    what: "spread",
    fields: &[
        field("attribute", "Attribute", Value),
        field("weight", "Weight", Value),
        field("target", "SpreadTarget", Blocks),
    ],
    ..PLAIN
};

/// The share of one value in a spread.
pub(crate) const TARGET: Schema =
    Schema { what: "target", label: Some("Value"), fields: &[field("percent", "Percent", Value)], ..PLAIN };

/// All tables, to find where a misplaced name belongs.
pub(super) const ALL: &[&Schema] = &[
    &FILE,
    &JOB,
    &GROUP,
    &TASK,
    &RESOURCES,
    &LOGS,
    &RESTART,
    &RESCHEDULE,
    &EPHEMERAL_DISK,
    &NETWORK,
    &PORT,
    &CONSTRAINT,
    &SPREAD,
    &TARGET,
];
