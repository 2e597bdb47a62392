//! The state of three servers is saved through one of them and restored into a new cluster of three: all have the same state
//! afterwards, and what agents run goes on.

use std::path::Path;

use serde_json::Value;

use super::e2e::{
    eventually,
    nodes::{Nodes, allocs, is_alive},
    servers::{Server, Servers, join_flag},
};

/// Saves the state as a server has it: where it stands, and its hash.
fn saved(server: &Server, file: &Path) -> (u64, String) {
    let file = file.to_str().expect("plain");
    server.stdout_of(&["operator", "snapshot", "save", file]);
    let message = server.stdout_of(&["operator", "snapshot", "inspect", "-o", "json", file]);
    let message: Value = serde_json::from_str(&message).expect("JSON");
    (message["Index"].as_u64().expect("a number"), message["Hash"].as_str().expect("a text").to_owned())
}

/// Waits until all of `numbers` stand at one index, and checks that they have one state there.
async fn check_same_state(servers: &Servers, numbers: &[u8], nodes: &Nodes) {
    let all = eventually("the servers stand at one index", async || {
        let save = |number: &u8| {
            let file = nodes.path(&format!("state-{number}"));
            let state = saved(&servers.all[number], &file);
            std::fs::remove_file(file).expect("it is ours");
            state
        };
        let all: Vec<(u64, String)> = numbers.iter().map(save).collect();
        all.windows(2).all(|pair| pair[0].0 == pair[1].0).then_some(all)
    })
    .await;
    assert!(all.windows(2).all(|pair| pair[0].1 == pair[1].1), "one index, several states: {all:?}");
}

async fn jobs(server: &Server) -> Option<Vec<String>> {
    let target = berth_api::http::Target::new("/v1/jobs");
    let mut jobs: Vec<Value> = server.client.get(&target).await.ok()?.value;
    Some(jobs.iter_mut().map(|job| job["ID"].as_str().expect("an id").to_owned()).collect())
}

async fn register(server: &Server, job: &Value) {
    let target = berth_api::http::Target::new("/v1/jobs");
    let body = serde_json::json!({ "Job": job });
    server.client.put::<Value>(&target, &body).await.expect("it is acknowledged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saved_state_goes_on_in_a_new_cluster_with_what_its_agents_run() {
    let mut servers = Servers::start(3).await;
    let mut nodes = Nodes::one_each(&servers).await;
    register(&servers.all[&1], &nodes.counting("kept")).await;
    let pids = nodes.until_running("kept", 3).await;
    // The end of an evaluation belongs to what is saved: nothing is planned again for it.
    eventually("it is placed", async || {
        let placed = allocs(&servers.all[&2].client, "kept").await?;
        placed.iter().all(|alloc| alloc.client_status == "running").then_some(())
    })
    .await;
    let follower = servers.followers(&[1, 2, 3]).await[0];
    let file = nodes.path("state.snap");
    saved(&servers.all[&follower], &file);
    check_same_state(&servers, &[1, 2, 3], &nodes).await;
    servers.all[&1].register("later").await.expect("it is taken");

    for number in [1, 2, 3] {
        nodes.kill(number);
        servers.kill(number);
    }
    // None of the old cluster is there, and none of its data.
    let mut renewed = Servers::none();
    for number in [4, 5, 6] {
        renewed.add(number).await;
    }
    renewed.until_all_vote().await;
    let follower = renewed.followers(&[4, 5, 6]).await[0];
    assert_eq!(jobs(&renewed.all[&follower]).await, Some(Vec::new()));
    renewed.all[&follower].stdout_of(&[
        "operator",
        "snapshot",
        "restore",
        "-yes",
        file.to_str().expect("plain"),
    ]);
    for server in renewed.all.values() {
        assert_eq!(jobs(server).await, Some(vec!["kept".to_owned()]));
    }
    for (node, server) in [(1, 4), (2, 5), (3, 6)] {
        nodes.start(node, &[server], &renewed);
    }
    nodes.until_ready(&renewed.all[&4].client, 3).await;
    for server in renewed.all.values() {
        eventually("it is shown running", async || {
            let shown = allocs(&server.client, "kept").await?;
            (shown.len() == 3 && shown.iter().all(|alloc| alloc.client_status == "running")).then_some(())
        })
        .await;
    }
    assert_eq!(nodes.pids("kept"), pids, "tasks were started again");
    assert!(pids.values().flatten().all(|pid| is_alive(pid)), "tasks have ended");
    check_same_state(&renewed, &[4, 5, 6], &nodes).await;

    // What was restored outlives the server that took the file, and a newcomer gets it too.
    let leader = renewed.leader(&[4, 5, 6]).await;
    renewed.kill(leader);
    let others: Vec<u8> = [4, 5, 6].into_iter().filter(|number| *number != leader).collect();
    renewed.leader(&others).await;
    register(&renewed.all[&others[0]], &nodes.counting("more")).await;
    nodes.until_running("more", 3).await;
    std::fs::remove_dir_all(renewed.data(leader)).expect("it was there");
    let known: Vec<_> = others.iter().map(|number| renewed.all[number].advertised()).collect();
    renewed.run(leader, &join_flag(&known));
    renewed.until_all_vote().await;
    check_same_state(&renewed, &[4, 5, 6], &nodes).await;
    for job in ["kept", "more"] {
        renewed.all[&others[0]].stdout_of(&["job", "stop", "-yes", job]);
    }
    eventually("what is stopped ends on all nodes", async || {
        pids.values().flatten().all(|pid| !is_alive(pid)).then_some(())
    })
    .await;
}
