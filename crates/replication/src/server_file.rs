//! Whose data directory this is. Written once, after everything else of a first start is in place.

use std::path::{Path, PathBuf};

use minicbor::{Decode, Encode};

use crate::{
    Config, OpenError,
    disk::{Disk, checked},
    error::Damage,
};

/// The directory's layout that this code reads and writes.
const LAYOUT_VERSION: u32 = 1;

#[derive(Debug, PartialEq, Eq, Encode, Decode)]
struct Server {
    #[n(0)]
    layout: u32,
    #[n(1)]
    cluster: String,
    #[n(2)]
    id: u64,
}

impl Server {
    fn of(config: &Config) -> Self {
        Self { layout: LAYOUT_VERSION, cluster: config.cluster_name.clone(), id: config.server_id }
    }

    fn describe(&self) -> String {
        format!("server {} of cluster `{}` (layout {})", self.id, self.cluster, self.layout)
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("server")
}

/// Whether the directory has been written before; an error when by somebody else.
pub(crate) fn check(disk: &dyn Disk, config: &Config) -> Result<bool, OpenError> {
    let path = path(&config.data_dir);
    let Some(bytes) = checked::load(disk, &path)? else { return Ok(false) };
    let found: Server = minicbor::decode(&bytes).map_err(|error| Damage::new(&path, error.to_string()))?;
    let wanted = Server::of(config);
    if found == wanted {
        return Ok(true);
    }
    let dir = config.data_dir.clone();
    Err(OpenError::NotOurs { dir, found: found.describe(), wanted: wanted.describe() })
}

/// Makes the directory this server's.
pub(crate) fn claim(disk: &dyn Disk, config: &Config) -> Result<(), OpenError> {
    let path = path(&config.data_dir);
    let bytes = minicbor::to_vec(Server::of(config)).expect("encoding to memory does not fail");
    checked::replace(disk, &path, &bytes).map_err(OpenError::write(&path))
}
