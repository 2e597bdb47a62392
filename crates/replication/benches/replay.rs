//! How long a start takes, and what of it is more than applying the entries: `cargo bench -p berth-replication --bench
//! replay [-- DIR]`.
//!
//! Each load is written, the log is closed as by a crash, and opened again. The same entries are also decoded and
//! applied to a store, and to nothing else: what a start takes beyond that is reading, checking and handing over.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_model::{command::Entry, store::Store};
use berth_replication::{Config, Replication};
use support::Recorder;

/// Entries submitted before the first of them is waited for.
const IN_FLIGHT: usize = 256;

/// What is in the log.
#[derive(Clone, Copy)]
struct Load {
    entries: u64,
    /// Registered in each.
    jobs: u64,
    /// Names that jobs have: fewer than jobs when most of the log is history.
    names: u64,
}

const LOADS: [Load; 3] = [
    Load { entries: 15_000, jobs: 1, names: u64::MAX },
    Load { entries: 600, jobs: 50, names: u64::MAX },
    Load { entries: 15_000, jobs: 1, names: 200 },
];

fn main() {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let parent = named.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    println!("entries  jobs each  log MiB  open ms  apply ms  ratio  us/entry");
    for load in LOADS {
        runtime.block_on(round(&parent, load));
    }
}

fn entry(load: Load, index: u64) -> Entry {
    support::register_names(index, load.jobs, load.names)
}

async fn round(parent: &Path, load: Load) {
    let dir = tempfile::tempdir_in(parent).expect("a directory can be made");
    let bytes = fill(dir.path(), load).await;
    let started = Instant::now();
    let log = open(dir.path()).await;
    let opened = started.elapsed();
    log.shutdown().await.expect("the log ends in order");
    let applied = apply(load);
    println!(
        "{:>7}  {:>9}  {:>7.1}  {:>7}  {:>8}  {:>5.2}  {:>8.1}",
        load.entries,
        load.jobs,
        bytes as f64 / f64::from(1 << 20),
        opened.as_millis(),
        applied.as_millis(),
        opened.as_secs_f64() / applied.as_secs_f64(),
        opened.as_secs_f64() * 1e6 / load.entries as f64,
    );
}

async fn open(dir: &Path) -> Replication {
    // No snapshots: the log is what is measured.
    let config = Config { snapshot_entries: 1_000_000, ..Config::new(dir, "bench") };
    Replication::open(config, Arc::new(Recorder::default())).await.expect("the log opens")
}

/// Writes a load and ends without a word; how many bytes it has.
async fn fill(dir: &Path, load: Load) -> u64 {
    let log = open(dir).await;
    let mut pending = Vec::new();
    for index in 1..=load.entries {
        pending.push(log.submit(log.term(), entry(load, index)).await.expect("the log takes an entry"));
        if pending.len() == IN_FLIGHT || index == load.entries {
            for submitted in pending.drain(..) {
                submitted.applied().await.expect("the entry is committed");
            }
        }
    }
    let bytes = log.metrics().appended_bytes;
    drop(log);
    // The directory is free when the last part of the log has ended.
    while Replication::open(Config::new(dir, "another"), Arc::new(Recorder::default()))
        .await
        .is_err_and(|error| matches!(error, berth_replication::OpenError::InUse { .. }))
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    bytes
}

/// Decodes and applies the entries of a load.
fn apply(load: Load) -> Duration {
    let entries: Vec<Vec<u8>> = (1..=load.entries).map(|index| entry(load, index).encode()).collect();
    let mut store = Store::default();
    let started = Instant::now();
    for bytes in &entries {
        store.apply(Entry::decode(bytes).expect("it was just encoded"));
    }
    started.elapsed()
}
