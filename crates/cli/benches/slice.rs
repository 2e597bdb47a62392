//! Times that users wait: until `berth dev` is ready, and until a job runs.

#[path = "../tests/e2e/mod.rs"]
mod e2e;

use std::{
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use berth_api::http::{AllocationStub, Client, NodeStub, Target};
use e2e::{Daemon, berth, free_port};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Runs of each.
const RUNS: usize = 10;
/// Between two looks whether a server is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Until a run is given up.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    println!(
        "{:<52} {:>8} {:>8} {:>8} {:>8} {:>5}",
        "from ... to ...", "goal", "median", "min", "max", "runs"
    );
    let mut starts = Vec::new();
    for _ in 0..RUNS {
        starts.push(start_to_ready().await);
    }
    print_row("process start to ready (`berth dev`)", "2 s", &starts);
    print_row("process start to alloc running (`berth job run`)", "0.3 s", &runs_of_a_job().await);
}

/// A `berth dev` of its own, its data on the disk that builds are on.
struct Dev {
    client: Client,
    address: String,
    _daemon: Daemon,
    dir: TempDir,
}

impl Dev {
    fn start() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let address = format!("127.0.0.1:{}", free_port());
        let data = dir.path().join("data");
        let args = ["dev", "--http-addr", &address, "--data-dir", data.to_str().expect("plain")];
        let daemon = Daemon::start(&args, &dir.path().join("dev.err"));
        Self { client: e2e::client(&address), address, dir, _daemon: daemon }
    }

    async fn is_ready(&self) -> bool {
        let leader = self.client.get::<String>(&Target::new("/v1/status/leader")).await;
        let nodes = self.client.get::<Vec<NodeStub>>(&Target::new("/v1/nodes")).await;
        leader.is_ok() && nodes.is_ok_and(|nodes| nodes.value.iter().any(|node| node.status == "ready"))
    }

    async fn wait_until_ready(&self) {
        let begun = Instant::now();
        while !self.is_ready().await {
            assert!(begun.elapsed() < PATIENCE, "the node never got ready");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

async fn start_to_ready() -> Duration {
    let begun = Instant::now();
    let dev = Dev::start();
    dev.wait_until_ready().await;
    begun.elapsed()
}

async fn runs_of_a_job() -> Vec<Duration> {
    let dev = Dev::start();
    dev.wait_until_ready().await;
    let mut took = Vec::new();
    for number in 0..RUNS {
        took.push(run_of_a_job(&dev, &format!("run-{number}")).await);
    }
    took
}

/// From the start of the command to its end, when the job's allocation must run.
async fn run_of_a_job(dev: &Dev, id: &str) -> Duration {
    let file = dev.dir.path().join(id);
    fs::write(&file, mock_job(id).to_string()).expect("a file");
    let address = format!("http://{}", dev.address);
    let mut command = berth(&["job", "run", "--address", &address, file.to_str().expect("plain")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let begun = Instant::now();
    let output = command.output().expect("berth runs");
    let took = begun.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let allocs = Target::new("/v1/job").part(id).part("allocations");
    let allocs = dev.client.get::<Vec<AllocationStub>>(&allocs).await.expect("is there").value;
    assert!(allocs.iter().all(|alloc| alloc.client_status == "running") && allocs.len() == 1, "{allocs:?}");
    took
}

/// A task that only pretends to run.
fn mock_job(id: &str) -> Value {
    json!({"ID": id, "Name": id, "Type": "service", "TaskGroups": [{
        "Name": "group",
        "EphemeralDisk": {"SizeMB": 10},
        "Tasks": [{
            "Name": "task",
            "Driver": "mock_driver",
            "Config": {"run_for": "1h"},
            "LogConfig": {"Disabled": true},
            "Resources": {"CPU": 1, "MemoryMB": 10},
        }],
    }]})
}

fn print_row(name: &str, goal: &str, took: &[Duration]) {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let seconds = |duration: Duration| format!("{:.3}", duration.as_secs_f64());
    let (median, min, max) = (sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1]);
    let (median, min, max) = (seconds(median), seconds(min), seconds(max));
    println!("{name:<52} {goal:>8} {median:>8} {min:>8} {max:>8} {:>5}", took.len());
}
