//! Drains of nodes, with a real server: simulated nodes that move their work, and a real agent that ends it.

mod e2e;

use std::{process::Stdio, time::Duration};

use berth_api::http::Target;
use e2e::{
    berth,
    cluster::Cluster,
    eventually,
    nodes::{Nodes, is_alive},
    servers::Servers,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A service of four, of which one moves at a time once its successor has been well for a second.
const WEB: &str = r#"job "web" {
  group "g" {
    count = 4
    migrate {
      min_healthy_time = "1s"
    }
    task "t" {
      driver = "mock_driver"
      config {
        run_for = "1h"
      }
    }
  }
}
"#;

async fn node_of(cluster: &Cluster, job: &str) -> String {
    let allocs = cluster.allocs("default", job).await;
    allocs.iter().find(|alloc| alloc["DesiredStatus"] == "run").expect("one runs")["NodeID"]
        .as_str()
        .expect("an id")
        .to_owned()
}

fn node(cluster: &Cluster, id: &str) -> Value {
    let detail: Value =
        serde_json::from_str(&cluster.stdout_of(&["node", "status", "-o", "json", id])).unwrap();
    detail["Node"].clone()
}

async fn runs(cluster: &Cluster, count: usize) {
    let all = async || (cluster.running("default", "web").await == count).then_some(());
    eventually("all of it runs", all).await;
}

#[tokio::test]
async fn a_drain_moves_one_after_the_other_and_reports_it() {
    let cluster = Cluster::simulated(3, &[]).await;
    let file = cluster.job_file(WEB);
    cluster.stdout_of(&["job", "run", "-detach", &file]);
    runs(&cluster, 4).await;
    let id = node_of(&cluster, "web").await;
    // Whatever happens meanwhile, enough of it runs: the monitor ends when nothing is left.
    let drained = cluster.berth(&["node", "drain", "-enable", "-m", "a new disk", &id]);
    let printed_text = String::from_utf8_lossy(&drained.stderr).into_owned();
    assert!(drained.status.success(), "{printed_text}");
    for text in ["what is left after 1h is stopped", "takes its place", "is empty"] {
        assert!(printed_text.contains(text), "{text:?} is missing in {printed_text}");
    }
    runs(&cluster, 4).await;
    let drained = node(&cluster, &id);
    assert_eq!(drained["Drain"], false);
    assert_eq!(drained["SchedulingEligibility"], "ineligible");
    assert_eq!(drained["LastDrain"]["Status"], "complete");
    assert_eq!(drained["LastDrain"]["Meta"]["message"], "a new disk");
    let allocs = cluster.allocs("default", "web").await;
    let there = |alloc: &&Value| alloc["NodeID"] == id.as_str();
    assert!(allocs.iter().filter(there).all(|alloc| alloc["ClientStatus"] == "complete"));
    cluster.stdout_of(&["node", "eligibility", "-enable", &id]);
}

#[tokio::test]
async fn a_drain_that_waits_is_called_off_and_one_without_time_stops_all() {
    let cluster = Cluster::simulated(1, &[]).await;
    let file = cluster.job_file(WEB);
    cluster.stdout_of(&["job", "run", "-detach", &file]);
    runs(&cluster, 4).await;
    let id = node_of(&cluster, "web").await;
    cluster.stdout_of(&["node", "drain", "-enable", "-no-deadline", "-detach", "-self"]);
    let opened = cluster.berth(&["node", "eligibility", "-enable", &id]);
    assert!(String::from_utf8_lossy(&opened.stderr).contains("node drain -disable"), "{opened:?}");
    let mut monitor = berth(&["node", "drain", "-monitor", &id]);
    let monitor =
        monitor.env("BERTH_ADDR", cluster.address()).stderr(Stdio::piped()).spawn().expect("it runs");
    // Nothing can move: there is no other node.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(cluster.running("default", "web").await, 4);
    cluster.stdout_of(&["node", "drain", "-disable", &id]);
    let ended = monitor.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("was cancelled"), "{ended:?}");
    assert_eq!(node(&cluster, &id)["SchedulingEligibility"], "eligible");
    assert_eq!(cluster.running("default", "web").await, 4);

    cluster.stdout_of(&["node", "drain", "-enable", "-force", &id]);
    assert_eq!(cluster.running("default", "web").await, 0);
    cluster.stdout_of(&["node", "drain", "-disable", &id]);
    cluster.stdout_of(&["node", "eligibility", "-enable", &id]);
    runs(&cluster, 4).await;
}

