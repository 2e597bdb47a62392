//! What the server holds in memory, files and on disk, as the kernel reports it.

use std::{fs, io, path::Path, time::Duration};

use tokio::time::sleep;

use crate::run::{
    RunError,
    cluster::{Cluster, usage},
};

/// Looks, and the time between two of them: the least counts, as what is on its way is held by nobody for long, and a
/// server returns
/// what lies idle every five seconds.
const SAMPLES: u32 = 70;
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Memory, files and disk space that the server holds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ServerFootprint {
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
    /// Open files, connections included.
    pub files: u64,
    /// Size of its data directory, in bytes.
    pub data_bytes: u64,
}

impl ServerFootprint {
    /// Now; the least within seven seconds.
    pub async fn measure(cluster: &mut Cluster) -> Result<Self, RunError> {
        let mut least = Self { rss_bytes: u64::MAX, files: u64::MAX, data_bytes: u64::MAX };
        for _ in 0..SAMPLES {
            cluster.check()?;
            let now = Self::now(cluster)?;
            least = Self {
                rss_bytes: least.rss_bytes.min(now.rss_bytes),
                files: least.files.min(now.files),
                data_bytes: least.data_bytes.min(now.data_bytes),
            };
            sleep(POLL_EVERY).await;
        }
        Ok(least)
    }

    fn now(cluster: &Cluster) -> Result<Self, RunError> {
        let pid = cluster.children[0].pid();
        let data = cluster.data_dir().expect("the server was started here");
        let open = Path::new("/proc").join(pid.to_string()).join("fd");
        let files = fs::read_dir(&open).map_err(|source| RunError::io("list", &open, source))?.count() as u64;
        let data_bytes = bytes_below(data).map_err(|source| RunError::io("measure", data, source))?;
        Ok(Self { rss_bytes: usage(pid).unwrap_or_default().rss_bytes, files, data_bytes })
    }
}

/// Bytes on disk of all files below a directory; files that go away meanwhile count nothing.
fn bytes_below(dir: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let gone_is = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(0),
        _ => Err(error),
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => return gone_is(error),
    };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path())?,
            Ok(metadata) => metadata.blocks() * 512,
            Err(error) => gone_is(error)?,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_count_and_one_that_is_gone_does_not() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert_eq!(bytes_below(dir.path()).unwrap(), 0);
        fs::create_dir(dir.path().join("below")).unwrap();
        for name in ["one", "below/two"] {
            fs::write(dir.path().join(name), [7; 10_000]).unwrap();
        }
        let found = bytes_below(dir.path()).unwrap();
        assert!((20_000..100_000).contains(&found), "{found}");
        assert_eq!(bytes_below(&dir.path().join("gone")).unwrap(), 0);
    }
}
