//! The dashboard of the documentation: each metric that it uses is exported by a server with a running task.

mod e2e;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Write},
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use e2e::{dev::Dev, eventually};
use regex::Regex;
use serde_json::{Value, json};

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/grafana-dashboard.json");

fn text(dev: &Dev, target: &str) -> String {
    try_text(dev, target).expect("it answers with text")
}

fn try_text(dev: &Dev, target: &str) -> io::Result<String> {
    let address = dev.address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The names of what can be queried, those of the parts of histograms included.
fn names(exposition: &str) -> BTreeSet<String> {
    let samples =
        exposition.lines().filter(|line| line.starts_with("berth_") || line.starts_with("process_"));
    samples.filter_map(|line| Some(line.split(['{', ' ']).next()?.to_owned())).collect()
}

/// All queries, of panels and of variables.
fn queries(dashboard: &Value) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let variables = dashboard["templating"]["list"].as_array().expect("variables").iter();
    let queries = targets.map(|target| &target["expr"]).chain(variables.map(|variable| &variable["query"]));
    queries.filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn every_metric_of_the_dashboard_is_there() {
    let dashboard = std::fs::read_to_string(Path::new(DASHBOARD)).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("it is JSON");
    let name = Regex::new(r"\b(?:berth|process)_[a-z_]+").expect("it is one");
    let queries = queries(&dashboard).into_iter();
    let read: BTreeSet<String> =
        queries.flat_map(|query| name.find_iter(query)).map(|found| found.as_str().to_owned()).collect();
    assert!(read.len() > 30, "only {} metrics: are they found?", read.len());
    let dev = Dev::start(&[]);
    dev.run_scripts("busy", 1, &[("t", "sleep 1000")]).await;
    eventually("all that the dashboard reads is there", async || {
        let mut there = names(&text(&dev, "/metrics"));
        there.extend(names(&text(&dev, "/v1/client/stats/allocations?format=prometheus")));
        let missing: Vec<_> = read.difference(&there).collect();
        if !missing.is_empty() {
            eprintln!("missing: {missing:?}");
        }
        missing.is_empty().then_some(())
    })
    .await;
}

/// A metric's samples, as they are exposed.
fn samples(dev: &Dev, name: &str) -> Vec<String> {
    text(dev, "/metrics").lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
}

/// Waits until the server has kept all that was reported so far: from now on nothing of it has been written for longer than it waits
/// for more.
async fn until_kept(dev: &Dev) {
    let (dir, asked) = (dev.home.path().join("server/observed"), Instant::now());
    eventually("what was reported is kept", async || {
        let files = std::fs::read_dir(&dir).ok()?;
        let written = files.filter_map(|file| file.ok()?.metadata().ok()?.modified().ok()).max()?;
        let quiet = written.elapsed().ok()?.min(asked.elapsed());
        (quiet > Duration::from_secs(6)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_that_starts_again_asks_for_nothing_that_it_has_kept() {
    let mut dev = Dev::apart(&[]);
    let script = "sleep 1000";
    let allocs = dev.run_scripts("busy", 3, &[("t", script)]).await;
    // The last that is reported of tasks that only run is their health, after ten seconds.
    eventually("all are healthy", async || {
        text(&dev, "/v1/job/busy/deployment").contains(r#""Status":"successful""#).then_some(())
    })
    .await;
    until_kept(&dev).await;
    dev.kill_server();
    dev.start_server();
    dev.allocs("busy", 3, "running").await;
    let nothing = r#"berth_agent_welcomes_total{report="nothing"}"#;
    eventually("the agent is back", async || {
        (samples(&dev, nothing) == [format!("{nothing} 1")]).then_some(())
    })
    .await;
    assert_eq!(samples(&dev, "berth_agent_statuses_total"), ["berth_agent_statuses_total 0"]);
    // A damaged copy counts for nothing, and the agent is asked for everything.
    dev.kill_server();
    for file in std::fs::read_dir(dev.home.path().join("server/observed")).expect("it was written") {
        let path = file.expect("a file").path();
        let mut bytes = std::fs::read(&path).expect("it is read");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).expect("it is written");
    }
    dev.start_server();
    let everything = r#"berth_agent_welcomes_total{report="everything"}"#;
    eventually("the agent is back", async || {
        (samples(&dev, everything) == [format!("{everything} 1")]).then_some(())
    })
    .await;
    assert_eq!(dev.allocs("busy", 3, "running").await.len(), allocs.len());
}

/// What a server does not move in a test at will, and the source file whose tests move it.
const MOVED_ELSEWHERE: &[(&str, &str)] = &[
    ("berth_evaluations_pending_age_seconds", "server/src/nomad/tests/metrics.rs"),
    ("berth_log_disk_bytes", "server/src/engine/log_metrics.rs"),
    ("berth_log_disk_free_bytes", "server/src/engine/log_metrics.rs"),
    ("berth_log_disk_slow", "server/src/engine/log_metrics.rs"),
    ("berth_log_snapshot_size_bytes", "server/src/engine/log_metrics.rs"),
    ("berth_log_snapshots_total", "server/src/engine/log_metrics.rs"),
    ("berth_nodes_held", "server/src/nomad/tests/metrics.rs"),
    ("berth_observed_paused", "server/src/checkpoint/counters.rs"),
    ("berth_observed_write_failures_total", "server/src/checkpoint/counters.rs"),
    ("berth_placements_refused_total", "server/src/engine/counters.rs"),
    ("berth_plans_overtaken_total", "server/src/engine/counters.rs"),
    ("berth_plans_refused_total", "server/src/engine/counters.rs"),
    ("berth_server_alive", "server/src/engine/log_metrics.rs"),
    ("berth_server_lacks_key", "server/src/engine/log_metrics.rs"),
    ("berth_server_lag_records", "server/src/engine/log_metrics.rs"),
    ("berth_server_last_contact_seconds", "server/src/engine/log_metrics.rs"),
    ("berth_server_leader", "server/src/engine/log_metrics.rs"),
    ("berth_server_voter", "server/src/engine/log_metrics.rs"),
    ("process_max_fds", "server/src/process.rs"),
    ("process_threads", "server/src/process.rs"),
];

/// Whether the tests of a source file speak of a measurement.
fn is_tested_in(name: &str, file: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let tests = if file.contains("/tests/") {
        Some(&*text)
    } else {
        text.split_once("mod tests {").map(|(_, tests)| tests)
    };
    tests.is_some_and(|tests| tests.contains(&format!("\"{name}\"")))
}

/// All measurements that were seen, and which of them have moved: counters that are not 0, others that had two values.
#[derive(Default)]
struct Seen {
    gauges: BTreeMap<String, String>,
    all: BTreeSet<String>,
    moved: BTreeSet<String>,
}

impl Seen {
    fn look(&mut self, dev: &Dev) {
        let exposed = text(dev, "/metrics");
        let mut family = (String::new(), String::new());
        for line in exposed.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
                family = (name.to_owned(), kind.to_owned());
                self.all.insert(family.0.clone());
            } else if let Some((series, value)) =
                line.rsplit_once(' ').filter(|_| line.starts_with(&family.0))
            {
                let has_moved = match family.1.as_str() {
                    "gauge" => {
                        self.gauges.entry(series.to_owned()).or_insert_with(|| value.to_owned()).as_str()
                            != value
                    }
                    _ => value != "0",
                };
                if has_moved && !family.0.is_empty() {
                    self.moved.insert(family.0.clone());
                }
            }
        }
    }

    /// Looks until all of these have moved.
    async fn until_moved(&mut self, dev: &Dev, names: &[&str]) {
        eventually(&format!("{names:?} move"), async || {
            self.look(dev);
            names.iter().all(|name| self.moved.contains(*name)).then_some(())
        })
        .await;
    }
}

/// Sends requests of which nobody reads the answers yet.
fn ask(dev: &Dev, target: &str, times: usize) -> TcpStream {
    let address = dev.address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    // What it does not take any more is not needed.
    let _ = stream.write_all(request.repeat(times).as_bytes());
    stream
}

#[tokio::test]
async fn every_metric_moves() {
    let mut dev = Dev::apart_with(&["--http-connections-max", "64", "--request-rate-loopback", "200"], &[]);
    let mut seen = Seen::default();
    seen.look(&dev);
    dev.run_scripts("busy", 2, &[("t", "sleep 1000")]).await;
    let huge = json!({"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"},
        "Resources": {"MemoryMB": 90_000_000}});
    dev.register(&json!({"ID": "huge", "TaskGroups": [{"Name": "g", "Tasks": [huge]}]})).await;
    let of_state = [
        "berth_allocations",
        "berth_cluster_cpu_allocated_mhz",
        "berth_deployments_active",
        "berth_evaluations_blocked_age_seconds",
        "berth_jobs",
        "berth_placements_committed_total",
    ];
    seen.until_moved(&dev, &of_state).await;
    let waiting = ask(&dev, "/v1/jobs?index=1000000&wait=60s", 1);
    seen.until_moved(&dev, &["berth_http_connections", "berth_http_requests_open"]).await;
    drop(waiting);
    seen.until_moved(&dev, &["berth_observed_written_bytes_total"]).await;
    dev.stdout_of(&["job", "stop", "-yes", "-detach", "busy"]);
    seen.until_moved(&dev, &["berth_allocations_ended_total"]).await;
    let mut too_many: Vec<_> = (0..200).map(|_| ask(&dev, "/v1/jobs?index=1000000&wait=60s", 1)).collect();
    let mut last = too_many.pop().expect("one");
    last.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
    let _ = last.read_to_end(&mut Vec::new());
    drop(too_many);
    // Until the server hears that the many are gone it refuses this connection as well.
    eventually("connections are accepted again", async || try_text(&dev, "/v1/regions").ok()).await;
    seen.until_moved(&dev, &["berth_http_connections_refused_total"]).await;
    eventually("requests are limited", async || {
        let mut often = ask(&dev, "/v1/regions", 3_000);
        often.set_read_timeout(Some(Duration::from_secs(2))).expect("a time");
        let _ = often.read_to_end(&mut Vec::new());
        drop(often);
        seen.look(&dev);
        seen.moved.contains("berth_http_requests_limited_total").then_some(())
    })
    .await;
    // A server that starts waits for its nodes, and declares those down that do not come.
    dev.kill_agent();
    dev.kill_server();
    dev.start_server();
    let of_start = ["berth_log_replayed_total", "berth_nodes_unconfirmed", "process_start_time_seconds"];
    seen.until_moved(&dev, &of_start).await;
    seen.until_moved(&dev, &["berth_nodes", "berth_cluster_cpu_mhz", "berth_cluster_disk_bytes"]).await;
    dev.start_agent();
    seen.until_moved(&dev, &["berth_agent_sessions"]).await;
    for (name, file) in MOVED_ELSEWHERE {
        assert!(seen.all.contains(*name), "there is no {name}");
        assert!(is_tested_in(name, file), "no test in {file} speaks of {name}");
        seen.moved.insert((*name).to_owned());
    }
    let still: Vec<_> = seen.all.difference(&seen.moved).collect();
    assert!(
        still.is_empty(),
        "nothing moves these; add what does, here or to the tests of their file: {still:?}"
    );
}
