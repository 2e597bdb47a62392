//! Files that a task finds when it starts: downloaded, rendered, or mounted.

use std::{collections::BTreeMap, time::Duration};

use minicbor::{Decode, Encode};

use super::{IgnoredSettings, seconds};

/// Something that is downloaded before the task starts.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Artifact {
    /// The URL to download from.
    #[n(0)]
    pub source: String,
    /// Where it is put, below the task's directory.
    #[n(1)]
    pub destination: String,
    /// `any`, `file` or `dir`: what the source is.
    #[n(2)]
    pub mode: String,
    /// Options of the downloader, as `checksum`.
    #[n(3)]
    pub options: BTreeMap<String, String>,
    /// Headers of the request.
    #[n(4)]
    pub headers: BTreeMap<String, String>,
    /// Accept any TLS certificate of the source.
    #[n(5)]
    pub insecure: bool,
    /// Give the files to the task's user.
    #[n(6)]
    pub chown: bool,
}

impl Default for Artifact {
    fn default() -> Self {
        Self {
            source: String::new(),
            destination: "local/".to_owned(),
            mode: "any".to_owned(),
            options: BTreeMap::new(),
            headers: BTreeMap::new(),
            insecure: false,
            chown: false,
        }
    }
}

/// What happens to the task when a file has been rendered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum ChangeMode {
    /// The task is restarted.
    #[default]
    #[n(0)]
    Restart,
    /// Nothing happens to it.
    #[n(1)]
    Noop,
    /// A signal is sent to it.
    #[n(2)]
    Signal,
    /// A command is run in it.
    #[n(3)]
    Script,
}

/// A file rendered from a template, again whenever what it shows has changed.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Template {
    /// A file that holds the template; empty when `data` does.
    #[n(0)]
    pub source: String,
    /// Where the rendered file is put, below the task's directory.
    #[n(1)]
    pub destination: String,
    /// The template; empty when a file holds it.
    #[n(2)]
    pub data: String,
    /// What happens to the task when the file has been rendered again.
    #[n(3)]
    pub change_mode: ChangeMode,
    /// The signal of [`ChangeMode::Signal`].
    #[n(4)]
    pub change_signal: String,
    /// The command of [`ChangeMode::Script`].
    #[n(5)]
    pub change_script: Option<Box<ChangeScript>>,
    /// Render it at the start only.
    #[n(6)]
    pub once: bool,
    /// What happens to the task waits for a random time up to this, so that not all tasks restart together.
    #[n(7)]
    #[cbor(with = "crate::codec::duration")]
    pub splay: Duration,
    /// The file's permissions, octal.
    #[n(8)]
    pub perms: String,
    /// The file's owner.
    #[n(9)]
    pub uid: Option<u32>,
    /// The file's group.
    #[n(10)]
    pub gid: Option<u32>,
    /// What opens an action in the template.
    #[n(11)]
    pub left_delimiter: String,
    /// What closes an action in the template.
    #[n(12)]
    pub right_delimiter: String,
    /// The file's lines are variables of the task's environment.
    #[n(13)]
    pub env: bool,
    /// A key that is missing is an error.
    #[n(14)]
    pub error_on_missing_key: bool,
    /// How long changes are collected.
    #[n(15)]
    pub wait: Option<Wait>,
    /// Settings of Vault's.
    #[n(16)]
    pub kept: IgnoredSettings,
}

impl Default for Template {
    fn default() -> Self {
        Self {
            source: String::new(),
            destination: String::new(),
            data: String::new(),
            change_mode: ChangeMode::Restart,
            change_signal: String::new(),
            change_script: None,
            once: false,
            splay: seconds(5),
            perms: "0644".to_owned(),
            uid: None,
            gid: None,
            left_delimiter: "{{".to_owned(),
            right_delimiter: "}}".to_owned(),
            env: false,
            error_on_missing_key: false,
            wait: None,
            kept: IgnoredSettings::new(),
        }
    }
}

/// How long changes of a template are collected before it is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Wait {
    /// It is rendered once nothing has changed for this long.
    #[n(0)]
    #[cbor(with = "crate::codec::duration")]
    pub min: Duration,
    /// It is rendered this long after the first change at the latest.
    #[n(1)]
    #[cbor(with = "crate::codec::duration")]
    pub max: Duration,
}

/// A command run in a task when a template has changed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChangeScript {
    /// Its path within the task.
    #[n(0)]
    pub command: String,
    /// Arguments of the command.
    #[n(1)]
    pub args: Vec<String>,
    /// It is killed after this long.
    #[n(2)]
    #[cbor(with = "crate::codec::duration")]
    pub timeout: Duration,
    /// The task fails when the command does.
    #[n(3)]
    pub fail_on_error: bool,
    /// Run it also when the file is rendered for the first time.
    #[n(4)]
    pub run_on_first_render: bool,
}

impl Default for ChangeScript {
    fn default() -> Self {
        Self {
            command: String::new(),
            args: Vec::new(),
            timeout: seconds(5),
            fail_on_error: false,
            run_on_first_render: false,
        }
    }
}

/// The kind of volumes that are directories of a node.
pub const VOLUME_HOST: &str = "host";

/// A volume that a group needs on its node.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub struct Volume {
    /// What tasks call it.
    #[n(0)]
    pub name: String,
    /// `host` or `csi`.
    #[n(1)]
    pub kind: String,
    /// What the node or the plugin calls it.
    #[n(2)]
    pub source: String,
    /// No task may write to it.
    #[n(3)]
    pub read_only: bool,
    /// A successor gets the same volume.
    #[n(4)]
    pub sticky: bool,
    /// Each allocation has its own, `source[INDEX]`.
    #[n(5)]
    pub per_alloc: bool,
    /// Who may use it at the same time, as `single-node-writer`; empty for the volume's own.
    #[n(6)]
    pub access_mode: String,
    /// `file-system` or `block-device`; empty for the volume's own.
    #[n(7)]
    pub attachment_mode: String,
    /// Settings of the storage plugin.
    #[n(8)]
    pub kept: IgnoredSettings,
}

/// Where a task sees one of its group's volumes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct VolumeMount {
    /// The name of a volume of the group.
    #[n(0)]
    pub volume: String,
    /// A path within the task.
    #[n(1)]
    pub destination: String,
    /// The task may not write.
    #[n(2)]
    pub read_only: bool,
    /// `private`, `host-to-task` or `bidirectional`: who sees mounts made below it.
    #[n(3)]
    pub propagation_mode: String,
    /// `z` or `Z`; empty for none.
    #[n(4)]
    pub selinux_label: String,
}

impl Default for VolumeMount {
    fn default() -> Self {
        Self {
            volume: String::new(),
            destination: String::new(),
            read_only: false,
            propagation_mode: "private".to_owned(),
            selinux_label: String::new(),
        }
    }
}