#[tokio::test]
async fn a_real_agent_is_drained_and_ends_what_ran() {
    let cluster = Cluster::dev(&[]);
    let file = cluster.job_file(
        r#"job "web" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      kill_timeout = "5s"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'echo asked; exit 0' TERM INT; while :; do sleep 0.1; done"]
      }
    }
  }
}
"#,
    );
    cluster.stdout_of(&["job", "run", "-detach", &file]);
    cluster.until_running("default", "web").await;
    let alloc = cluster.allocs("default", "web").await[0]["ID"].as_str().expect("an id").to_owned();
    cluster.stdout_of(&["node", "drain", "-enable", "-deadline", "1s", "-self"]);
    assert!(cluster.stdout_of(&["alloc", "logs", &alloc]).contains("asked"));
    let status = cluster.stdout_of(&["alloc", "status", &alloc]);
    assert!(status.contains("its node is drained") && status.contains("complete"), "{status}");
    let blocked = cluster.blocked("default", "web").await;
    assert_eq!(blocked.job_id, "web");
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
}

/// The agents of the job's nodes, by their names' last letters; each node is asked of the server.
async fn number_of(servers: &Servers, id: &str) -> u8 {
    let node: Value =
        servers.all[&1].client.get(&Target::new("/v1/node").part(id)).await.expect("a node").value;
    node["Name"].as_str().and_then(|name| name.strip_prefix('n')?.parse().ok()).expect("a number")
}

async fn running_on(servers: &Servers) -> Option<String> {
    let allocs: Vec<Value> =
        servers.all[&1].client.get(&Target::new("/v1/job/web/allocations")).await.ok()?.value;
    let runs = |alloc: &&Value| alloc["ClientStatus"] == "running" && alloc["DesiredStatus"] == "run";
    let mut running = allocs.iter().filter(runs);
    let node = running.next()?["NodeID"].as_str()?.to_owned();
    running.next().is_none().then_some(node)
}

