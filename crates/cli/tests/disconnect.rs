//! Nodes with running work that fall silent and come back: real servers and agents, stopped in the middle of a step.

mod e2e;

use std::collections::BTreeMap;

use berth_api::http::{AllocationStub, Target};
use e2e::{
    eventually,
    nodes::{Nodes, allocs, is_alive},
    servers::Servers,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A service of one that would rather run on node n1, and what happens when that goes silent.
fn service(nodes: &Nodes, id: &str, disconnect: &Value) -> Value {
    let mut job = service_near(nodes, id, "n1");
    job["TaskGroups"][0]["Disconnect"] = disconnect.clone();
    job
}

/// A service of one that would rather run on this node.
fn service_near(nodes: &Nodes, id: &str, node: &str) -> Value {
    let mut job = nodes.counting(id);
    job["Type"] = "service".into();
    job["Affinities"] =
        json!([{"LTarget": "${node.unique.name}", "RTarget": node, "Operand": "=", "Weight": 100}]);
    job
}

async fn register(servers: &Servers, job: &Value) {
    let body = json!({ "Job": job });
    servers.all[&1].client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is acknowledged");
}

/// The allocations of a job by their nodes' names; the newest of each node.
async fn by_node(servers: &Servers, id: &str) -> Option<BTreeMap<String, AllocationStub>> {
    let mut all = allocs(&servers.all[&1].client, id).await?;
    all.sort_by_key(|alloc| alloc.create_index);
    Some(all.into_iter().map(|alloc| (alloc.node_name.clone(), alloc)).collect())
}

/// Waits until a job's allocations on n1 and n2 have these statuses; an empty one for none.
async fn until(servers: &Servers, id: &str, on_n1: &str, on_n2: &str) -> BTreeMap<String, AllocationStub> {
    eventually(&format!("{id} is {on_n1:?} on n1 and {on_n2:?} on n2"), async || {
        let allocs = by_node(servers, id).await?;
        let status = |node| allocs.get(node).map_or("", |alloc| &alloc.client_status);
        (status("n1") == on_n1 && status("n2") == on_n2).then_some(allocs)
    })
    .await
}

async fn until_node_is(servers: &Servers, name: &str, status: &str) {
    eventually(&format!("node {name} is {status}"), async || {
        let nodes: Vec<Value> = servers.all[&1].client.get(&Target::new("/v1/nodes")).await.ok()?.value;
        nodes.iter().any(|node| node["Name"] == name && node["Status"] == status).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_on_a_node_that_goes_silent_ends_as_its_group_says() {
    let servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    nodes.start(2, &[1], &servers);
    nodes.until_ready(&servers.all[&1].client, 2).await;
    let hour = "1h";
    let jobs = [
        ("back", json!({"LostAfter": hour, "Reconcile": "keep_original"})),
        ("gone", json!({"LostAfter": hour, "Reconcile": "keep_replacement"})),
        ("wait", json!({"LostAfter": hour, "Replace": false})),
        ("lost", json!({"LostAfter": "3s", "Replace": false})),
        ("plain", Value::Null),
    ];
    for (id, disconnect) in &jobs {
        register(&servers, &service(&nodes, id, disconnect)).await;
    }
    let mut pids = BTreeMap::new();
    for (id, _) in &jobs {
        until(&servers, id, "running", "").await;
        let running = nodes.until_running(id, 1).await;
        pids.insert(*id, running.into_values().flatten().next().expect("a process id"));
    }

    nodes.signal(1, Signal::STOP);
    until_node_is(&servers, "n1", "disconnected").await;
    for id in ["back", "gone"] {
        let both = until(&servers, id, "unknown", "running").await;
        assert_eq!(both["n1"].next_allocation, both["n2"].id, "it names who stands in for it");
    }
    until(&servers, "wait", "unknown", "").await;
    until(&servers, "plain", "lost", "running").await;
    until(&servers, "lost", "lost", "running").await;
    assert!(pids.values().all(|pid| is_alive(pid)), "whatever became of the agent, its tasks go on");

    nodes.signal(1, Signal::CONT);
    until_node_is(&servers, "n1", "ready").await;
    let back = until(&servers, "back", "running", "complete").await;
    assert_eq!(back["n1"].next_allocation, "", "nobody stands in for it any more");
    until(&servers, "gone", "complete", "running").await;
    until(&servers, "wait", "running", "").await;
    until(&servers, "plain", "lost", "running").await;
    until(&servers, "lost", "lost", "running").await;
    for (id, lives) in [("back", true), ("wait", true), ("gone", false), ("plain", false), ("lost", false)] {
        let ends = async || (is_alive(&pids[id]) == lives).then_some(());
        eventually(&format!("of {id} the first process lives: {lives}"), ends).await;
    }
    // Everything of the node was given back: it takes work again.
    register(&servers, &service(&nodes, "more", &Value::Null)).await;
    until(&servers, "more", "running", "").await;
}

/// The first one stays where it has run longer, or its node is the better one; and goes where its replacement's node is better, or
/// it had to start again meanwhile. The settings that came before the block say the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_allocation_and_its_replacement_the_one_stays_that_has_run_longest_or_stands_best() {
    let servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    nodes.until_ready(&servers.all[&1].client, 1).await;
    let hour_ns = 3_600_000_000_000_u64;
    let by = |policy: &str| json!({"Disconnect": {"LostAfter": hour_ns, "Reconcile": policy}});
    // Which node each would rather run on, and which of the two stays; there is one, where nobody stands in for it.
    let cases = [
        ("ran-on", by("longest_running"), "n1", "first"),
        ("began-anew", by("longest_running"), "n1", "second"),
        ("best-here", by("best_score"), "n1", "first"),
        ("best-there", by("best_score"), "n2", "second"),
        ("older", json!({"MaxClientDisconnect": hour_ns}), "n1", "first"),
        ("older-waits", json!({"PreventRescheduleOnLost": true}), "n1", "alone"),
    ];
    let mut pids = BTreeMap::new();
    for (id, settings, near, _) in &cases {
        let mut job = service_near(&nodes, id, near);
        let group = job["TaskGroups"][0].as_object_mut().expect("a group");
        group.extend(settings.as_object().expect("settings").clone());
        job["TaskGroups"][0]["RestartPolicy"] =
            json!({"Attempts": 9, "Interval": hour_ns, "Delay": 0, "Mode": "fail"});
        register(&servers, &job).await;
        let running = nodes.until_running(id, 1).await;
        pids.insert(*id, running.into_values().flatten().next().expect("a process id"));
    }
    // Now there is a better node for one of them.
    nodes.start(2, &[1], &servers);
    nodes.until_ready(&servers.all[&1].client, 2).await;
    for (id, ..) in &cases {
        until(&servers, id, "running", "").await;
    }

    nodes.signal(1, Signal::STOP);
    until_node_is(&servers, "n1", "disconnected").await;
    for (id, _, _, stays) in &cases {
        let on_n2 = if *stays == "alone" { "" } else { "running" };
        until(&servers, id, "unknown", on_n2).await;
    }
    let anew = pids["began-anew"].parse().ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(anew, Signal::KILL).expect("it runs");
    nodes.signal(1, Signal::CONT);
    until_node_is(&servers, "n1", "ready").await;
    for (id, _, _, stays) in &cases {
        let (on_n1, on_n2) = match *stays {
            "first" => ("running", "complete"),
            "second" => ("complete", "running"),
            _ => ("running", ""),
        };
        until(&servers, id, on_n1, on_n2).await;
        let lives = async || (is_alive(&pids[id]) == (on_n1 == "running")).then_some(());
        eventually(&format!("the first process of {id} lives if it stays"), lives).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_hears_of_no_server_stops_what_says_so_and_nothing_else() {
    let servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    nodes.until_ready(&servers.all[&1].client, 1).await;
    for (id, disconnect) in [("stops", json!({"StopOnClientAfter": "8s"})), ("stays", Value::Null)] {
        register(&servers, &service(&nodes, id, &disconnect)).await;
        until(&servers, id, "running", "").await;
    }
    let pid =
        async |id| nodes.until_running(id, 1).await.into_values().flatten().next().expect("a process id");
    let (stops, stays) = (pid("stops").await, pid("stays").await);

    servers.signal(1, Signal::STOP);
    // Its own start does not make a server heard.
    nodes.kill(1);
    nodes.start(1, &[1], &servers);
    eventually("it is stopped", async || (!is_alive(&stops)).then_some(())).await;
    assert!(is_alive(&stays));

    servers.signal(1, Signal::CONT);
    let again = async || {
        let all = allocs(&servers.all[&1].client, "stops").await?;
        let lost = all.iter().find(|alloc| alloc.client_status == "lost")?;
        let next = all.iter().find(|alloc| alloc.client_status == "running")?;
        (lost.next_allocation == next.id).then_some(lost.client_description.clone())
    };
    eventually("another takes its place once a server is there", again).await;
    assert!(is_alive(&stays), "what does not say so was never touched");
}
