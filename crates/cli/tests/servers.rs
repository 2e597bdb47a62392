//! Clusters of three and five real servers: acknowledged writes survive the loss of any of them, and no read is stale.

#[path = "servers/clocks.rs"]
mod clocks;
#[path = "servers/commands.rs"]
mod commands;
#[path = "servers/damage.rs"]
mod damage;
mod e2e;
#[path = "servers/kills.rs"]
mod kills;
#[path = "servers/leaving.rs"]
mod leaving;
#[path = "servers/links.rs"]
mod links;
#[path = "servers/membership.rs"]
mod membership;
#[path = "servers/partitions.rs"]
mod partitions;
#[path = "servers/periodic.rs"]
mod periodic;
#[path = "servers/rollouts.rs"]
mod rollouts;
#[path = "servers/snapshots.rs"]
mod snapshots;

use std::time::{Duration, Instant};

use berth_api::http::Client;
use berth_model::command::ENTRY_VERSION;
use e2e::{
    eventually,
    nodes::{Nodes, is_alive},
    servers::{Servers, join_flag},
    writers::{Writers, check_all_there},
};

/// How often the leader is killed.
const ROUNDS: usize = 3;

/// How often, if the long run asks for more.
fn rounds() -> usize {
    std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

/// Whether this is the long run: it alone judges times, in a release build on a machine that does nothing else.
fn is_long() -> bool {
    rounds() > ROUNDS
}

/// Says how long something took, each time that it was done, and in the long run judges half of them and the longest.
fn judge(what: &str, mut took: Vec<Duration>, [half_max, all_max]: [Duration; 2]) {
    took.sort_unstable();
    let (half, longest) = (took[took.len() / 2], took[took.len() - 1]);
    println!("{what}: {} times, p50 {half:.3?}, longest {longest:.3?}", took.len());
    assert!(!is_long() || (half <= half_max && longest <= all_max), "{what} took too long");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_server_answers_any_client_and_what_was_written_is_read_everywhere() {
    let servers = Servers::start(3).await;
    for (number, server) in &servers.all {
        let id = format!("through-{number}");
        server.register(&id).await.expect("any server takes a write");
        for (other, reader) in &servers.all {
            let known = reader.knows(&id).await.expect("any server reads");
            assert!(known, "written through server {number}, not read through server {other}");
        }
        eventually("each server sees that all are there", async || {
            let members = server.members().await.members;
            (members.len() == 3 && members.iter().all(|member| member.status == "alive")).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_leaders_are_killed() {
    let mut servers = Servers::start(3).await;
    let writers = Writers::start(&servers, &[1, 2, 3]);
    writers.more(20).await;
    let mut took = Vec::new();
    for _ in 0..rounds() {
        let all = servers.running();
        let leader = servers.leader(&all).await;
        servers.kill(leader);
        let killed = Instant::now();
        writers.more(20).await;
        took.push(writers.back_after(killed));
        servers.run(leader, &[]);
        servers.until_all_vote().await;
    }
    let (acknowledged, _) = writers.stop().await;
    check_all_there(&servers, &acknowledged).await;
    judge("writes are back after the leader was killed", took, [2, 3].map(Duration::from_secs));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_hands_over_and_no_request_fails() {
    let mut servers = Servers::start(3).await;
    let (mut acknowledged, mut took) = (Vec::new(), Vec::new());
    for _ in 0..if is_long() { rounds() } else { 1 } {
        let leader = servers.leader(&[1, 2, 3]).await;
        let others = servers.followers(&[1, 2, 3]).await;
        let writers = Writers::start(&servers, &others);
        writers.more(20).await;
        let asked = Instant::now();
        servers.stop(leader);
        writers.more(20).await;
        took.push(writers.longest_gap(asked));
        let (some, failed) = writers.stop().await;
        assert_eq!(failed, 0, "requests failed");
        acknowledged.extend(some);
        servers.run(leader, &[]);
        servers.until_all_vote().await;
    }
    acknowledged.sort_unstable();
    acknowledged.dedup();
    check_all_there(&servers, &acknowledged).await;
    judge("writes wait while the leadership is handed over", took, [100, 500].map(Duration::from_millis));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_with_a_slow_disk_hands_over_and_does_not_come_back() {
    let mut servers = Servers::start(3).await;
    let slow = servers.leader(&[1, 2, 3]).await;
    servers.stop(slow);
    let disk = servers.run_on_faulty_disk(slow);
    servers.until_all_vote().await;
    let others: Vec<u8> = [1, 2, 3].into_iter().filter(|number| *number != slow).collect();
    eventually("it leads again", async || {
        servers.all[&others[0]].transfer(slow).await.ok()?;
        (servers.leader(&[1, 2, 3]).await == slow).then_some(())
    })
    .await;
    let writers = Writers::start(&servers, &[1, 2, 3]);
    writers.more(20).await;
    disk.set_ms(1000);
    let begun = Instant::now();
    servers.leader(&others).await;
    judge(
        "a leader hands over whose syncs take a second",
        vec![begun.elapsed()],
        [Duration::from_secs(10); 2],
    );
    eventually("each server sees that its disk is slow", async || {
        let members = servers.all[&others[0]].members().await.members;
        let found = members.into_iter().find(|member| member.name.starts_with(&format!("s{slow}.")))?;
        found.tags["disk"].starts_with("slow").then_some(())
    })
    .await;
    writers.more(20).await;
    assert_ne!(servers.leader(&[1, 2, 3]).await, slow, "it leads again on a slow disk");
    // A leader that stops hands over to the third, and not to the one that has come as far on a slow disk.
    let leader = servers.leader(&others).await;
    let third = *others.iter().find(|number| **number != leader).expect("three");
    servers.stop(leader);
    assert_eq!(servers.leader(&[slow, third]).await, third);
    servers.run(leader, &[]);
    writers.more(20).await;
    let (acknowledged, _) = writers.stop().await;
    disk.set_ms(0);
    check_all_there(&servers, &acknowledged).await;
}

/// What a client is told that asks for a run of a job, which the log knows since version 4.
async fn dispatch(client: &Client) -> Result<(), String> {
    let target = berth_api::http::Target::new("/v1/job/template/dispatch");
    let answer = client.put::<serde_json::Value>(&target, &serde_json::json!({})).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// The older build is this one, told to know no newer entries of the log: it greets, writes, reads and refuses as that does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_upgraded_and_go_back_one_after_the_other_under_load() {
    let (old, new) = (vec!["--log-version=3".to_owned()], Vec::new());
    let mut servers = Servers::none();
    for number in 1..=3 {
        servers.add_with(number, &old).await;
    }
    servers.until_all_vote().await;
    let template = serde_json::json!({"ID": "template", "Type": "batch", "ParameterizedJob": {}, "TaskGroups": [{
        "Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}],
    }]});
    let jobs = berth_api::http::Target::new("/v1/jobs");
    let body = serde_json::json!({ "Job": template });
    servers.all[&1].client.put::<serde_json::Value>(&jobs, &body).await.expect("a job");
    let nodes = Nodes::one_each(&servers).await;
    let body = serde_json::json!({ "Job": nodes.counting("count") });
    servers.all[&1].client.put::<serde_json::Value>(&jobs, &body).await.expect("a job");
    let tasks = nodes.until_running("count", 3).await;
    let writers = Writers::start(&servers, &[1, 2, 3]);
    writers.more(10).await;
    let mut took = Vec::new();
    for (number, build) in [(1, &new), (2, &new), (1, &old), (1, &new)] {
        let asked = Instant::now();
        servers.stop(number);
        servers.run(number, build);
        servers.until_all_vote().await;
        writers.more(10).await;
        took.push(writers.longest_gap(asked));
        for asked in [1, 2, 3] {
            // Who leads only now has yet to hear what the others know.
            eventually("the leader knows that one server is older", async || {
                let refused = dispatch(&servers.all[&asked].client).await.expect_err("one server is older");
                assert!(refused.contains("entries of the log of version 4"), "{refused}");
                refused.contains("knows entries up to version 3: upgrade it first").then_some(())
            })
            .await;
        }
    }
    servers.stop(3);
    servers.run(3, &new);
    servers.until_all_vote().await;
    eventually("all servers know it", async || dispatch(&servers.all[&2].client).await.ok()).await;
    writers.more(20).await;
    let (acknowledged, _) = writers.stop().await;
    judge("writes wait while a server is upgraded or goes back", took, [Duration::from_secs(3); 2]);
    assert_eq!(nodes.pids("count"), tasks, "tasks were started again");
    assert!(tasks.values().flatten().all(|pid| is_alive(pid)), "tasks have ended");
    servers.stop(2);
    let message = servers.fails_to_run_with(2, &old);
    let says = format!("version {ENTRY_VERSION}, this server knows up to 3: start the newer version again");
    assert!(message.contains(&says), "{message}");
    servers.run(2, &new);
    servers.until_all_vote().await;
    check_all_there(&servers, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_found_a_cluster_together() {
    let mut servers = Servers::none();
    for number in 1..=3 {
        let server = servers.make(number).await;
        servers.all.insert(number, server);
    }
    let more = [join_flag(&servers.addresses()), vec!["--bootstrap-expect=3".to_owned()]].concat();
    for number in 1..=3 {
        servers.run(number, &more);
    }
    servers.until_all_vote().await;
    servers.all[&2].register("together").await.expect("it takes a write");
    assert!(servers.all[&3].knows("together").await.expect("it reads"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_each_server_says_so_and_what_to_do() {
    let mut servers = Servers::start(3).await;
    servers.kill(2);
    servers.kill(3);
    let refused = eventually("it knows that it is alone", async || {
        let refused = servers.all[&1].register("alone").await.err()?.to_string();
        refused.contains("no leader: ").then_some(refused)
    })
    .await;
    assert!(refused.contains("1 of 3 servers") && refused.contains("berth server recover"), "{refused}");
    servers.run(2, &[]);
    eventually("two of three take writes", async || servers.all[&1].register("two").await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_has_goes_on_without_those_that_are_lost_for_good() {
    let mut servers = Servers::start(3).await;
    servers.all[&1].register("kept").await.expect("it is taken");
    assert!(servers.all[&1].knows("kept").await.expect("it reads"), "it is applied there");
    let recover = |servers: &Servers, more: &[&str]| {
        servers.all[&1].offline(&[&["server", "recover", "-yes"], more].concat())
    };
    let message = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let refused = recover(&servers, &[]);
    assert!(!refused.status.success(), "it runs");
    assert!(message(&refused).contains("is in use by process"), "{refused:?}");
    servers.kill(1);
    let refused = recover(&servers, &[]);
    assert!(!refused.status.success() && message(&refused).contains("still runs"), "{refused:?}");
    servers.kill(2);
    servers.kill(3);
    let peers = servers.file("peers.json", r#"[{"id": "7", "address": "10.0.0.1:4647"}]"#);
    let refused = recover(&servers, &["--peers", &peers]);
    assert!(!refused.status.success() && message(&refused).contains("does not name this one"), "{refused:?}");
    let peers =
        servers.file("peers.json", r#"[{"id": "1", "address": "127.0.0.1:4647", "non_voter": false}]"#);
    let alone = recover(&servers, &["--peers", &peers]);
    assert!(alone.status.success(), "{alone:?}");
    servers.run(1, &[]);
    eventually("it leads", async || servers.all[&1].register("after").await.ok()).await;
    assert!(servers.all[&1].knows("kept").await.expect("it reads"));
    let voters = servers.all[&1].configuration().await.expect("it answers").servers.len();
    assert_eq!(voters, 1);
    // The two that were left out are a majority of the old three. They must not be a second cluster of the same id.
    for number in [2, 3] {
        let message = servers.fails_to_run(number);
        assert!(
            message.contains("recovered without this server") && message.contains("server rejoin"),
            "{message}"
        );
    }
    servers.all[&1].register("undisturbed").await.expect("it leads on");
    let join = servers.all[&1].advertised().to_string();
    for number in [2, 3] {
        let rejoined = servers.all[&number].offline(&["server", "rejoin", "-yes", "--join", &join]);
        assert!(rejoined.status.success(), "{rejoined:?}");
        servers.run(number, &[]);
    }
    servers.until_all_vote().await;
    for number in [1, 2, 3] {
        for id in ["kept", "after", "undisturbed"] {
            let known = eventually("a read", async || servers.all[&number].knows(id).await.ok()).await;
            assert!(known, "server {number} does not know {id}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_were_left_out_while_they_ran_end_as_soon_as_they_hear_of_it() {
    let mut servers = Servers::start(3).await;
    servers.all[&2].register("before").await.expect("it is taken");
    servers.kill(1);
    servers.links.isolate(1, [2, 3]);
    servers.leader(&[2, 3]).await;
    let forced = servers.all[&1].offline(&["server", "recover", "-yes", "--without-others"]);
    assert!(forced.status.success(), "{forced:?}");
    servers.run(1, &[]);
    eventually("it leads alone", async || servers.all[&1].register("alone").await.ok()).await;
    servers.all[&2].register("both").await.expect("those who are cut off cannot know");
    servers.links.heal();
    for number in [2, 3] {
        let message = servers.ends(number).await;
        assert!(message.contains("recovered without this server"), "{message}");
    }
    servers.all[&1].register("after").await.expect("it leads on");
    assert!(!servers.all[&1].knows("both").await.expect("it reads"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_data_is_damaged_refuses_by_name_and_joins_again() {
    let mut servers = Servers::start(3).await;
    for id in ["one", "two", "three"] {
        servers.all[&1].register(id).await.expect("it is taken");
    }
    let join = servers.all[&1].advertised().to_string();
    for what in ["log/state", "log/00000000000000000000.log", "server"] {
        servers.kill(3);
        servers.all[&3].damage(what);
        let message = servers.fails_to_run(3);
        assert!(
            message.contains(what.rsplit('/').next().unwrap()) && message.contains("server rejoin"),
            "{message}"
        );
        let rejoined = servers.all[&3].offline(&["server", "rejoin", "-yes", "--join", &join]);
        assert!(rejoined.status.success(), "{rejoined:?}");
        servers.run(3, &[]);
        servers.until_all_vote().await;
        assert!(eventually("a read", async || servers.all[&3].knows("three").await.ok()).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_server_can_be_told_which_cluster_to_join() {
    let mut servers = Servers::start(1).await;
    let server = servers.make(2).await;
    servers.all.insert(2, server);
    servers.run(2, &["--bootstrap-expect=3".to_owned()]);
    let join = servers.all[&1].advertised().to_string();
    let message = |output: std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let nobody = servers.all[&2].online(&["server", "join", "127.0.0.1:1"]);
    assert!(!nobody.status.success() && message(nobody).contains("127.0.0.1:1"));
    let joined = servers.all[&2].online(&["server", "join", &join]);
    assert!(joined.status.success(), "{joined:?}");
    servers.until_all_vote().await;
    assert!(servers.all[&2].online(&["server", "join", &join]).status.success(), "it is there already");
}
