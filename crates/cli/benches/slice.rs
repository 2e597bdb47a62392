//! What a user waits for: `berth dev` until it is ready, a job until it runs, 5,000 allocations until all of them run.

#[path = "../tests/e2e/mod.rs"]
mod e2e;

use std::{
    collections::HashSet,
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use berth_api::http::{AllocationStub, Client, JobRegistered, JobSummary, Lines, NodeStub, Target};
use e2e::{Daemon, berth, eventually, free_port};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Runs of what takes long and of what does not.
const RUNS_FEW: usize = 3;
const RUNS_MANY: usize = 10;
/// Simulated nodes, of 4,000 MHz and 8,192 MiB each: the resources asked for below fill a part of them.
const NODES: usize = 200;
/// Allocations that come at once.
const ALLOCS: usize = 5_000;
/// As many jobs when they come as several.
const JOBS: usize = 50;
/// Between two looks whether a server is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Until a run is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a summary is waited for at a time.
const BLOCK: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() {
    println!(
        "{:<52} {:>8} {:>8} {:>8} {:>8} {:>5}",
        "from ... to ...", "goal", "median", "min", "max", "runs"
    );
    let mut starts = Vec::new();
    for _ in 0..RUNS_MANY {
        starts.push(start_to_ready().await);
    }
    print_row("process start to ready (`berth dev`)", "2 s", &starts);
    print_row("process start to alloc running (`berth job run`)", "0.3 s", &runs_of_a_job().await);
    many("PUT of 1 job of 5,000 to all running (event stream)", 1, Watch::Events).await;
    many("PUT of 1 job of 5,000 to all running (summary)", 1, Watch::Summary).await;
    many("PUT of 50 jobs of 100 to all running (event stream)", JOBS, Watch::Events).await;
}

/// A `berth dev` of its own, its data on the disk that builds are on.
struct Dev {
    client: Client,
    address: String,
    _daemon: Daemon,
    dir: TempDir,
}

impl Dev {
    fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let address = format!("127.0.0.1:{}", free_port());
        let data = dir.path().join("data");
        let args = ["dev", "--http-addr", &address, "--data-dir", data.to_str().expect("plain")];
        let daemon = Daemon::start(&[&args, more].concat(), &dir.path().join("dev.err"));
        Self { client: e2e::client(&address), address, dir, _daemon: daemon }
    }

    async fn ready_nodes(&self) -> usize {
        let leader = self.client.get::<String>(&Target::new("/v1/status/leader")).await;
        let nodes = self.client.get::<Vec<NodeStub>>(&Target::new("/v1/nodes")).await;
        let (Ok(_), Ok(nodes)) = (leader, nodes) else { return 0 };
        nodes.value.iter().filter(|node| node.status == "ready").count()
    }

    async fn wait_for_nodes(&self, count: usize) {
        let begun = Instant::now();
        while self.ready_nodes().await < count {
            assert!(begun.elapsed() < PATIENCE, "{count} nodes never got ready");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn register(&self, job: &Value) {
        let body = json!({"Job": job});
        self.client.put::<JobRegistered>(&Target::new("/v1/jobs"), &body).await.expect("is registered");
    }

    /// A measurement, by its name.
    async fn metric(&self, name: &str) -> f64 {
        let target = Target::new("/v1/metrics").param("format", "prometheus");
        let mut stream = self.client.bytes(&target).await.expect("has measurements");
        let mut text = Vec::new();
        while let Some(piece) = stream.next().await.expect("may be read") {
            text.extend_from_slice(&piece);
        }
        let text = String::from_utf8(text).expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not measured")).parse().expect("a number")
    }
}

async fn start_to_ready() -> Duration {
    let begun = Instant::now();
    let dev = Dev::start(&[]);
    dev.wait_for_nodes(1).await;
    begun.elapsed()
}

async fn runs_of_a_job() -> Vec<Duration> {
    let dev = Dev::start(&[]);
    dev.wait_for_nodes(1).await;
    let mut took = Vec::new();
    for number in 0..RUNS_MANY {
        took.push(run_of_a_job(&dev, &format!("run-{number}")).await);
    }
    took
}

/// From the start of the command to its end, when the job's allocation must run.
async fn run_of_a_job(dev: &Dev, id: &str) -> Duration {
    let file = dev.dir.path().join(id);
    fs::write(&file, mock_job(id, 1).to_string()).expect("a file");
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

/// By what a client sees that allocations run.
#[derive(Clone, Copy)]
enum Watch {
    Events,
    Summary,
}

/// What one run cost.
struct Cost {
    took: Duration,
    acknowledged: Duration,
    fsyncs: f64,
    log_bytes: f64,
}

/// Prints a row for 5,000 allocations that come as so many jobs.
async fn many(name: &str, jobs: usize, watch: Watch) {
    let mut costs = Vec::new();
    for _ in 0..RUNS_FEW {
        costs.push(many_allocations(jobs, watch).await);
    }
    print_row(name, "2 s", &costs.iter().map(|cost| cost.took).collect::<Vec<_>>());
    print_row(
        "  of these until all jobs were acknowledged",
        "",
        &costs.iter().map(|cost| cost.acknowledged).collect::<Vec<_>>(),
    );
    let list = |pick: fn(&Cost) -> f64| {
        costs.iter().map(|cost| pick(cost).to_string()).collect::<Vec<_>>().join(", ")
    };
    println!("  fsyncs of the log: {}; bytes: {}", list(|cost| cost.fsyncs), list(|cost| cost.log_bytes));
}

async fn many_allocations(jobs: usize, watch: Watch) -> Cost {
    // Without this switch the node of `berth dev` itself would take its share.
    let dev = Dev::start(&["--sim-nodes", &NODES.to_string(), "--mock-driver=false"]);
    dev.wait_for_nodes(NODES + 1).await;
    let (fsyncs, log_bytes) = costs_so_far(&dev).await;
    let stream = Target::new("/v1/event/stream").param("topic", "Allocation");
    let stream = dev.client.lines(&stream).await.expect("may be followed");
    let begun = Instant::now();
    let watching = async {
        match watch {
            Watch::Events => all_run_by_events(stream).await,
            Watch::Summary => all_run_by_summary(&dev.client).await,
        }
        begun.elapsed()
    };
    let registering = async {
        for number in 0..jobs {
            dev.register(&mock_job(&format!("many-{number}"), ALLOCS / jobs)).await;
        }
        begun.elapsed()
    };
    let both = async { tokio::join!(watching, registering) };
    let (took, acknowledged) = tokio::time::timeout(PATIENCE, both).await.expect("all run in the end");
    let (fsyncs_after, log_bytes_after) = costs_so_far(&dev).await;
    check_places(&dev).await;
    Cost { took, acknowledged, fsyncs: fsyncs_after - fsyncs, log_bytes: log_bytes_after - log_bytes }
}

async fn costs_so_far(dev: &Dev) -> (f64, f64) {
    (dev.metric("berth_log_fsyncs_total").await, dev.metric("berth_log_bytes_total").await)
}

/// A line of the event stream, as far as it is of interest.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Frame {
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    payload: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Payload {
    allocation: Option<Alloc>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Alloc {
    #[serde(rename = "ID")]
    id: String,
    client_status: String,
}

async fn all_run_by_events(mut stream: Lines<Frame>) {
    let mut running = HashSet::new();
    while running.len() < ALLOCS {
        let frame = stream.next().await.expect("may be followed").expect("has no end");
        let allocs = frame.events.into_iter().filter_map(|event| event.payload.allocation);
        running.extend(allocs.filter(|alloc| alloc.client_status == "running").map(|alloc| alloc.id));
    }
}

/// Of the first job.
async fn all_run_by_summary(client: &Client) {
    let target = Target::new("/v1/job/many-0/summary");
    eventually("the job is there", async || client.get::<JobSummary>(&target).await.ok()).await;
    let (mut index, mut running) = (0, 0);
    while running < ALLOCS {
        let summary = client.get::<JobSummary>(&target.clone().after(index, BLOCK)).await.expect("is there");
        index = summary.index;
        running = summary.value.summary.values().map(|group| group.running as usize).sum();
    }
}

/// All of them are there, on all simulated nodes or on some, and none on another.
async fn check_places(dev: &Dev) {
    let allocs =
        dev.client.get::<Vec<AllocationStub>>(&Target::new("/v1/allocations")).await.expect("are listed");
    let running = allocs.value.iter().filter(|alloc| alloc.client_status == "running").count();
    assert_eq!((running, allocs.value.len()), (ALLOCS, ALLOCS));
    let nodes: HashSet<&str> = allocs.value.iter().map(|alloc| alloc.node_id.as_str()).collect();
    assert!(nodes.len() <= NODES);
}

/// Tasks that only pretend to run, for ever.
fn mock_job(id: &str, count: usize) -> Value {
    json!({"ID": id, "Name": id, "Type": "service", "TaskGroups": [{
        "Name": "group",
        "Count": count,
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
