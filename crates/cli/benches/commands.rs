//! What a person at the keyboard waits for: a list of 1,000 jobs, and the completion of an id among them.

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
const JOBS: usize = 1_000;
/// Runs of each command.
const RUNS: usize = 100;

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let address = format!("127.0.0.1:{}", free_port());
    let mut server = start(dir.path(), &address);
    register(&e2e::client(&address)).await;
    println!(
        "{:<52} {:>8} {:>8} {:>8} {:>8}",
        "command, with 1,000 jobs", "goal p95", "p95", "median", "max"
    );
    for (name, command) in commands(&address) {
        print_row(name, &measure(command));
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

/// Jobs that want nothing: only their number matters.
async fn register(client: &Client) {
    for number in 0..JOBS {
        let task = json!({ "Name": "main", "Driver": "mock_driver", "Config": { "run_for": "1s" } });
        let group = json!({ "Name": "main", "Count": 0, "Tasks": [task] });
        let job = json!({ "ID": format!("service-{number:04}"), "Type": "service", "TaskGroups": [group] });
        let body = JobRegister { job, ..JobRegister::default() };
        client.put::<JobRegistered>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
    }
}

/// Each command with what it is called here.
fn commands(address: &str) -> [(&'static str, Command); 3] {
    let url = format!("http://{address}");
    let mut list = berth(&["job", "status"]);
    let mut json = berth(&["job", "status", "-o", "json"]);
    let mut complete = berth(&["--", "berth", "job", "status", "service-05"]);
    complete.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "3");
    for command in [&mut list, &mut json, &mut complete] {
        command.env("BERTH_ADDR", &url).stdout(Stdio::null());
    }
    [
        ("berth job status", list),
        ("berth job status -o json", json),
        ("completion of berth job status service-05", complete),
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

fn print_row(name: &str, took: &[Duration]) {
    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)].as_secs_f64() * 1e3;
    println!("{name:<52} {:>8} {:>5.1} ms {:>5.1} ms {:>5.1} ms", "100 ms", at(95), at(50), at(100));
}
