//! The dashboard of the documentation: each metric that it reads is there, on a server with a task that runs.

mod e2e;

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use e2e::{dev::Dev, eventually};
use regex::Regex;
use serde_json::Value;

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/grafana-dashboard.json");

fn text(dev: &Dev, target: &str) -> String {
    let address = dev.address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    answer
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

/// Waits until the server has kept all that was reported: nothing of it has been written for longer than it waits for more.
async fn until_kept(dev: &Dev) {
    let dir = dev.home.path().join("server/observed");
    eventually("what was reported is kept", async || {
        let files = std::fs::read_dir(&dir).ok()?;
        let written = files.filter_map(|file| file.ok()?.metadata().ok()?.modified().ok()).max()?;
        (written.elapsed().ok()? > Duration::from_secs(6)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_that_starts_again_asks_for_nothing_that_it_has_kept() {
    let mut dev = Dev::apart(&[]);
    let script = "sleep 1000";
    let allocs = dev.run_scripts("busy", 3, &[("t", script)]).await;
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
