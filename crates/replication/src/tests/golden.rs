//! Data directories that released formats have left: every later version reads them. `tests/golden/layout-1` holds one,
//! as it was written when its layout was made.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use openraft::storage::RaftLogStorage;

use super::{Server, cut, propose};
use crate::{disk::Disk, types::log_id};

/// Set to write the files of the current layout again; only while no release has that layout.
const BLESS_VARIABLE: &str = "BERTH_BLESS";

fn golden(layout: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(layout)
}

/// A server that finds the files of a directory on its disk.
fn server_with(files: &Path) -> Server {
    let server = Server::new();
    for sub in ["", "log", "snapshots"] {
        for entry in fs::read_dir(files.join(sub)).into_iter().flatten().map(Result::unwrap) {
            if entry.path().is_file() {
                let name = entry.file_name();
                let mut file = server.disk.create(&server.path(sub).join(name)).unwrap();
                file.write_at(&fs::read(entry.path()).unwrap(), 0).unwrap();
            }
        }
    }
    server
}

/// Writes what is on a server's disk; segments whole, because they say how long they were made.
fn keep(server: &Server, files: &Path) {
    fs::remove_dir_all(files).ok();
    let suffixes = ["server", "state", ".log", ".snap"];
    for path in server.disk.paths() {
        let name = path.strip_prefix(server.dir.path()).unwrap();
        if suffixes.iter().any(|end| name.to_string_lossy().ends_with(end)) {
            let bytes = server.disk.read(&path).unwrap();
            fs::create_dir_all(files.join(name).parent().unwrap()).unwrap();
            fs::write(files.join(name), bytes).unwrap();
        }
    }
}

/// Two snapshots, several segments with entries, blank and membership records, and a vote.
async fn bless(files: &Path) {
    let server = Server::new();
    let (log, _) = server.open().await.unwrap();
    for round in 0..2 {
        propose(&log, 1 + round * 60..1 + (round + 1) * 60).await;
        log.snapshot_now().await.unwrap();
    }
    propose(&log, 121..141).await;
    log.shutdown().await.unwrap();
    keep(&server, files);
}

#[tokio::test(flavor = "multi_thread")]
async fn layout_1_is_read() {
    let files = golden("layout-1");
    if std::env::var_os(BLESS_VARIABLE).is_some() {
        bless(&files).await;
    }
    let server = server_with(&files);
    assert!(server.segments().len() > 1);
    assert_eq!(server.snapshots().len(), 2);
    let (log, recorder) = server.open().await.unwrap();
    let store = recorder.store.lock().unwrap().clone();
    assert_eq!((store.index().0, store.jobs().len()), (140, 140));
    let (_, job) = store.jobs().iter().last().unwrap();
    assert_eq!((job.job().groups[0].count, job.job().groups[0].tasks[0].name.as_str()), (3, "server"));
    assert_eq!(log.term(), 2);
    propose(&log, 141..150).await;
    log.shutdown().await.unwrap();
}

/// A follower's state file in the middle of the removal of records, which no single server has.
#[tokio::test(flavor = "multi_thread")]
async fn the_cut_of_layout_1_is_read() {
    let files = golden("layout-1-cut");
    if std::env::var_os(BLESS_VARIABLE).is_some() {
        let server = Server::new();
        let mut found = server.open_log().unwrap();
        cut::append(&mut found.log.store, 3, 0..100).await;
        let faults = server.disk.faults();
        let steps = faults.steps.load(Ordering::SeqCst);
        // The state file is written, synced and renamed, and its directory synced; then the power fails.
        faults.power_off_after.store(steps + 6, Ordering::SeqCst);
        found.log.store.truncate_after(Some(log_id(3, 50))).await.unwrap_err();
        keep(&server, &files);
    }
    let found = server_with(&files).open_log().unwrap();
    assert_eq!(found.log.ends.1, Some(log_id(3, 50)));
}

/// What the files of a directory begin with, so that a reader of any version knows what they are.
#[test]
fn files_say_what_they_are() {
    let begins = |name: &str| {
        let bytes = fs::read(golden("layout-1").join(name)).unwrap();
        String::from_utf8_lossy(&bytes[..8]).into_owned()
    };
    assert_eq!(begins("log/00000000000000000000.log"), "BERTHLOG");
    let snapshots = fs::read_dir(golden("layout-1/snapshots")).unwrap();
    for snapshot in snapshots.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        assert_eq!(begins(&format!("snapshots/{snapshot}")), "BERTHIMG");
    }
}
