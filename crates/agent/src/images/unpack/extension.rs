//! Entries of an archive that extend the header of the one that follows: long names, and those of pax.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use tar::{EntryType, Header, PaxExtensions};

use super::blocks::Blocks;
use super::refused;
use super::sparse::PaxSparse;

/// Bytes of one such entry; it is held in memory.
const EXTENSION_BYTES_MAX: u64 = 1 << 20;

/// What is known of the entry that follows.
#[derive(Debug, Default)]
pub(super) struct Extension {
    /// Its path, in place of its header's.
    pub(super) path: Option<PathBuf>,
    /// What it links to, in place of its header's.
    pub(super) link: Option<PathBuf>,
    /// Its owner, in place of its header's, which has no room for large numbers.
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    /// Set if it is a sparse file.
    pub(super) sparse: Option<PaxSparse>,
}

impl Extension {
    /// Takes in an entry that extends the next; false when it is none of those.
    pub(super) fn read<R: Read>(&mut self, header: &Header, blocks: &mut Blocks<R>) -> io::Result<bool> {
        match header.entry_type() {
            EntryType::GNULongName => self.path = Some(path(name(bytes(blocks)?))),
            EntryType::GNULongLink => self.link = Some(path(name(bytes(blocks)?))),
            EntryType::XHeader => self.read_pax(&bytes(blocks)?)?,
            // Comments and defaults, which no tool relies on.
            EntryType::XGlobalHeader => drop(bytes(blocks)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Where the entry that has this header belongs.
    pub(super) fn path(&self, header: &Header) -> io::Result<PathBuf> {
        let sparse = self.sparse.as_ref().and_then(|sparse| sparse.name.as_ref());
        sparse.or(self.path.as_ref()).map_or_else(|| Ok(header.path()?.into_owned()), |path| Ok(path.clone()))
    }

    fn read_pax(&mut self, bytes: &[u8]) -> io::Result<()> {
        for record in PaxExtensions::new(bytes) {
            let record = record?;
            match record.key_bytes() {
                b"path" => self.path = Some(path(record.value_bytes().to_vec())),
                b"linkpath" => self.link = Some(path(record.value_bytes().to_vec())),
                b"uid" => self.uid = Some(number(record.value_bytes())?),
                b"gid" => self.gid = Some(number(record.value_bytes())?),
                b"size" => return Err(refused("a file of 8 GiB or more")),
                key => {
                    if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                        let value = record.value_bytes();
                        self.sparse.get_or_insert_default().read(key, value, || path(value.to_vec()))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn bytes<R: Read>(blocks: &mut Blocks<R>) -> io::Result<Vec<u8>> {
    let len = blocks.left();
    if len > EXTENSION_BYTES_MAX {
        return Err(refused(&format!("a header of {len} bytes is over the limit of {EXTENSION_BYTES_MAX}")));
    }
    let mut bytes = Vec::new();
    blocks.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn number(digits: &[u8]) -> io::Result<u64> {
    let text = std::str::from_utf8(digits).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| refused("an owner that is not a number"))
}

/// Names end at the first zero byte.
fn name(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}
