//! What is read, checked and kept, but not acted upon yet. Whoever makes Berth act on a setting takes it out here.

use super::{Schema, tables::*};

/// Settings by the block in which they stand.
static UNENFORCED: &[(&Schema, &[&str])] = &[
    (&JOB, &["multiregion", "vault", "consul_namespace", "vault_namespace"]),
    (&GROUP, &["consul", "vault"]),
    (&EPHEMERAL_DISK, &["migrate"]),
    (&TASK, &["vault", "consul", "action", "schedule", "csi_plugin", "kind"]),
    (&TEMPLATE, &["vault_grace"]),
    (&CHANGE_SCRIPT, &["run_on_first_render"]),
    (&IDENTITY, &["service_name", "extra_claims"]),
    (&VOLUME, &["sticky", "per_alloc", "access_mode", "attachment_mode", "mount_options"]),
    (&VOLUME_MOUNT, &["selinux_label"]),
    (&RESTART, &["render_templates"]),
    (&RESOURCES, &["numa", "secrets", "disk", "iops", "network"]),
    (&NETWORK, &["cni", "mbits"]),
    (&PORT, &["ignore_collision"]),
    (
        &SERVICE,
        &[
            "name",
            "tags",
            "canary_tags",
            "meta",
            "canary_meta",
            "address",
            "identity",
            "tagged_addresses",
            "enable_tag_override",
            "weights",
            "connect",
            "cluster",
            "kind",
        ],
    ),
    (&CHECK, &["failures_before_warning", "address_mode", "advertise", "expose"]),
];

/// The blocks and names of the settings that are accepted and kept, but not acted upon yet.
pub fn unenforced() -> impl Iterator<Item = (&'static str, &'static str)> {
    UNENFORCED.iter().flat_map(|(schema, names)| names.iter().map(|name| (schema.what, *name)))
}

/// Whether a setting of a block is among them.
pub(super) fn is_unenforced(schema: &Schema, name: &str) -> bool {
    UNENFORCED.iter().any(|(listed, names)| listed.what == schema.what && names.contains(&name))
}

/// Whether a setting that has no effect is warned of by its own name. Most of a service's are about its name in a catalogue:
/// one warning at the block says that there is none.
pub(super) fn is_warned_of(schema: &Schema, name: &str) -> bool {
    is_unenforced(schema, name) && (schema.what != SERVICE.what || name == "connect")
}

/// Settings with another one that does what they are meant to do, and where that is written.
static INSTEAD: &[(&Schema, &str, &str)] = &[
    (&RESOURCES, "network", "write it in the group, where it acts: `group \"name\" { network { ... } }`"),
    (&RESOURCES, "disk", "write `size` in the group's `ephemeral_disk`, which acts"),
];

/// What to do about a setting that has no effect.
pub(super) fn instead_of(schema: &Schema, name: &str) -> &'static str {
    let instead = INSTEAD.iter().find(|(listed, of, _)| listed.what == schema.what && *of == name);
    instead.map_or("it is checked and stored, and has no effect", |(.., instead)| instead)
}
