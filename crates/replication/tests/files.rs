//! What lies on the disk belongs to the server alone, and is a file where a file should be.

#[path = "support/mod.rs"]
mod support;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use berth_replication::{Config, OpenError, Replication};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use support::Recorder;

async fn open(dir: &Path) -> Result<Replication, OpenError> {
    Replication::open(Config::new(dir, "files"), Arc::new(Recorder::default())).await
}

/// Opens a log, writes an entry and a snapshot, and closes it.
async fn use_once(dir: &Path, index: u64) {
    let log = open(dir).await.unwrap();
    log.propose(support::register(index)).await.unwrap();
    log.snapshot_now().await.unwrap();
    log.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_may_read_what_the_server_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let server = dir.path().join("server");
    fs::create_dir_all(server.join("log")).unwrap();
    for index in 1..3 {
        use_once(&server, index).await;
        assert_private(&server);
        // As an older version left it.
        for (path, mode) in [(server.clone(), 0o755), (server.join("log/state"), 0o644)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    }
}

fn assert_private(path: &Path) {
    let found = fs::metadata(path).unwrap();
    assert_eq!(found.permissions().mode() & 0o077, 0, "{} is open to others", path.display());
    if found.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| assert_private(&entry.unwrap().path()));
    }
}

/// All files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_in_the_place_of_a_file_is_named_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    use_once(dir.path(), 1).await;
    // The reserve is only room: without it, the log is opened all the same.
    let files = files(dir.path()).into_iter().filter(|path| !path.ends_with("reserve"));
    for (file, aside) in files.map(|file| (file.clone(), file.with_extension("aside"))) {
        fs::rename(&file, &aside).unwrap();
        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let refused = open(dir.path()).await.map(drop).unwrap_err().to_string();
        assert!(refused.contains("a named pipe where a file should be"), "{}: {refused}", file.display());
        assert!(refused.contains(&*file.to_string_lossy()), "{}: {refused}", file.display());
        fs::remove_file(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
    }
    open(dir.path()).await.unwrap().shutdown().await.unwrap();
}

#[test]
fn memory_is_distinguished_from_a_disk() {
    if Path::new("/dev/shm").is_dir() {
        assert!(berth_replication::is_memory_backed(Path::new("/dev/shm")).unwrap());
    }
    assert!(!berth_replication::is_memory_backed(Path::new("/proc")).unwrap());
    assert!(berth_replication::is_memory_backed(Path::new("/not/there")).is_err());
}
