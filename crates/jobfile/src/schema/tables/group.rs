//! Groups.

use super::*;

/// A group of tasks.
pub(crate) static GROUP: Schema = labelled_schema(
    "group",
    "Name",
    &[
        whole("count", "Count"),
        blocks("constraint", "Constraints", &CONSTRAINT),
        blocks("affinity", "Affinities", &AFFINITY),
        blocks("spread", "Spreads", &SPREAD),
        block("restart", "RestartPolicy", &RESTART),
        block("reschedule", "ReschedulePolicy", &RESCHEDULE),
        block("ephemeral_disk", "EphemeralDisk", &EPHEMERAL_DISK),
        blocks("network", "Networks", &NETWORK),
        text_map("meta", "Meta"),
        duration("shutdown_delay", "ShutdownDelay"),
        blocks("task", "Tasks", &TASK),
        block("update", "Update", &UPDATE),
        block("migrate", "Migrate", &MIGRATE),
        block("disconnect", "Disconnect", &DISCONNECT),
        labelled("volume", "Volumes", &VOLUME),
        blocks("service", "Services", &SERVICE),
        block("scaling", "Scaling", &SCALING),
        duration("max_run_duration", "MaxRunDuration"),
        duration("stop_after_client_disconnect", "StopAfterClientDisconnect"),
        duration("max_client_disconnect", "MaxClientDisconnect"),
        flag("prevent_reschedule_on_lost", "PreventRescheduleOnLost"),
        block("consul", "Consul", &CONSUL),
        block("vault", "", &VAULT),
        blocks("secret", "", &SECRET),
    ],
);

/// Room on the node's disk.
pub(crate) static EPHEMERAL_DISK: Schema = schema(
    "ephemeral_disk",
    &[whole("size", "SizeMB"), flag("sticky", "Sticky"), flag("migrate", "Migrate")],
);

/// Bounds of a count, or of a task's resources.
pub(crate) static SCALING: Schema = Schema {
    what: "scaling",
    label: Some("Type"),
    fields: &[
        flag("enabled", "Enabled"),
        whole("min", "Min"),
        whole("max", "Max"),
        settings("policy", "Policy"),
    ],
    server_owned: &["ID", "Namespace", "Target", "CreateIndex", "ModifyIndex"],
};
