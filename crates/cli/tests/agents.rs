//! Real agents with three servers: every server shows what they observe, and neither they nor their tasks notice a change of the
//! leader, or that no server runs. `BERTH_TEST_ROUNDS` is for how many seconds none does.

mod e2e;

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use berth_api::http::{RecoveryStatus, Target};
use e2e::{
    Daemon, eventually,
    nodes::{Nodes, allocs, is_alive},
    servers::Servers,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// What a server shows of a job's allocations: status, and how often something was observed of their tasks.
async fn shown(servers: &Servers, number: u8, id: &str) -> Option<BTreeMap<String, (String, String)>> {
    let allocs = allocs(&servers.all[&number].client, id).await?;
    let state = |alloc: berth_api::http::AllocationStub| {
        let states = serde_json::to_string(&alloc.task_states).expect("it was JSON");
        (alloc.id, (alloc.client_status, states))
    };
    Some(allocs.into_iter().map(state).collect())
}

/// Waits until all of `numbers` show the same of a job, and `count` allocations that run.
async fn until_all_show(servers: &Servers, numbers: &[u8], id: &str, count: usize) {
    eventually(&format!("servers {numbers:?} show {count} of {id} running"), async || {
        let mut all = Vec::new();
        for number in numbers {
            all.push(shown(servers, *number, id).await?);
        }
        let running = all[0].values().filter(|(status, _)| status == "running").count();
        (running == count && all.windows(2).all(|pair| pair[0] == pair[1])).then_some(())
    })
    .await;
}

async fn register(servers: &Servers, number: u8, job: &Value) {
    let target = Target::new("/v1/jobs");
    let body = json!({ "Job": job });
    servers.all[&number].client.put::<Value>(&target, &body).await.expect("it is acknowledged");
}

/// The same processes run, and none was started beside them.
fn check_untouched(nodes: &Nodes, id: &str, before: &BTreeMap<String, Vec<String>>) {
    assert_eq!(nodes.pids(id), *before, "tasks were started again");
    for pid in before.values().flatten() {
        assert!(is_alive(pid), "the process {pid} is gone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_stay_with_their_servers_while_the_leader_is_killed() {
    let mut servers = Servers::start(3).await;
    let nodes = Nodes::one_each(&servers).await;
    register(&servers, 2, &nodes.counting("count")).await;
    let pids = nodes.until_running("count", 3).await;
    until_all_show(&servers, &[1, 2, 3], "count", 3).await;
    let leader = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    servers.kill(leader);
    servers.leader(&others).await;
    // Nobody shows what runs as pending, not even for a moment.
    for _ in 0..20 {
        for number in &others {
            let Some(shown) = shown(&servers, *number, "count").await else { continue };
            let running = shown.values().filter(|(status, _)| status == "running").count();
            assert_eq!(running, 3, "server {number} shows {shown:?}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // What is decided now reaches the agents of both.
    register(&servers, others[0], &nodes.counting("more")).await;
    eventually("the agents of the others start more", async || (nodes.pids("more").len() >= 2).then_some(()))
        .await;
    for number in &others {
        let message = nodes.log(*number);
        assert!(!message.contains("disconnected"), "its agent has lost its server:\n{message}");
    }
    servers.run(leader, &[]);
    nodes.until_ready(&servers.all[&others[0]].client, 3).await;
    until_all_show(&servers, &[1, 2, 3], "more", 3).await;
    until_all_show(&servers, &[1, 2, 3], "count", 3).await;
    check_untouched(&nodes, "count", &pids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_paused_comes_back_to_agents_that_report_through_others() {
    let servers = Servers::start(3).await;
    let nodes = Nodes::one_each(&servers).await;
    register(&servers, 1, &nodes.counting("count")).await;
    let pids = nodes.until_running("count", 3).await;
    let leader = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    servers.signal(leader, Signal::STOP);
    servers.leader(&others).await;
    register(&servers, others[0], &nodes.counting("more")).await;
    eventually("the agents of the others start more", async || (nodes.pids("more").len() >= 2).then_some(()))
        .await;
    servers.signal(leader, Signal::CONT);
    until_all_show(&servers, &[1, 2, 3], "more", 3).await;
    until_all_show(&servers, &[1, 2, 3], "count", 3).await;
    check_untouched(&nodes, "count", &pids);
}

/// Longer than a node may be silent whose agent did not find another server.
const AWAY: Duration = Duration::from_secs(40);

/// A server is of no use to its agent for a while, and says nothing of that: the agent finds another one before its node would
/// count as lost, and its task notices nothing.
async fn no_node_is_lost_while(strike: impl Fn(&Servers, u8), leads: bool) {
    let servers = Servers::start(3).await;
    let nodes = Nodes::one_each(&servers).await;
    register(&servers, 1, &nodes.counting("count")).await;
    let pids = nodes.until_running("count", 3).await;
    let (leader, followers) = (servers.leader(&[1, 2, 3]).await, servers.followers(&[1, 2, 3]).await);
    let gone = if leads { leader } else { followers[0] };
    let others: Vec<u8> = [1, 2, 3].into_iter().filter(|number| *number != gone).collect();
    strike(&servers, gone);
    servers.leader(&others).await;
    let (client, nodes_of) = (&servers.all[&others[0]].client, Target::new("/v1/nodes"));
    for _ in 0..AWAY.as_secs() * 2 {
        let listed = client.get::<Vec<Value>>(&nodes_of).await.map(|answer| answer.value).unwrap_or_default();
        for node in listed {
            assert_eq!(node["Status"], "ready", "server {gone} of 3 is of no use: {node}");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    until_all_show(&servers, &others, "count", 3).await;
    check_untouched(&nodes, "count", &pids);
    servers.links.heal();
    servers.signal(gone, Signal::CONT);
    until_all_show(&servers, &[1, 2, 3], "count", 3).await;
    check_untouched(&nodes, "count", &pids);
}

fn hang(servers: &Servers, number: u8) {
    servers.signal(number, Signal::STOP);
}

fn isolate(servers: &Servers, number: u8) {
    servers.links.isolate(number, [1, 2, 3].into_iter().filter(|other| *other != number));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_is_lost_while_a_follower_hangs() {
    no_node_is_lost_while(hang, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_is_lost_while_a_leader_hangs() {
    no_node_is_lost_while(hang, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_is_lost_while_a_leader_hears_no_other_server() {
    no_node_is_lost_while(isolate, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_reports_to_a_server_that_is_cut_off_is_not_lost() {
    let servers = Servers::start(3).await;
    let nodes = Nodes::one_each(&servers).await;
    let leader = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    register(&servers, leader, &nodes.counting("count")).await;
    let pids = nodes.until_running("count", 3).await;
    for (from, to) in [(others[0], leader), (leader, others[1])] {
        servers.links.cut(from, to);
        let id = format!("cut-{from}-{to}");
        register(&servers, leader, &nodes.counting(&id)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        servers.links.heal();
        nodes.until_running(&id, 3).await;
        until_all_show(&servers, &[1, 2, 3], &id, 3).await;
    }
    until_all_show(&servers, &[1, 2, 3], "count", 3).await;
    check_untouched(&nodes, "count", &pids);
}

/// What a command prints that is told this; it must succeed.
fn piped(mut command: Command, input: Vec<u8>) -> Vec<u8> {
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = process.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = process.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("all of it is read");
    assert!(output.status.success(), "{command:?}");
    output.stdout
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_reached_through_every_server() {
    let mut servers = Servers::start(3).await;
    let mut nodes = Nodes::none();
    let leader = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    nodes.start(1, &[others[0]], &servers);
    nodes.until_ready(&servers.all[&leader].client, 1).await;
    register(&servers, leader, &nodes.counting("count")).await;
    let pids = nodes.until_running("count", 1).await;
    let alloc = pids.keys().next().expect("one").clone();
    until_all_show(&servers, &[1, 2, 3], "count", 1).await;
    let megabytes: Vec<u8> = (0..3_000_000_u32).map(|byte| (byte % 251) as u8).collect();
    for (number, server) in &servers.all {
        eventually(&format!("server {number} reads the log"), async || {
            server.stdout_of(&["logs", &alloc]).starts_with("1\n2\n").then_some(())
        })
        .await;
        let copied = piped(server.berth(&["exec", "-i", &alloc, "cat"]), megabytes.clone());
        assert!(copied == megabytes, "through server {number}: {} bytes came back", copied.len());
        let failed = server.berth(&["exec", &alloc, "sh", "-c", "exit 7"]).output().expect("it runs");
        assert_eq!(failed.status.code(), Some(7), "through server {number}: {failed:?}");
        assert!(!server.stdout_of(&["alloc", "stats", &alloc]).is_empty());
        let listed = server.stdout_of(&["alloc", "fs", "-o", "name", &alloc, "alloc/logs"]);
        assert!(listed.contains("task.stdout.0"), "through server {number}: {listed}");
        let file = server.stdout_of(&["alloc", "fs", &alloc, "alloc/logs/task.stdout.0"]);
        assert!(file.starts_with("1\n2\n"), "through server {number}: {file}");
        assert!(
            server.berth(&["exec", &alloc, "no-such-program"]).output().expect("it runs").status.code()
                != Some(0)
        );
        // A follower of the log that goes away ends its reading, and one that stays reads what is written.
        let mut follower = Daemon::spawn(server.berth(&["logs", "-f", &alloc]), &nodes.path("told-follower"));
        assert_eq!(follower.ready_line(), "1", "through server {number}");
    }
    // A command that nobody waits for any more is ended, whichever server it went through.
    let file = nodes.path("exec-pid");
    let script = format!("echo $$ > {}; exec sleep 1000", file.display());
    let exec = servers.all[&others[1]].berth(&["exec", &alloc, "sh", "-c", &script]);
    let mut exec = Daemon::spawn(exec, &nodes.path("told-exec"));
    let pid = eventually("the command runs", async || {
        let pid = std::fs::read_to_string(&file).ok()?.trim().to_owned();
        (!pid.is_empty()).then_some(pid)
    })
    .await;
    exec.kill();
    eventually("the command is ended", async || (!is_alive(&pid)).then_some(())).await;
    // So is one whose server is lost.
    std::fs::remove_file(&file).expect("it is there");
    let exec = servers.all[&others[1]].berth(&["exec", &alloc, "sh", "-c", &script]);
    let _exec = Daemon::spawn(exec, &nodes.path("told-exec"));
    let pid = eventually("the command runs", async || {
        let pid = std::fs::read_to_string(&file).ok()?.trim().to_owned();
        (!pid.is_empty()).then_some(pid)
    })
    .await;
    servers.kill(others[1]);
    eventually("the command is ended", async || (!is_alive(&pid)).then_some(())).await;
    servers.all[&leader].stdout_of(&["alloc", "restart", &alloc]);
    eventually("the task was started again", async || {
        (nodes.pids("count").values().next()?.len() == 2).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_server_is_lost_finds_the_others_and_its_tasks_run_on() {
    let mut servers = Servers::start(3).await;
    let mut nodes = Nodes::none();
    let leader = servers.leader(&[1, 2, 3]).await;
    let followers = servers.followers(&[1, 2, 3]).await;
    // It was told of a single server, and learns of the others there.
    nodes.start(1, &[followers[0]], &servers);
    nodes.until_ready(&servers.all[&leader].client, 1).await;
    register(&servers, leader, &nodes.counting("count")).await;
    let pids = nodes.until_running("count", 1).await;
    servers.kill(followers[0]);
    let others = [leader, followers[1]];
    eventually("it connects to another server", async || {
        let message = nodes.log(1);
        let connected = |number: &u8| {
            message.contains(&format!(" connected server={}", servers.all[number].agent_addr()))
        };
        others.iter().any(connected).then_some(())
    })
    .await;
    register(&servers, leader, &nodes.counting("more")).await;
    nodes.until_running("more", 1).await;
    until_all_show(&servers, &others, "count", 1).await;
    until_all_show(&servers, &others, "more", 1).await;
    // The next one that has it may be lost as well.
    servers.run(followers[0], &[]);
    servers.until_all_vote().await;
    servers.kill(leader);
    servers.leader(&followers).await;
    register(&servers, followers[0], &nodes.counting("last")).await;
    nodes.until_running("last", 1).await;
    until_all_show(&servers, &followers, "last", 1).await;
    check_untouched(&nodes, "count", &pids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_started_again_finds_the_cluster_though_the_servers_it_is_given_are_gone() {
    let mut servers = Servers::start(3).await;
    let mut nodes = Nodes::none();
    let leader = servers.leader(&[1, 2, 3]).await;
    let followers = servers.followers(&[1, 2, 3]).await;
    let (lost, others) = (followers[0], [leader, followers[1]]);
    nodes.start(1, &[lost], &servers);
    nodes.until_ready(&servers.all[&leader].client, 1).await;
    register(&servers, leader, &nodes.counting("count")).await;
    let pids = nodes.until_running("count", 1).await;
    let learned = nodes.path("node-1/agent/servers");
    eventually("it keeps who the servers are", async || learned.exists().then_some(())).await;
    nodes.kill(1);
    servers.kill(lost);
    nodes.start(1, &[lost], &servers);
    register(&servers, leader, &nodes.counting("more")).await;
    nodes.until_running("more", 1).await;
    until_all_show(&servers, &others, "count", 1).await;
    until_all_show(&servers, &others, "more", 1).await;
    check_untouched(&nodes, "count", &pids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_and_their_tasks_go_on_with_what_is_recovered_of_a_cluster() {
    let mut servers = Servers::start(3).await;
    let mut nodes = Nodes::one_each(&servers).await;
    register(&servers, 1, &nodes.counting("count")).await;
    let pids = nodes.until_running("count", 3).await;
    until_all_show(&servers, &[1, 2, 3], "count", 3).await;
    [1, 2, 3].into_iter().for_each(|number| servers.kill(number));
    // One agent is started again meanwhile, with nothing but the address of a server that is lost for good.
    nodes.kill(3);
    let recovered = servers.all[&1].offline(&["server", "recover", "-yes"]);
    assert!(recovered.status.success(), "{recovered:?}");
    nodes.start(3, &[3], &servers);
    servers.run(1, &[]);
    nodes.until_ready(&servers.all[&1].client, 3).await;
    until_all_show(&servers, &[1], "count", 3).await;
    register(&servers, 1, &nodes.counting("more")).await;
    nodes.until_running("more", 3).await;
    until_all_show(&servers, &[1], "more", 3).await;
    check_untouched(&nodes, "count", &pids);
    servers.all[&1].stdout_of(&["job", "stop", "-yes", "count"]);
    eventually("what is stopped ends on all nodes", async || {
        pids.values().flatten().all(|pid| !is_alive(pid)).then_some(())
    })
    .await;
}

/// For how many seconds all servers are down, if nobody asks for more.
const DOWN_S: u64 = 8;
/// The longest, in the long run, until all is known again from the start of the servers on.
const RECONCILED_MAX: Duration = Duration::from_secs(15);

fn down_s() -> u64 {
    std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(DOWN_S)
}

/// A job whose task ends with code 7 once a file is gone.
fn ends_without(file: &str) -> Value {
    let script = r#"while [ -e "$1" ]; do sleep 0.1; done; exit 7"#;
    json!({"ID": "ends", "Name": "ends", "Type": "batch", "TaskGroups": [{
        "Name": "group",
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Unlimited": false},
        "Tasks": [{
            "Name": "task",
            "Driver": "raw_exec",
            "Config": {"command": "/bin/sh", "args": ["-c", script, "sh", file]},
            "Resources": {"CPU": 1, "MemoryMB": 10},
        }],
    }]})
}

/// Whether a server shows that the only task of a job has ended with that code, and was not started again.
async fn has_ended(servers: &Servers, number: u8, id: &str, exit_code: i32) -> Option<()> {
    let mut allocs = allocs(&servers.all[&number].client, id).await?;
    assert_eq!(allocs.len(), 1, "server {number} shows {allocs:?}");
    let task = allocs.pop()?.task_states?.remove("task")?;
    let ends: Vec<_> = task.events.iter().filter(|event| event.kind == "Terminated").collect();
    (ends.len() == 1 && ends[0].exit_code == exit_code && task.restarts == 0).then_some(())
}

/// Waits until all servers know a leader who has heard all agents out.
async fn until_reconciled(servers: &Servers, nodes: u64) {
    for (number, server) in &servers.all {
        eventually(&format!("server {number} knows what runs on {nodes} nodes"), async || {
            let target = Target::new("/v1/status/recovery");
            let status = server.client.get::<RecoveryStatus>(&target).await.ok()?.value;
            (status.done && status.known_leader && status.confirmed == nodes).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_notice_nothing_while_all_servers_are_down() {
    let all = [1, 2, 3];
    let mut servers = Servers::start(3).await;
    let nodes = Nodes::one_each(&servers).await;
    let file = servers.file("runs", "");
    register(&servers, 1, &nodes.counting("count")).await;
    register(&servers, 1, &ends_without(&file)).await;
    let pids = nodes.until_running("count", 3).await;
    until_all_show(&servers, &all, "count", 3).await;
    until_all_show(&servers, &all, "ends", 1).await;
    let before = shown(&servers, 1, "count").await.expect("it answers");
    for number in all {
        servers.kill(number);
    }
    // What ends meanwhile is reported later.
    std::fs::remove_file(&file).expect("it is there");
    let down = Instant::now();
    while down.elapsed() < Duration::from_secs(down_s()) {
        check_untouched(&nodes, "count", &pids);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let started = Instant::now();
    for number in all {
        servers.run(number, &[]);
    }
    until_reconciled(&servers, 3).await;
    let took = started.elapsed();
    println!(
        "all was reconciled {took:.1?} after the servers were started, which were down for {} s",
        down_s()
    );
    assert!(down_s() <= DOWN_S || took <= RECONCILED_MAX, "it took too long");
    for number in all {
        let ended = format!("server {number} shows how a task ended while none was there");
        eventually(&ended, async || has_ended(&servers, number, "ends", 7).await).await;
        let after = shown(&servers, number, "count").await.expect("it answers");
        assert_eq!(after, before, "server {number} shows something else");
    }
    register(&servers, 2, &nodes.counting("more")).await;
    nodes.until_running("more", 3).await;
    until_all_show(&servers, &all, "more", 3).await;
    nodes.until_ready(&servers.all[&3].client, 3).await;
    check_untouched(&nodes, "count", &pids);
}
