//! Files that a task finds.

use super::*;

/// An `artifact` block: what is downloaded for a task.
pub(crate) static ARTIFACT: Schema = schema(
    "artifact",
    &[
        text("source", "GetterSource"),
        text("destination", "RelativeDest"),
        text("mode", "GetterMode"),
        text_map("options", "GetterOptions"),
        text_map("headers", "GetterHeaders"),
        flag("insecure", "GetterInsecure"),
        flag("chown", "Chown"),
    ],
);

/// A `template` block: a file that is rendered for a task.
pub(crate) static TEMPLATE: Schema = schema(
    "template",
    &[
        text("source", "SourcePath"),
        text("destination", "DestPath"),
        text("data", "EmbeddedTmpl"),
        text("change_mode", "ChangeMode"),
        text("change_signal", "ChangeSignal"),
        block("change_script", "ChangeScript", &CHANGE_SCRIPT),
        flag("once", "Once"),
        duration("splay", "Splay"),
        text("perms", "Perms"),
        whole("uid", "Uid"),
        whole("gid", "Gid"),
        text("left_delimiter", "LeftDelim"),
        text("right_delimiter", "RightDelim"),
        flag("env", "Envvars"),
        flag("error_on_missing_key", "ErrMissingKey"),
        block("wait", "Wait", &WAIT),
        duration("vault_grace", "VaultGrace"),
    ],
);

/// What is run when a template has changed.
pub(crate) static CHANGE_SCRIPT: Schema = schema(
    "change_script",
    &[
        text("command", "Command"),
        texts("args", "Args"),
        duration("timeout", "Timeout"),
        flag("fail_on_error", "FailOnError"),
        flag("run_on_first_render", "RunOnFirstRender"),
    ],
);

/// How long changes are collected.
pub(crate) static WAIT: Schema = schema("wait", &[duration("min", "Min"), duration("max", "Max")]);

/// What a group needs.
pub(crate) static VOLUME: Schema = labelled_schema(
    "volume",
    "Name",
    &[
        text("type", "Type"),
        text("source", "Source"),
        flag("read_only", "ReadOnly"),
        flag("sticky", "Sticky"),
        flag("per_alloc", "PerAlloc"),
        text("access_mode", "AccessMode"),
        text("attachment_mode", "AttachmentMode"),
        block("mount_options", "MountOptions", &MOUNT_OPTIONS),
    ],
);

static MOUNT_OPTIONS: Schema =
    schema("mount_options", &[text("fs_type", "FSType"), texts("mount_flags", "MountFlags")]);

/// Where a task sees it.
pub(crate) static VOLUME_MOUNT: Schema = schema(
    "volume_mount",
    &[
        text("volume", "Volume"),
        text("destination", "Destination"),
        flag("read_only", "ReadOnly"),
        text("propagation_mode", "PropagationMode"),
        text("selinux_label", "SELinuxLabel"),
    ],
);

/// Where a dispatch's data is put.
pub(crate) static DISPATCH_PAYLOAD: Schema = schema("dispatch_payload", &[text("file", "File")]);
