//! Hard links of a layer to files of the layers below it, which are not there while it is unpacked.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use super::{Unpacker, refused, short};

/// Bytes of the paths of a layer's links, which are kept until its end.
const PATHS_BYTES_MAX: usize = 16 << 20;

/// A hard link to a file of a lower layer. Its directory is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LowerLink {
    /// Relative to the layer's root, without `..`.
    pub(crate) path: PathBuf,
    /// The same, of the image that the layers below make.
    pub(crate) target: PathBuf,
}

impl LowerLink {
    /// Why it is refused where no layer is below, or none has the file.
    pub(crate) fn refusal(&self) -> String {
        format!(
            "{}: a hard link to {}, which is neither before it in its archive nor in a layer below: make the archive with \
             the file itself",
            short(&self.path),
            short(&self.target)
        )
    }
}

/// The hard links of a layer that were found so far.
#[derive(Debug, Default)]
pub(super) struct LowerLinks {
    targets: BTreeMap<PathBuf, PathBuf>,
    bytes: usize,
}

impl LowerLinks {
    pub(super) fn add(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        self.bytes += path.as_os_str().len() + target.as_os_str().len();
        if self.bytes > PATHS_BYTES_MAX {
            return Err(refused("the layer has too many hard links to files of lower layers"));
        }
        // A link to such a link is one to the same file.
        let target = self.targets.get(target).map_or(target, PathBuf::as_path).to_owned();
        self.targets.insert(path.to_owned(), target);
        Ok(())
    }

    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Those in whose place nothing else was unpacked later.
    pub(super) fn left(self, unpacker: &Unpacker) -> io::Result<Vec<LowerLink>> {
        let mut left = Vec::new();
        for (path, target) in self.targets {
            let (parent, name) = unpacker.parent(&path)?;
            match statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => left.push(LowerLink { path, target }),
                found => drop(found?),
            }
        }
        Ok(left)
    }
}

/// Why a link to `target` is refused that the archive does not have, which has no layers below it.
pub(super) fn missing(target: &Path) -> String {
    format!(
        "a hard link to {}, which the archive does not have before it: make the archive with the file itself",
        short(target)
    )
}
