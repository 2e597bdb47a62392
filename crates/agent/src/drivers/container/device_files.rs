//! The files of devices in a container: made again for it, and allowed by its cgroup; nothing else is.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use serde_json::{Value, json};

use crate::failure::{Failure, FailureContext};
use crate::keeper::plan::DeviceNode;
use crate::keeper::stage;

/// Enough to read, write and control a device, not to make another file of it.
const ACCESS: &str = "rw";

/// A device file of the host.
#[derive(Debug)]
pub(super) struct DeviceFile {
    path: String,
    /// As the runtime spells it.
    kind: &'static str,
    found: Metadata,
}

/// What the host has at these paths.
pub(super) fn all(paths: &[PathBuf]) -> Result<Vec<DeviceFile>, Failure> {
    paths.iter().map(|path| DeviceFile::read(path)).collect()
}

impl DeviceFile {
    fn read(path: &Path) -> Result<Self, Failure> {
        let doing = || format!("find the device file {}", path.display());
        let found = std::fs::metadata(path).doing(doing)?;
        let kind = match found.file_type() {
            kind if kind.is_char_device() => "c",
            kind if kind.is_block_device() => "b",
            _ => return Err(Failure::other(doing(), "it is neither a character nor a block device")),
        };
        Ok(Self { path: path.to_string_lossy().into_owned(), kind, found })
    }

    /// The device node that the keeper makes.
    pub(super) fn node(&self) -> DeviceNode {
        DeviceNode {
            path: self.path.clone(),
            is_block: self.kind == "b",
            major: major(self.found.rdev()).into(),
            minor: minor(self.found.rdev()).into(),
            mode: self.found.mode() & 0o777,
            uid: self.found.uid(),
            gid: self.found.gid(),
        }
    }

    /// An entry of `mounts`.
    pub(super) fn bound(&self, number: usize) -> Value {
        let staged = stage::device(number);
        json!({
            "type": "bind", "source": staged.to_string_lossy(), "destination": self.path,
            "options": ["bind", "rprivate", "nosuid", "noexec", "rw"],
        })
    }

    /// An entry of `linux.resources.devices`.
    pub(super) fn allowed(&self) -> Value {
        let (major, minor) = (major(self.found.rdev()), minor(self.found.rdev()));
        json!({"allow": true, "type": self.kind, "major": major, "minor": minor, "access": ACCESS})
    }
}
