//! New versions for which no task is restarted: a real agent receives the changes, and may be killed meanwhile.

mod e2e;

use std::collections::BTreeMap;

use berth_api::http::{Client, Target};
use e2e::{
    eventually,
    nodes::{Nodes, is_alive},
    servers::Servers,
};
use serde_json::{Value, json};

const SECOND_NS: u64 = 1_000_000_000;
/// Ends once its file is gone, and not when it is asked to.
const STUBBORN: &str = r#"trap '' TERM; file="$1-$NOMAD_ALLOC_ID"; echo $$ >> "$file"; while [ -e "$file" ]; do sleep 0.2; done"#;

/// A service of so many, that long after the kill signal killed, and well while a file is there, where one is named.
fn calm(nodes: &Nodes, count: u32, kill_seconds: u64, file: Option<&str>) -> Value {
    let mut job = nodes.counting("calm");
    job["Type"] = "service".into();
    let group = &mut job["TaskGroups"][0];
    group["Count"] = count.into();
    group["Update"] = json!({
        "MaxParallel": 1,
        "HealthCheck": "checks",
        "MinHealthyTime": SECOND_NS / 10,
        "HealthyDeadline": 50 * SECOND_NS,
        "ProgressDeadline": 55 * SECOND_NS,
    });
    let task = &mut group["Tasks"][0];
    task["Config"]["args"][1] = STUBBORN.into();
    task["KillTimeout"] = (kill_seconds * SECOND_NS).into();
    if let Some(file) = file {
        let check = json!({
            "Name": "ready",
            "Type": "script",
            "Command": "/bin/sh",
            "Args": ["-c", format!("test -e {} || exit 2", nodes.path(file).display())],
            "Interval": SECOND_NS,
            "Timeout": 5 * SECOND_NS,
        });
        task["Services"] = json!([{"Name": "calm", "Provider": "nomad", "Checks": [check]}]);
    }
    job
}

async fn register(client: &Client, job: &Value) {
    let body = json!({ "Job": job });
    client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
}

/// What a version would do to how many allocations that run.
async fn planned(client: &Client, job: &Value) -> (u64, u64) {
    let body = json!({ "Job": job, "Diff": true });
    let plan: Value = client.put(&Target::new("/v1/job/calm/plan"), &body).await.expect("a plan").value;
    let updates = &plan["Annotations"]["DesiredTGUpdates"]["group"];
    let count = |what: &str| updates[what].as_u64().unwrap_or_else(|| panic!("{plan:#}"));
    (count("InPlaceUpdate"), count("DestructiveUpdate"))
}

async fn deployment(client: &Client) -> Option<Value> {
    Some(client.get(&Target::new("/v1/job/calm/deployment")).await.ok()?.value)
}

/// Waits until the deployment of a version has that status.
async fn until(client: &Client, version: u64, status: &str) {
    eventually(&format!("the deployment of version {version} is {status}"), async || {
        deployment(client).await.filter(|of| of["JobVersion"] == version && of["Status"] == status)
    })
    .await;
}

