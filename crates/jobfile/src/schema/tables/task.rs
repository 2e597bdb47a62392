//! Tasks.

use super::*;

/// A task.
pub(crate) static TASK: Schema = labelled_schema(
    "task",
    "Name",
    &[
        text("driver", "Driver"),
        settings("config", "Config"),
        text("user", "User"),
        text_map("env", "Env"),
        blocks("constraint", "Constraints", &CONSTRAINT),
        blocks("affinity", "Affinities", &AFFINITY),
        block("resources", "Resources", &RESOURCES),
        block("restart", "RestartPolicy", &RESTART),
        text_map("meta", "Meta"),
        duration("kill_timeout", "KillTimeout"),
        text("kill_signal", "KillSignal"),
        block("logs", "LogConfig", &LOGS),
        flag("leader", "Leader"),
        duration("shutdown_delay", "ShutdownDelay"),
        block("lifecycle", "Lifecycle", &LIFECYCLE),
        blocks("artifact", "Artifacts", &ARTIFACT),
        blocks("template", "Templates", &TEMPLATE),
        blocks("volume_mount", "VolumeMounts", &VOLUME_MOUNT),
        block("dispatch_payload", "DispatchPayload", &DISPATCH_PAYLOAD),
        blocks("service", "Services", &SERVICE),
        blocks("identity", "Identities", &IDENTITY),
        block("", "Identity", &IDENTITY),
        blocks("scaling", "ScalingPolicies", &SCALING),
        block("vault", "Vault", &VAULT),
        block("consul", "Consul", &CONSUL),
        blocks("secret", "Secrets", &SECRET),
        blocks("action", "Actions", &ACTION),
        block("schedule", "Schedule", &SCHEDULE),
        block("csi_plugin", "CSIPluginConfig", &CSI_PLUGIN),
        text("kind", "Kind"),
    ],
);

/// What a task holds of its node.
pub(crate) static RESOURCES: Schema = schema(
    "resources",
    &[
        whole("cpu", "CPU"),
        whole("memory", "MemoryMB"),
        whole("cores", "Cores"),
        whole("memory_max", "MemoryMaxMB"),
        blocks("device", "Devices", &DEVICE),
        block("numa", "NUMA", &NUMA),
        whole("secrets", "SecretsMB"),
        whole("disk", "DiskMB"),
        whole("iops", "IOPS"),
        blocks("network", "Networks", &NETWORK),
    ],
);

/// Devices of the node.
pub(crate) static DEVICE: Schema = labelled_schema(
    "device",
    "Name",
    &[
        whole("count", "Count"),
        whole("share", "ShareMilli"),
        blocks("constraint", "Constraints", &CONSTRAINT),
        blocks("affinity", "Affinities", &AFFINITY),
    ],
);

static NUMA: Schema = schema("numa", &[text("affinity", "Affinity"), texts("devices", "Devices")]);

/// How a task's output is kept.
pub(crate) static LOGS: Schema = schema(
    "logs",
    &[
        whole("max_files", "MaxFiles"),
        whole("max_file_size", "MaxFileSizeMB"),
        flag("disabled", "Disabled"),
        flag("enabled", "Enabled"),
    ],
);

/// When a task runs that is not a main task.
pub(crate) static LIFECYCLE: Schema =
    schema("lifecycle", &[text("hook", "Hook"), flag("sidecar", "Sidecar")]);

/// Who a task says it is.
pub(crate) static IDENTITY: Schema = schema(
    "identity",
    &[
        text("name", "Name"),
        texts("aud", "Audience"),
        text("change_mode", "ChangeMode"),
        text("change_signal", "ChangeSignal"),
        flag("env", "Env"),
        flag("file", "File"),
        text("filepath", "Filepath"),
        text("service_name", "ServiceName"),
        duration("ttl", "TTL"),
        texts("extra_claims", "ExtraClaims"),
    ],
);

/// What a task gets of Vault's.
pub(crate) static VAULT: Schema = schema(
    "vault",
    &[
        texts("policies", "Policies"),
        text("role", "Role"),
        text("namespace", "Namespace"),
        text("cluster", "Cluster"),
        flag("env", "Env"),
        flag("disable_file", "DisableFile"),
        text("change_mode", "ChangeMode"),
        text("change_signal", "ChangeSignal"),
        flag("allow_token_expiration", "AllowTokenExpiration"),
    ],
);

/// Where a group or task meets Consul.
pub(super) static CONSUL: Schema = schema(
    "consul",
    &[text("namespace", "Namespace"), text("cluster", "Cluster"), text("partition", "Partition")],
);

/// A secret that a task gets.
pub(crate) static SECRET: Schema = labelled_schema(
    "secret",
    "Name",
    &[
        text("provider", "Provider"),
        text("path", "Path"),
        settings("config", "Config"),
        text_map("env", "Env"),
    ],
);

static ACTION: Schema =
    labelled_schema("action", "Name", &[text("command", "Command"), texts("args", "Args")]);

static SCHEDULE: Schema = schema("schedule", &[block("cron", "Cron", &CRON)]);

static CRON: Schema =
    schema("cron", &[text("start", "Start"), text("end", "End"), text("timezone", "Timezone")]);

static CSI_PLUGIN: Schema = schema(
    "csi_plugin",
    &[
        text("id", "ID"),
        text("type", "Type"),
        text("mount_dir", "MountDir"),
        text("stage_publish_base_dir", "StagePublishBaseDir"),
        duration("health_timeout", "HealthTimeout"),
    ],
);
