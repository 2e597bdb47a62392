//! Commits per second on a real disk, with the real store: `cargo bench -p berth-replication [-- DIR]`.
//!
//! Each entry registers one small job. DIR must be on a disk; without it, the target directory is used.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_replication::{Config, Metrics, Replication, is_memory_backed};
use support::Recorder;
use tokio::sync::Mutex;

/// Proposers, and how many entries they propose together.
const ROUNDS: [(usize, u64); 4] = [(1, 5_000), (16, 40_000), (128, 150_000), (1024, 300_000)];

fn main() {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let parent = named.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    if is_memory_backed(&parent).expect("the directory is there") {
        eprintln!("{} is not on a disk", parent.display());
        std::process::exit(1);
    }
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    println!("each entry: {} bytes, one small job registered", support::register(1).encode().len());
    println!("proposers   commits/s   p50 us   p99 us   fsyncs   commits/fsync   bytes/commit   snapshots");
    for (proposers, entries) in ROUNDS {
        runtime.block_on(round(&parent, proposers, entries));
    }
}

async fn round(parent: &Path, proposers: usize, entries: u64) {
    let dir = tempfile::tempdir_in(parent).expect("a directory can be made");
    let observer = Arc::new(Recorder::default());
    let log = Replication::open(Config::new(dir.path(), "bench"), observer).await.expect("the log opens");
    let before = log.metrics();
    let next = Arc::new(Mutex::new(1));
    let started = Instant::now();
    let tasks: Vec<_> =
        (0..proposers).map(|_| tokio::spawn(propose(log.clone(), Arc::clone(&next), entries))).collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.expect("a proposer does not panic"));
    }
    report(proposers, started.elapsed(), latencies, before, log.metrics());
    log.shutdown().await.expect("the log ends in order");
}

/// One proposer: takes the next index and submits it under one lock, as a leader mints indexes, and waits.
async fn propose(log: Replication, next: Arc<Mutex<u64>>, entries: u64) -> Vec<Duration> {
    let mut latencies = Vec::new();
    loop {
        let mut index = next.lock().await;
        if *index > entries {
            return latencies;
        }
        let started = Instant::now();
        let pending = log.submit(support::register(*index)).await.expect("the log takes an entry");
        *index += 1;
        drop(index);
        pending.applied().await.expect("the entry is committed");
        latencies.push(started.elapsed());
    }
}

fn report(proposers: usize, took: Duration, mut latencies: Vec<Duration>, before: Metrics, after: Metrics) {
    latencies.sort_unstable();
    let commits = latencies.len();
    let fsyncs = after.fsyncs - before.fsyncs;
    println!(
        "{proposers:>9}   {:>9.0}   {:>6}   {:>6}   {fsyncs:>6}   {:>13.1}   {:>12}   {:>9}",
        commits as f64 / took.as_secs_f64(),
        latencies[commits / 2].as_micros(),
        latencies[commits * 99 / 100].as_micros(),
        commits as f64 / fsyncs as f64,
        (after.appended_bytes - before.appended_bytes) / commits as u64,
        after.snapshots - before.snapshots,
    );
}