async fn node_at(servers: &Servers, id: &str) -> Value {
    servers.all[&1].client.get(&Target::new("/v1/node").part(id)).await.expect("a node").value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_shuts_down_drains_its_node_unless_a_second_signal_comes() {
    let servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    for number in [1, 2] {
        nodes.start_with(number, &[1], &servers, &["--drain-on-shutdown", "deadline=10m"]);
    }
    nodes.until_ready(&servers.all[&1].client, 2).await;
    let job = json!({"ID": "web", "TaskGroups": [{
        "Name": "g",
        "Migrate": {"MinHealthyTime": 100_000_000, "HealthyDeadline": 50_000_000_000_u64, "HealthCheck": "task_states"},
        "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}}],
    }]});
    let body = json!({ "Job": job });
    servers.all[&1].client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
    let first = eventually("it runs", async || running_on(&servers).await).await;
    let number = number_of(&servers, &first).await;
    // It ends by itself once its node is empty.
    nodes.agent(number).stop();
    let second = eventually("it runs elsewhere", async || running_on(&servers).await).await;
    assert_ne!(first, second);
    let left = node_at(&servers, &first).await;
    assert_eq!(left["LastDrain"]["Meta"]["message"], "its agent shuts down", "{left}");
    assert_eq!(left["SchedulingEligibility"], "ineligible");

    // There is nowhere to go: it waits, until somebody insists.
    let number = number_of(&servers, &second).await;
    let pid = Pid::from_raw(nodes.agent(number).pid().cast_signed()).expect("a process");
    kill_process(pid, Signal::TERM).expect("it is told");
    eventually("the other node is drained", async || {
        (node_at(&servers, &second).await["Drain"] == true).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!nodes.agent(number).has_ended(), "it waits");
    assert_eq!(running_on(&servers).await.as_deref(), Some(&*second), "and what runs there runs on");
    kill_process(pid, Signal::TERM).expect("it is told again");
    eventually("it ends at once", async || nodes.agent(number).has_ended().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_killed_while_it_drains_itself_comes_back_to_its_drain() {
    let servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    let leaving = ["--drain-on-shutdown", "deadline=10m"];
    nodes.start_with(1, &[1], &servers, &leaving);
    let client = servers.all[&1].client.clone();
    nodes.until_ready(&client, 1).await;
    let mut job = nodes.counting("web");
    job["Type"] = "service".into();
    let body = json!({ "Job": job });
    client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
    let pids = nodes.until_running("web", 1).await;
    let first = eventually("it runs", async || running_on(&servers).await).await;
    // There is nowhere to go.
    nodes.signal(1, Signal::TERM);
    let drained = async || (node_at(&servers, &first).await["Drain"] == true).then_some(());
    eventually("its node is drained", drained).await;
    nodes.kill(1);
    nodes.start_with(1, &[1], &servers, &leaving);
    nodes.until_ready(&client, 1).await;
    assert_eq!(node_at(&servers, &first).await["Drain"], true, "the drain is the cluster's, not the agent's");
    assert_eq!(running_on(&servers).await.as_deref(), Some(&*first), "and what runs there runs on");
    assert_eq!(nodes.pids("web"), pids, "the same process");

    nodes.start(2, &[1], &servers);
    let moved = async || running_on(&servers).await.filter(|node| *node != first);
    eventually("it has moved", moved).await;
    let emptied = async || {
        let node = node_at(&servers, &first).await;
        (node["Drain"] == false).then_some(node)
    };
    let node = eventually("the drain is over", emptied).await;
    assert_eq!(node["LastDrain"]["Status"], "complete", "{node}");
    assert_eq!(node["SchedulingEligibility"], "ineligible", "{node}");
    assert!(!nodes.agent(1).has_ended(), "nobody has told this agent to end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_ends_though_the_agent_dies_amid_it_and_what_it_left_is_ended_once_it_is_back() {
    let servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    let client = servers.all[&1].client.clone();
    nodes.until_ready(&client, 1).await;
    let mut job = nodes.counting("web");
    job["Type"] = "service".into();
    let body = json!({ "Job": job });
    client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
    let pids = nodes.until_running("web", 1).await;
    let first = eventually("it runs", async || running_on(&servers).await).await;
    // There is nowhere to go.
    servers.all[&1].stdout_of(&["node", "drain", "-enable", "-deadline", "10m", "-detach", &first]);
    assert_eq!(node_at(&servers, &first).await["Drain"], true);
    nodes.kill(1);
    assert!(pids.values().flatten().all(|pid| is_alive(pid)), "the process lives, and nobody watches it");

    nodes.start(2, &[1], &servers);
    let moved = async || running_on(&servers).await.filter(|node| *node != first);
    eventually("another stands in for it", moved).await;
    let emptied = async || {
        let node = node_at(&servers, &first).await;
        (node["Drain"] == false).then_some(node)
    };
    let node = eventually("the drain is over, for nothing of it is left", emptied).await;
    assert_eq!(node["LastDrain"]["Status"], "complete", "{node}");

    nodes.start(1, &[1], &servers);
    let gone = async || pids.values().flatten().all(|pid| !is_alive(pid)).then_some(());
    eventually("what it had left running is ended", gone).await;
    eventually("its node is there again", async || {
        let node = node_at(&servers, &first).await;
        (node["Status"] == "ready").then_some(())
    })
    .await;
    assert_eq!(node_at(&servers, &first).await["SchedulingEligibility"], "ineligible");
    assert_ne!(running_on(&servers).await, Some(first), "and takes nothing back");
}

#[tokio::test]
async fn a_drain_is_called_off_and_taken_up_again_and_a_purge_meanwhile_ends_it() {
    let cluster = Cluster::simulated(2, &[]).await;
    let file = cluster.job_file(&WEB.replace("1s", "3s"));
    cluster.stdout_of(&["job", "run", "-detach", &file]);
    runs(&cluster, 4).await;
    let id = node_of(&cluster, "web").await;
    let left = async || {
        let allocs = cluster.allocs("default", "web").await;
        let there = |alloc: &&Value| alloc["NodeID"] == id.as_str() && alloc["DesiredStatus"] == "run";
        allocs.iter().filter(there).count()
    };
    let before = left().await;
    cluster.stdout_of(&["node", "drain", "-enable", "-detach", &id]);
    cluster.stdout_of(&["node", "drain", "-enable", "-no-deadline", "-detach", &id]);
    assert_eq!(node(&cluster, &id)["DrainStrategy"]["Deadline"], 0, "the second one counts");
    eventually("one has moved", async || (left().await < before).then_some(())).await;
    cluster.stdout_of(&["node", "drain", "-disable", &id]);
    let called_off = node(&cluster, &id);
    assert_eq!(called_off["LastDrain"]["Status"], "canceled", "{called_off}");
    assert_eq!(called_off["SchedulingEligibility"], "eligible");
    runs(&cluster, 4).await;

    cluster.stdout_of(&["node", "drain", "-enable", "-no-deadline", "-detach", &id]);
    assert_eq!(node(&cluster, &id)["Drain"], true);
    cluster.stdout_of(&["job", "stop", "-yes", "-purge", "-detach", "web"]);
    let over = async || (node(&cluster, &id)["Drain"] == false).then_some(());
    eventually("nothing is left of it", over).await;
    assert_eq!(node(&cluster, &id)["LastDrain"]["Status"], "complete");
}
