//! A server whose data directory is lost or damaged becomes a new one: what is left is set aside, and it joins the others
//! under a new id, as one that only follows until it has caught up. It never founds a cluster instead.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use berth_replication::disk::{Disk, RealDisk};

/// In the data directory: where the others listen, one a line.
const FILE: &str = "rejoin";

/// Has the server of a data directory, which must not run, join those at `addresses` anew when it starts next. Returns
/// where what it had is set aside; none when it had nothing.
///
/// # Errors
/// When it runs, or the directory cannot be written: with what was being done.
pub fn rejoin(data_dir: &Path, addresses: &[String]) -> Result<Option<PathBuf>, String> {
    let server = data_dir.join("server");
    let failed = |doing: &str, path: &Path, error: &io::Error| format!("{doing} {}: {error}", path.display());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .map_err(|error| failed("make", data_dir, &error))?;
    let lock = if server.exists() {
        let lock = RealDisk.hold(&server).map_err(|error| failed("hold", &server, &error))?;
        let in_use = |_| format!("{} is in use: stop the server first", server.display());
        Some(lock.map_err(in_use)?)
    } else {
        None
    };
    // Before anything is moved: whatever fails from here on, the next start must not found a cluster.
    write(data_dir, addresses).map_err(|error| failed("write", &data_dir.join(FILE), &error))?;
    if lock.is_none() {
        return Ok(None);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let aside = data_dir.join(format!("server.aside-{}", now.as_millis()));
    let renamed = fs::rename(&server, &aside).and_then(|()| File::open(data_dir)?.sync_all());
    renamed.map_err(|error| failed("set aside", &server, &error)).map(|()| Some(aside))
}

/// The addresses that a server is to join because of [`rejoin`]; none without such a request.
///
/// # Errors
/// When that cannot be read.
pub(super) fn requested(data_dir: &Path) -> io::Result<Option<Vec<String>>> {
    match fs::read_to_string(data_dir.join(FILE)) {
        Ok(text) => Ok(Some(text.lines().map(str::to_owned).collect())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(data_dir: &Path, addresses: &[String]) -> io::Result<()> {
    let (path, next) = (data_dir.join(FILE), data_dir.join("rejoin.next"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    addresses.iter().try_for_each(|address| writeln!(file, "{address}"))?;
    file.sync_all()?;
    fs::rename(&next, &path)?;
    File::open(data_dir)?.sync_all()
}
