//! What a layer removes from those below it (image-spec, "Whiteouts").

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, mknodat, statat};
use rustix::io::Errno;

use super::{Unpacker, refused};

const PREFIX: &[u8] = b".wh.";
/// Says that nothing of the directory that it lies in comes from below.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What older tools kept for themselves.
const OWN: &[u8] = b".wh..wh.";

/// Bytes of the names of a layer, which are kept until its end: what it removes and what it adds come in any order.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// What a layer removes from the layers below it.
#[derive(Debug, Default)]
pub(super) struct Whiteouts {
    removed: Vec<PathBuf>,
    opaque: Vec<PathBuf>,
    bytes: usize,
}

impl Whiteouts {
    /// Takes in an entry's path; false when it names an ordinary file.
    pub(super) fn read(&mut self, path: &Path) -> io::Result<bool> {
        let name = path.file_name().map_or(&b""[..], OsStrExt::as_bytes);
        if !name.starts_with(PREFIX) {
            return Ok(false);
        }
        let dir = path.parent().unwrap_or(Path::new(""));
        self.bytes += path.as_os_str().len();
        if self.bytes > NAMES_BYTES_MAX {
            return Err(refused("the layer removes too much"));
        }
        if name == OPAQUE {
            self.opaque.push(dir.to_owned());
        } else if !name.starts_with(OWN) {
            let removed = &name[PREFIX.len()..];
            if matches!(removed, b"" | b"." | b"..") {
                return Err(refused("a whiteout that removes no file"));
            }
            self.removed.push(dir.join(OsStr::from_bytes(removed)));
        }
        Ok(true)
    }

    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Makes what stands for it; the directories that are still to be marked.
    pub(super) fn apply(mut self, unpacker: &Unpacker) -> io::Result<Vec<PathBuf>> {
        for path in &self.removed {
            let (parent, name) = unpacker.parent(path)?;
            match statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {
                    mknodat(&parent, &name, FileType::CharacterDevice, Mode::empty(), 0)?;
                }
                Err(errno) => return Err(errno.into()),
                // What the layer has itself hides what is below, but that directories are merged.
                Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {
                    self.opaque.push(path.clone());
                }
                Ok(_) => {}
            }
        }
        for dir in &self.opaque {
            unpacker.open_or_make(dir)?;
        }
        Ok(self.opaque)
    }
}