/// The allocations by their ids: the version of each, and its status.
async fn allocs(client: &Client) -> BTreeMap<String, (u64, String)> {
    let all: Vec<Value> = client.get(&Target::new("/v1/job/calm/allocations")).await.expect("a list").value;
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let of = |one: &Value| (one["JobVersion"].as_u64().expect("a version"), text(&one["ClientStatus"]));
    all.iter().map(|alloc| (text(&alloc["ID"]), of(alloc))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_new_reaches_the_processes_that_run_and_outlives_the_agent() {
    let servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    let client = servers.all[&1].client.clone();
    nodes.until_ready(&client, 1).await;
    register(&client, &calm(&nodes, 1, 30, None)).await;
    until(&client, 0, "successful").await;
    let pids = nodes.until_running("calm", 1).await;
    let (id, pid) = pids.iter().next().map(|(id, pids)| (id.clone(), pids[0].clone())).expect("one runs");

    // A check that fails for now: it is asked of the process that runs, and decides whether the version is well.
    let checked = calm(&nodes, 1, 30, Some("ready"));
    assert_eq!(planned(&client, &checked).await, (1, 0), "nothing is to be started again");
    register(&client, &checked).await;
    until(&client, 1, "running").await;
    let checks = Target::new("/v1/client/allocation").part(&id).part("checks");
    eventually("the check is asked", async || {
        let checks: Value = client.get(&checks).await.ok()?.value;
        checks.to_string().contains("failure").then_some(())
    })
    .await;
    nodes.kill(1);
    nodes.start(1, &[1], &servers);
    until(&client, 1, "running").await;
    std::fs::write(nodes.path("ready"), "").expect("a file");
    until(&client, 1, "successful").await;

    // The agent is away when the next version comes, and is told as soon as it is back.
    nodes.kill(1);
    let patient = calm(&nodes, 1, 1, None);
    register(&client, &patient).await;
    let updated = async || (allocs(&client).await[&id].0 == 2).then_some(());
    eventually("the allocation is of the next version", updated).await;
    assert_eq!(deployment(&client).await.expect("one")["Status"], "running", "nobody has shown anything");
    nodes.start(1, &[1], &servers);
    until(&client, 2, "successful").await;
    let after = allocs(&client).await;
    assert_eq!(after, BTreeMap::from([(id.clone(), (2, "running".to_owned()))]), "it is the same allocation");
    assert!(is_alive(&pid));
    assert_eq!(nodes.pids("calm"), pids, "and no other process was ever started for it");

    // What it knows of the version it knows from its disk.
    nodes.kill(1);
    nodes.start(1, &[1], &servers);
    client.delete::<Value>(&Target::new("/v1/job/calm")).await.expect("it is stopped");
    let ended = async || (allocs(&client).await[&id].1 == "complete").then_some(());
    eventually("it has ended", ended).await;
    let alloc: Value = client.get(&Target::new("/v1/allocation").part(&id)).await.expect("it is there").value;
    let message = alloc["TaskStates"]["task"]["Events"].to_string();
    assert!(message.contains("Waiting 1s before force killing"), "{message}");
    assert!(!is_alive(&pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_updated_at_once_though_their_agent_and_the_server_are_killed_amid_that() {
    const COUNT: u32 = 30;
    let mut servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    let client = servers.all[&1].client.clone();
    nodes.until_ready(&client, 1).await;
    let mut job = calm(&nodes, COUNT, 5, None);
    job["TaskGroups"][0]["Update"]["MaxParallel"] = COUNT.into();
    // As many find room on a machine whose disk is almost full.
    job["TaskGroups"][0]["EphemeralDisk"] = json!({"SizeMB": 10});
    register(&client, &job).await;
    until(&client, 0, "successful").await;
    let pids = nodes.until_running("calm", COUNT as usize).await;

    for (version, kill_seconds) in [(1, 7), (2, 9), (3, 1)] {
        job["TaskGroups"][0]["Tasks"][0]["KillTimeout"] = (kill_seconds * SECOND_NS).into();
        register(&client, &job).await;
        if version == 1 {
            nodes.kill(1);
            nodes.start(1, &[1], &servers);
        } else {
            servers.kill(1);
            servers.run(1, &[]);
        }
        until(&client, version, "successful").await;
        let allocs = allocs(&client).await;
        assert_eq!(allocs.len(), COUNT as usize, "none was placed again: {allocs:?}");
        assert!(allocs.values().all(|(of, status)| *of == version && status == "running"), "{allocs:?}");
        assert_eq!(nodes.pids("calm"), pids, "no process was started again");
    }
    client.delete::<Value>(&Target::new("/v1/job/calm")).await.expect("it is stopped");
    let ended = async || {
        let allocs = allocs(&client).await;
        allocs.values().all(|(_, status)| status == "complete").then_some(())
    };
    eventually("all have ended", ended).await;
    assert!(!pids.values().flatten().any(|pid| is_alive(pid)));
}
