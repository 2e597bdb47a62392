//! Whose data directory this is, and which version of Berth wrote it. Written after everything else of a first start is
//! in place, and again when another version takes over.

use std::{
    io,
    path::{Path, PathBuf},
};

use minicbor::{Decode, Encode};

use crate::{
    Config, OpenError,
    disk::{Disk, checked},
    error::Damage,
};

/// The directory's layout that this code reads and writes. Raised whenever the format of any file in it changes so that
/// older versions cannot read it; older layouts are read forever, as `tests/golden` shows.
const LAYOUT_VERSION: u32 = 1;
/// This version of Berth.
const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Fields 0 and 3 are the same in every layout.
#[derive(Debug, PartialEq, Eq, Encode, Decode)]
struct ServerRecord {
    #[n(0)]
    layout: u32,
    #[n(1)]
    cluster: String,
    #[n(2)]
    id: u64,
    /// Of the Berth that wrote it.
    #[n(3)]
    version: Option<String>,
}

/// The fields by which a layout is known to be too new.
#[derive(Decode)]
struct LayoutHeader {
    #[n(0)]
    layout: u32,
    #[n(3)]
    version: Option<String>,
}

impl ServerRecord {
    fn of(config: &Config) -> Self {
        Self {
            layout: LAYOUT_VERSION,
            cluster: config.cluster_name.clone(),
            id: config.server_id,
            version: Some(OUR_VERSION.to_owned()),
        }
    }

    fn describe(&self) -> String {
        format!("server {} of cluster `{}`", self.id, self.cluster)
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("server")
}

/// The id of the server whose data directory this is; none for a directory that is nobody's yet.
///
/// # Errors
/// When the file that says so is damaged or cannot be read.
pub fn server_id(disk: &dyn Disk, data_dir: &Path) -> Result<Option<u64>, OpenError> {
    let path = path(data_dir);
    let Some(bytes) = checked::load(disk, &path)? else { return Ok(None) };
    let found: Result<ServerRecord, _> = minicbor::decode(&bytes);
    // A layout that is too new is refused by name when the directory is opened.
    Ok(Some(found.map_err(|error| Damage::new(&path, error.to_string()))?.id))
}

/// Whether the directory has been written before; an error when by somebody else, or by a version that is too new.
pub(crate) fn check(disk: &dyn Disk, config: &Config) -> Result<bool, OpenError> {
    let path = path(&config.data_dir);
    let Some(bytes) = checked::load(disk, &path)? else { return Ok(false) };
    let damage = |error: minicbor::decode::Error| Damage::new(&path, error.to_string());
    let LayoutHeader { layout, version } = minicbor::decode(&bytes).map_err(damage)?;
    let dir = config.data_dir.clone();
    if layout > LAYOUT_VERSION {
        let version = version.unwrap_or_else(|| "of unknown version".to_owned());
        return Err(OpenError::Newer { dir, layout, version, ours: OUR_VERSION, known: LAYOUT_VERSION });
    }
    let found: ServerRecord = minicbor::decode(&bytes).map_err(damage)?;
    let wanted = ServerRecord::of(config);
    if (&found.cluster, found.id) == (&wanted.cluster, wanted.id) {
        return Ok(true);
    }
    Err(OpenError::NotOurs { dir, found: found.describe(), wanted: wanted.describe() })
}

/// Makes the directory this server's, and says that this version writes it.
pub(crate) fn claim(disk: &dyn Disk, config: &Config) -> io::Result<()> {
    let path = path(&config.data_dir);
    let bytes = minicbor::to_vec(ServerRecord::of(config)).expect("encoding to memory does not fail");
    if checked::load(disk, &path).is_ok_and(|found| found.as_ref() == Some(&bytes)) {
        return Ok(());
    }
    checked::replace(disk, &path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;

    #[derive(Encode)]
    struct Future {
        #[n(0)]
        layout: u32,
        #[n(1)]
        something_else: Vec<u8>,
        #[n(3)]
        version: Option<String>,
    }

    #[test]
    fn a_newer_layout_is_refused_with_both_versions() {
        let (disk, config) = (MemoryDisk::default(), Config::new("/data", "test"));
        let future = Future { layout: 7, something_else: vec![1], version: Some("9.1.0".to_owned()) };
        let bytes = minicbor::to_vec(future).unwrap();
        checked::replace(&disk, &path(&config.data_dir), &bytes).unwrap();
        let refused = check(&disk, &config).unwrap_err().to_string();
        let ours = format!("this is Berth {OUR_VERSION}, which knows layouts up to {LAYOUT_VERSION}");
        assert!(refused.contains("/data has layout 7, written by Berth 9.1.0"), "{refused}");
        assert!(refused.contains(&ours) && refused.contains("start Berth 9.1.0"), "{refused}");
    }

    #[test]
    fn another_version_of_the_same_layout_takes_over() {
        let (disk, config) = (MemoryDisk::default(), Config::new("/data", "test"));
        let path = path(&config.data_dir);
        let older = ServerRecord { version: None, ..ServerRecord::of(&config) };
        checked::replace(&disk, &path, &minicbor::to_vec(older).unwrap()).unwrap();
        assert!(check(&disk, &config).unwrap());
        claim(&disk, &config).unwrap();
        let now = minicbor::to_vec(ServerRecord::of(&config)).unwrap();
        assert_eq!(checked::load(&disk, &path).unwrap(), Some(now));
    }
}
