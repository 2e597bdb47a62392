//! Response times that users notice: the first line of a log, a list of 10,000 jobs, and the completion of an id among them.

#[path = "../tests/e2e/mod.rs"]
mod e2e;

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use berth_api::http::{Client, JobRegister, JobRegistered, Target};
use e2e::{Daemon, berth, free_port};
use serde_json::json;

/// Jobs on the server.
const JOBS: usize = 10_000;
/// Runs of each command.
const RUNS: usize = 100;
/// What is aimed at.
const LOG_GOAL_MS: f64 = 10_000.0;
const LIST_GOAL_MS: f64 = 1_000.0;
const COMPLETION_GOAL_MS: f64 = 30.0;

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let address = format!("127.0.0.1:{}", free_port());
    let mut server = start(dir.path(), &address);
    println!("{:<52} {:>11} {:>11} {:>11} {:>11}", "command", "goal p95", "p95", "median", "max");
    print_row("the first line of a log, once berth dev is ready", LOG_GOAL_MS, &[first_line(&address)]);
    register(&e2e::client(&address)).await;
    for (name, goal_ms, command) in commands(&address) {
        print_row(name, goal_ms, &measure(command));
    }
    server.stop();
}

fn start(dir: &Path, address: &str) -> Daemon {
    let mut command = berth(&["dev", "--http-addr", address]);
    command.env("TMPDIR", dir);
    let mut server = Daemon::spawn(command, &dir.join("dev.err"));
    server.ready_line();
    server
}

/// From a server that is ready to the first line of a task, as whoever follows the tutorial types it.
fn first_line(address: &str) -> Duration {
    let begun = Instant::now();
    let url = format!("http://{address}");
    let run = ["run", "-exec", "-name", "first", "sh", "-c", "echo first; exec sleep 1000"];
    assert!(berth(&run).env("BERTH_ADDR", &url).stdout(Stdio::null()).status().expect("it starts").success());
    while berth(&["logs", "first"]).env("BERTH_ADDR", &url).output().expect("it starts").stdout.is_empty() {}
    begun.elapsed()
}

/// Jobs that want nothing: only their number matters.
async fn register(client: &Client) {
    for number in 0..JOBS {
        let task = json!({ "Name": "main", "Driver": "mock_driver", "Config": { "run_for": "1s" } });
        let group = json!({ "Name": "main", "Count": 0, "Tasks": [task] });
        let job = json!({ "ID": format!("service-{number:05}"), "Type": "service", "TaskGroups": [group] });
        let body = JobRegister { job, ..JobRegister::default() };
        client.put::<JobRegistered>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
    }
}

/// Each command with what it is called here.
fn commands(address: &str) -> [(&'static str, f64, Command); 3] {
    let url = format!("http://{address}");
    let mut list = berth(&["job", "status"]);
    let mut json = berth(&["job", "status", "-o", "json"]);
    let mut complete = berth(&["--", "berth", "job", "status", "service-050"]);
    complete.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "3");
    for command in [&mut list, &mut json, &mut complete] {
        command.env("BERTH_ADDR", &url).stdout(Stdio::null());
    }
    [
        ("berth job status, of 10,000 jobs", LIST_GOAL_MS, list),
        ("berth job status -o json, of 10,000 jobs", LIST_GOAL_MS, json),
        ("completion of an id among 10,000 jobs, of which 100 fit", COMPLETION_GOAL_MS, complete),
    ]
}

/// From the start of the process to its end.
fn measure(mut command: Command) -> Vec<Duration> {
    let mut took: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let begun = Instant::now();
            assert!(command.status().expect("it starts").success());
            begun.elapsed()
        })
        .collect();
    took.sort_unstable();
    took
}

fn print_row(name: &str, goal_ms: f64, took: &[Duration]) {
    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)].as_secs_f64() * 1e3;
    println!("{name:<52} {goal_ms:>8.0} ms {:>8.1} ms {:>8.1} ms {:>8.1} ms", at(95), at(50), at(100));
}
