//! Commits per second on a real disk, with the real store, of one server and of three in one process: `cargo bench -p
//! berth-replication --bench commit [-- DIR]`.
//!
//! Each command registers one small job. DIR must be on a disk; without it, the target directory is used. Three servers share
//! the processors and the disk.

#[path = "support/mod.rs"]
mod several;
#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_replication::{Metrics, Replication, is_memory_backed};
use tokio::sync::Mutex;

/// What is proposed in one round.
#[derive(Clone, Copy)]
struct Load {
    servers: u64,
    proposers: usize,
    /// By all proposers together.
    entries: u64,
    /// In each entry.
    commands: u64,
}

const ROUNDS: [Load; 8] = [
    Load { servers: 1, proposers: 1, entries: 5_000, commands: 1 },
    Load { servers: 1, proposers: 16, entries: 40_000, commands: 1 },
    Load { servers: 1, proposers: 128, entries: 150_000, commands: 1 },
    Load { servers: 1, proposers: 1024, entries: 200_000, commands: 1 },
    Load { servers: 1, proposers: 16, entries: 20_000, commands: 16 },
    Load { servers: 3, proposers: 1, entries: 3_000, commands: 1 },
    Load { servers: 3, proposers: 128, entries: 50_000, commands: 1 },
    Load { servers: 3, proposers: 16, entries: 10_000, commands: 16 },
];

fn main() {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let parent = named.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    if is_memory_backed(&parent).expect("the directory is there") {
        eprintln!("{} is not on a disk", parent.display());
        std::process::exit(1);
    }
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    println!("an entry of one command has {} bytes", support::register(1).encode().len());
    println!(
        "servers  proposers  commands  commits/s  commands/s  p50 us  p99 us  fsyncs  bytes/commit  snapshots"
    );
    for load in ROUNDS {
        runtime.block_on(round(&parent, load));
    }
}

async fn round(parent: &Path, load: Load) {
    let dir = tempfile::tempdir_in(parent).expect("a directory can be made");
    let servers = several::servers(dir.path(), load.servers).await;
    let log = servers[0].clone();
    let before = log.metrics();
    let next = Arc::new(Mutex::new(1));
    let started = Instant::now();
    let tasks: Vec<_> =
        (0..load.proposers).map(|_| tokio::spawn(propose(log.clone(), Arc::clone(&next), load))).collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.expect("a proposer does not panic"));
    }
    report(load, started.elapsed(), latencies, before, log.metrics());
    drop(log);
    for server in servers {
        server.shutdown().await.expect("the log ends in order");
    }
}

/// One proposer: takes the next index and submits it under one lock, as a leader mints indexes, and waits.
async fn propose(log: Replication, next: Arc<Mutex<u64>>, load: Load) -> Vec<Duration> {
    let mut latencies = Vec::new();
    loop {
        let mut index = next.lock().await;
        if *index > load.entries {
            return latencies;
        }
        let started = Instant::now();
        let pending = log
            .submit(log.term(), support::register_many(*index, load.commands))
            .await
            .expect("the log takes an entry");
        *index += 1;
        drop(index);
        pending.applied().await.expect("the entry is committed");
        latencies.push(started.elapsed());
    }
}

fn report(load: Load, took: Duration, mut latencies: Vec<Duration>, before: Metrics, after: Metrics) {
    latencies.sort_unstable();
    let commits = latencies.len();
    let rate = commits as f64 / took.as_secs_f64();
    println!(
        "{:>7}  {:>9}  {:>8}  {rate:>9.0}  {:>10.0}  {:>6}  {:>6}  {:>6}  {:>12}  {:>9}",
        load.servers,
        load.proposers,
        load.commands,
        rate * load.commands as f64,
        latencies[commits / 2].as_micros(),
        latencies[commits * 99 / 100].as_micros(),
        after.fsyncs - before.fsyncs,
        (after.appended_bytes - before.appended_bytes) / commits as u64,
        after.snapshots - before.snapshots,
    );
}
