//! What a snapshot of a large state costs: how much longer writes take while it is written, and how long a start from it takes:
//! `cargo bench -p berth-replication --bench snapshot [-- [ALLOCATIONS] [DIR]]`. DIR must be on a disk; without it, the target
//! directory is used. Two million allocations need about 10 GB of memory: what was written is read back while it is there.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::Placement,
    command::{Command, Entry, EvalOutcome, PlanRecord},
    eval::EvalStatus,
    node::{Node, NodeStatus},
    resources::Resources,
};
use berth_replication::{Config, Replication, is_memory_backed};
use support::Recorder;

/// As many as published runs with two million allocations had.
const NODES: u64 = 6_100;
/// Of a job; as many as fit an entry with ease.
const JOB_ALLOCS: u64 = 1_000;
/// Allocations, unless others are asked for.
const ALLOCS: u64 = 2_000_000;
/// How long writes are measured without a snapshot.
const QUIET: Duration = Duration::from_secs(10);

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let allocs = named.iter().find_map(|argument| argument.parse().ok()).unwrap_or(ALLOCS);
    let dir = named.iter().find(|argument| argument.parse::<u64>().is_err());
    let parent = dir.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    if is_memory_backed(&parent).expect("the directory is there") {
        eprintln!("{} is not on a disk", parent.display());
        std::process::exit(1);
    }
    tokio::runtime::Runtime::new().expect("threads can be started").block_on(measure(&parent, allocs));
}

async fn measure(parent: &Path, allocs: u64) {
    let dir = tempfile::tempdir_in(parent).expect("a directory can be made");
    let mut log = Log::open(dir.path()).await;
    log.fill(allocs).await;
    println!("{allocs} allocations on {NODES} nodes");
    // What the log has asked for by itself is out of the way.
    log.replication.snapshot_now().await.expect("it is written");
    let started_at = Instant::now();
    let quiet = log.write_while(|| started_at.elapsed() < QUIET).await;
    let replication = log.replication.clone();
    let writing = tokio::spawn(async move {
        let started_at = Instant::now();
        replication.snapshot_now().await.expect("it is written");
        started_at.elapsed()
    });
    let busy = log.write_while(|| !writing.is_finished()).await;
    let took = writing.await.expect("no panic");
    tell("writes without a snapshot", &quiet);
    tell("writes beside a snapshot", &busy);
    let bytes = newest(dir.path());
    println!("snapshot: {:.1} MiB, written and read back in {:.2} s", mib(bytes), took.as_secs_f64());
    log.replication.shutdown().await.expect("the log ends in order");
    drop(log.recorder);
    let started_at = Instant::now();
    let log = Log::open(dir.path()).await;
    let took = started_at.elapsed().as_secs_f64();
    assert_eq!(log.allocs(), allocs, "the start has found all of them");
    println!("cold start: {took:.2} s, {:.1} s a GB", took / (bytes as f64 / 1e9));
    log.replication.shutdown().await.expect("the log ends in order");
}

/// A log, and the index of its last entry.
struct Log {
    replication: Replication,
    recorder: Arc<Recorder>,
    index: u64,
}

impl Log {
    async fn open(dir: &Path) -> Self {
        let recorder = Arc::new(Recorder::default());
        let config = Config { snapshot_entries: 1_000_000, ..Config::new(dir, "bench") };
        let replication = Replication::open(config, recorder.clone()).await.expect("the log opens");
        let index = recorder.index();
        Self { replication, recorder, index }
    }

    fn allocs(&self) -> u64 {
        self.recorder.store.lock().unwrap().allocs().len() as u64
    }

    async fn propose(&mut self, commands: Vec<Command>) {
        self.index += 1;
        let entry = Entry::new(Index(self.index), Timestamp(self.index), commands);
        self.replication.propose(entry).await.expect("the entry is committed");
    }

    async fn fill(&mut self, allocs: u64) {
        let nodes: Vec<Command> = (1..=NODES).flat_map(|id| node(id.into())).collect();
        for some in nodes.chunks(1_000) {
            self.propose(some.to_vec()).await;
        }
        for job in 0..allocs.div_ceil(JOB_ALLOCS) {
            let count = JOB_ALLOCS.min(allocs - job * JOB_ALLOCS);
            let eval = EvalId((self.index + 1).into());
            let register = support::register(self.index + 1);
            self.propose(register.commands).await;
            let job = JobKey::new("default", &format!("job-{}", self.index));
            let plan = plan(job, eval, Index(self.index), count);
            self.propose(vec![plan]).await;
        }
        assert_eq!(self.allocs(), allocs, "all are placed");
    }

    /// Small writes, one after the other, for as long as it is wanted.
    async fn write_while(&mut self, wanted: impl Fn() -> bool) -> Vec<Duration> {
        let mut latencies = Vec::new();
        while wanted() {
            let register = support::register(self.index + 1);
            let started_at = Instant::now();
            self.propose(register.commands).await;
            latencies.push(started_at.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        latencies.sort_unstable();
        latencies
    }
}

/// A node that is ready, with room for all that is placed on it.
fn node(id: u128) -> [Command; 2] {
    let room = Resources { cpu_mhz: 1_000_000_000, memory_mb: 1_000_000_000, disk_mb: 1_000_000_000 };
    let node = Node {
        host_ip: "127.0.0.1".into(),
        secret_hash: vec![1; 32],
        ..Node::new(NodeId(id), &format!("n{id}"), room)
    };
    let ready = Command::SetNodeStatus(NodeId(id), NodeStatus::Ready, None);
    [Command::RegisterNode(Box::new(node)), ready]
}

/// Places `count` allocations of a job that has just been registered.
fn plan(job: JobKey, eval: EvalId, index: Index, count: u64) -> Command {
    let placement = |number: u64| Placement {
        id: AllocId(u128::from(index.0) << 64 | u128::from(number)),
        node: NodeId(u128::from((index.0 * JOB_ALLOCS + number) % NODES) + 1),
        group: 0,
        name_index: number as u32,
        ports: vec![],
        after: vec![],
        previous: None,
        reschedules: vec![],
        devices: vec![],
        cores: vec![],
        canary: false,
        job_version: None,
    };
    let outcome = EvalOutcome {
        status: EvalStatus::Complete,
        description: String::new(),
        failures: vec![].into(),
        next: vec![],
    };
    let record = PlanRecord {
        eval,
        job,
        job_version: 0,
        snapshot_index: index,
        placements: (0..count).map(placement).collect(),
        stops: vec![],
        outcome: Some(outcome),
        deployment: None,
        updates: None,
    };
    Command::CommitPlan(Box::new(record))
}

/// The bytes of the newest snapshot.
fn newest(dir: &Path) -> u64 {
    let files = fs::read_dir(dir.join("snapshots")).expect("it is there").flatten();
    let snapshots = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "snap"));
    let newest = snapshots.max_by_key(fs::DirEntry::file_name).expect("one was written");
    newest.metadata().expect("it is there").len()
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn tell(what: &str, sorted: &[Duration]) {
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "{what}: {} of them, p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, longest {:.2} ms",
        sorted.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
