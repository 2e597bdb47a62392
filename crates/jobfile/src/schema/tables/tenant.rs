//! Files of namespaces, quotas, node pools and variables.

use super::*;

/// A file that describes a namespace.
pub(crate) static NAMESPACE: Schema = Schema {
    what: "namespace",
    label: None,
    fields: &[
        text("name", "Name"),
        text("description", "Description"),
        text("parent", "Parent"),
        text("weight", "Weight"),
        text("quota", "Quota"),
        text_map("meta", "Meta"),
        block("capabilities", "Capabilities", &CAPABILITIES),
    ],
    server_owned: &["CreateIndex", "ModifyIndex", "Hash"],
};

/// What jobs of a namespace may do.
static CAPABILITIES: Schema = schema(
    "capabilities",
    &[
        texts("enabled_task_drivers", "EnabledTaskDrivers"),
        texts("disabled_task_drivers", "DisabledTaskDrivers"),
    ],
);

/// A file that describes a quota.
pub(crate) static QUOTA: Schema = Schema {
    what: "quota",
    label: None,
    fields: &[
        text("name", "Name"),
        text("description", "Description"),
        blocks("limit", "Limits", &LIMIT),
        block("guarantee", "Guarantee", &AMOUNTS),
    ],
    server_owned: &["CreateIndex", "ModifyIndex", "Hash"],
};

/// A file in HCL that describes a node pool, in a block with its name.
pub(crate) static NODE_POOL_FILE: Schema = schema("file", &[blocks("node_pool", "NodePool", &NODE_POOL)]);

/// What describes a node pool: in JSON the whole file.
pub(crate) static NODE_POOL: Schema = Schema {
    what: "node_pool",
    label: Some("Name"),
    fields: &[text("description", "Description"), text_map("meta", "Meta")],
    server_owned: &["CreateIndex", "ModifyIndex", "Hash"],
};

/// A file that describes a variable.
pub(crate) static VARIABLE: Schema = Schema {
    what: "variable",
    label: None,
    fields: &[text("namespace", "Namespace"), text("path", "Path"), text_map("items", "Items")],
    server_owned: &["CreateIndex", "ModifyIndex", "CreateTime", "ModifyTime"],
};

/// The limit in one region.
static LIMIT: Schema = Schema {
    what: "limit",
    label: None,
    fields: &[text("region", "Region"), block("region_limit", "RegionLimit", &AMOUNTS)],
    server_owned: &["Hash"],
};

/// What may be held, or is guaranteed.
static AMOUNTS: Schema = schema(
    "amounts",
    &[
        whole("cpu", "CPU"),
        whole("memory", "MemoryMB"),
        whole("disk", "DiskMB"),
        blocks("device", "Devices", &QUOTA_DEVICE),
    ],
);

/// Devices of one name.
static QUOTA_DEVICE: Schema = labelled_schema("device", "Name", &[whole("count", "Count")]);
