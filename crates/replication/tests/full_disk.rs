//! A server whose file system is full, to the last byte: it starts, serves reads, says why it does not write, and goes on
//! when there is room. On a file system of its own, which takes the right to mount one.

#[path = "support/mod.rs"]
mod support;

use std::{fs, io::Write, path::Path, process::Command, sync::Arc};

use berth_replication::{Config, NotWritten, ProposeError, Replication};
use support::Recorder;

/// Of the file system: the log, its spare and its reserve have 48 MiB at the beginning.
const MIB: usize = 96;

/// A small file system that lasts as long as the value.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={MIB}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(dir)),
            Ok(output) => skip(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => skip(&error.to_string()),
        }
    }

    fn filler(&self) -> std::path::PathBuf {
        self.0.path().join("filler")
    }

    /// Somebody else writes until there is not a byte left.
    fn fill(&self) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.filler()).unwrap();
        let mut piece = 1 << 20;
        while piece > 0 {
            if file.write_all(&vec![1; piece]).is_err() {
                piece /= 2;
            }
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

fn skip(reason: &str) -> Option<Mounted> {
    println!("skipped: a file system cannot be mounted: {}", reason.trim());
    None
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0.path()).status().ok();
    }
}

async fn open(dir: &Path) -> (Replication, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let observer: Arc<Recorder> = Arc::clone(&recorder);
    (Replication::open(Config::new(dir.join("server"), "full"), observer).await.unwrap(), recorder)
}

/// Proposes until it is refused, at most to the end of a range; the index that was refused.
async fn propose(log: &Replication, indexes: std::ops::Range<u64>) -> Option<(u64, String)> {
    for index in indexes {
        match log.propose(support::register_many(index, 100)).await {
            Ok(_) => {}
            Err(ProposeError::NotWritten(NotWritten::DiskFull(reason))) => {
                return Some((index, reason.to_string()));
            }
            Err(error) => panic!("{error}"),
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_file_system_ends_nothing() {
    let Some(disk) = Mounted::new() else { return };
    let (log, recorder) = open(disk.0.path()).await;
    assert_eq!(propose(&log, 1..20).await, None);
    disk.fill();
    let (refused, reason) = propose(&log, 20..100_000).await.unwrap();
    assert!(reason.contains("disk full") && reason.contains(&format!("of {MIB}.0 MiB")), "{reason}");
    log.linearize().await.unwrap();
    assert_eq!(recorder.index(), refused - 1);
    let hash = recorder.hash();
    log.shutdown().await.unwrap();

    disk.fill();
    let (log, recorder) = open(disk.0.path()).await;
    assert_eq!(recorder.hash(), hash);
    assert!(matches!(log.writable(), Err(NotWritten::DiskFull(_))));
    assert_eq!(propose(&log, refused..refused + 1).await.map(|(index, _)| index), Some(refused));
    disk.make_room();
    assert_eq!(log.writable(), Ok(()));
    assert_eq!(propose(&log, refused..refused + 50).await, None);
    assert_eq!(*recorder.fatal.lock().unwrap(), Vec::<String>::new());
    log.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_fills_its_disk_alone_stops_in_time() {
    let Some(disk) = Mounted::new() else { return };
    let (log, recorder) = open(disk.0.path()).await;
    let (refused, _) = propose(&log, 1..100_000).await.unwrap();
    assert_eq!(recorder.index(), refused - 1);
    assert_eq!(*recorder.fatal.lock().unwrap(), Vec::<String>::new());
    let hash = recorder.hash();
    log.shutdown().await.unwrap();
    let (log, recorder) = open(disk.0.path()).await;
    assert_eq!(recorder.hash(), hash);
    log.shutdown().await.unwrap();
}
