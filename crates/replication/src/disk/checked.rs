//! Small files that are replaced whole and read back whole or not at all.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::Disk;
use crate::error::{Damage, OpenError};

/// The checksum before the content.
const CRC_BYTES: usize = 4;

/// Replaces a file so that a crash leaves the old content or the new. Durable when it returns.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let next = with_suffix(path, ".next");
    let mut bytes = crc32c::crc32c(content).to_le_bytes().to_vec();
    bytes.extend_from_slice(content);
    let mut file = disk.create(&next)?;
    file.write_at(&bytes, 0)?;
    file.sync()?;
    disk.rename(&next, path)?;
    disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Reads what [`replace`] wrote; none when there is no such file.
///
/// # Errors
/// When it cannot be read, or is damaged.
pub(crate) fn load(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, OpenError> {
    let bytes = match disk.read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(OpenError::Read { path: path.to_owned(), source }),
    };
    match bytes.split_first_chunk::<CRC_BYTES>() {
        Some((crc, content)) if u32::from_le_bytes(*crc) == crc32c::crc32c(content) => {
            Ok(Some(content.to_vec()))
        }
        _ => Err(Damage::new(path, "its checksum does not match").into()),
    }
}

/// The path with something added to its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
