//! Commands about servers: their status, the leader, removing a server, and replacing one by another.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::http::Target;
use serde_json::{Value, json};

use super::e2e::{
    eventually,
    nodes::{Nodes, allocs},
    servers::{Server, Servers, join_flag},
};

/// The rows of `server members`, by the name of the server, each by the name of its column.
fn members(server: &Server) -> BTreeMap<String, BTreeMap<String, String>> {
    let all: Vec<Value> =
        serde_json::from_str(&server.stdout_of(&["server", "members", "-o", "json"])).expect("JSON");
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |member: &Value| {
        let tags = member["Tags"].as_object().expect("tags").iter();
        let own = ["Status", "Leader"].map(|name| (name.to_owned(), text(&member[name])));
        let row = tags.map(|(name, value)| (name.clone(), text(value))).chain(own).collect();
        (text(&member["Name"]).split('.').next().expect("a name").to_owned(), row)
    };
    all.iter().map(row).collect()
}

/// What `/metrics` says of each server, by its name and that of the metric.
fn metrics(server: &Server) -> BTreeMap<(String, String), f64> {
    let answer = server.answer("/metrics");
    let of_servers = answer.lines().filter_map(|line| line.strip_prefix("berth_server_"));
    let sample = |line: &str| {
        let (metric, rest) = line.split_once('{')?;
        let name = rest.split("name=\"").nth(1)?.split('"').next()?;
        let value = rest.rsplit(' ').next()?.parse().ok()?;
        Some(((name.to_owned(), metric.to_owned()), value))
    };
    of_servers.filter_map(sample).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_shows_the_health_of_all() {
    let mut servers = Servers::start(3).await;
    let leader = servers.leader(&[1, 2, 3]).await;
    servers.all[&1].register("something").await.expect("it is taken");
    for server in servers.all.values() {
        eventually("all are known to be well", async || {
            let (members, metrics) = (members(server), metrics(server));
            let is_well = |number: u8| {
                let name = format!("s{number}");
                let (row, metric) =
                    (members.get(&name)?, |what: &str| metrics.get(&(name.clone(), what.to_owned())));
                let leads = number == leader;
                let millis = row["disk"].strip_prefix("ok, ")?.strip_suffix(" ms")?.parse::<f64>().ok()?;
                let message =
                    (row["Status"] == "alive", row["lag"] == "0", row["Leader"] == leads.to_string());
                let measured =
                    [*metric("lag_records")?, *metric("alive")?, *metric("leader")?, *metric("voter")?];
                let is_well = message == (true, true, true)
                    && millis > 0.0
                    && row["last_contact"].ends_with('s')
                    && measured == [0.0, 1.0, f64::from(u8::from(leads)), 1.0]
                    && *metric("fsync_seconds")? > 0.0
                    && *metric("last_contact_seconds")? < 3.0
                    && metric("term")?.to_string() == row["term"];
                Some(is_well)
            };
            [1, 2, 3].into_iter().all(|number| is_well(number) == Some(true)).then_some(())
        })
        .await;
    }
    let table = servers.all[&1].stdout_of(&["server", "members"]);
    for column in ["ROLE", "STATUS", "LAG", "TERM", "CONTACT", "DISK"] {
        assert!(table.contains(column), "{table}");
    }

    let lost = servers.followers(&[1, 2, 3]).await[0];
    servers.kill(lost);
    for number in 0..5 {
        servers.all[&leader].register(&format!("later-{number}")).await.expect("two are a majority");
    }
    let name = format!("s{lost}");
    for number in servers.running() {
        eventually("the others see that one is lost, and by how much it is behind", async || {
            let row = members(&servers.all[&number]).remove(&name)?;
            let metrics = metrics(&servers.all[&number]);
            let metric = |what: &str| metrics.get(&(name.clone(), what.to_owned())).copied();
            let is_lost = row["Status"] == "failed" && metric("alive")? == 0.0;
            let is_silent = metric("last_contact_seconds")? > 3.0 && row["last_contact"].ends_with("ms");
            // Who does not lead knows how far another is from that one alone, as long as it is heard.
            let is_behind =
                number != leader || (metric("lag_records")? >= 5.0 && row["lag"].parse::<u64>().ok()? >= 5);
            (is_lost && is_silent && is_behind).then_some(())
        })
        .await;
    }
}

/// Its own cluster may need it: it says where it is and where it was to go, and stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_to_join_another_cluster_than_its_own_names_both() {
    let (mut ours, theirs) = (Servers::start(1).await, Servers::start(1).await);
    ours.stop(1);
    ours.run(1, &join_flag(&theirs.addresses()));
    let message = eventually("it names both clusters", async || {
        let message = ours.log(1);
        message.lines().find(|line| line.contains("was started to join another cluster")).map(str::to_owned)
    })
    .await;
    let ids: BTreeSet<&str> =
        message.split(|c: char| !c.is_ascii_hexdigit()).filter(|id| id.len() == 32).collect();
    assert_eq!(ids.len(), 2, "{message}");
    assert!(message.contains("this server to cluster"), "{message}");
    ours.all[&1].register("still-here").await.expect("it goes on in its own cluster");
    assert_eq!(
        theirs.all[&1].configuration().await.expect("it answers").servers.len(),
        1,
        "nobody has joined"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leadership_is_handed_over_and_servers_are_taken_out_by_command() {
    let mut servers = Servers::start(3).await;
    let before = servers.leader(&[1, 2, 3]).await;
    let next = servers.followers(&[1, 2, 3]).await[0];
    // Asked of another than the one that leads.
    servers.all[&next].stdout_of(&["server", "transfer", &format!("s{next}")]);
    assert_eq!(servers.leader(&[1, 2, 3]).await, next);
    servers.all[&before].stdout_of(&["server", "transfer"]);
    assert_ne!(servers.leader(&[1, 2, 3]).await, next);
    servers.all[&1].stdout_of(&["server", "promote", "s2"]);
    let stranger = servers.all[&1].berth(&["server", "remove", "-yes", "s9"]).output().expect("it runs");
    let message = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(stranger.status.code() == Some(3) && message.contains("`s9`"), "{message}");

    // The leader itself goes: it hands over first. It is not stopped yet, and sends its agent to the others.
    let leaving = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[leaving], &servers);
    nodes.until_ready(&servers.all[&leaving].client, 1).await;
    let body = json!({ "Job": nodes.counting("count") });
    servers.all[&1].client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is taken");
    let tasks = nodes.until_running("count", 1).await;
    servers.all[&leaving].stdout_of(&["server", "leave", "-yes"]);
    eventually("it says that it was removed", async || {
        servers.log(leaving).contains("was removed from its cluster").then_some(())
    })
    .await;
    let refused =
        servers.all[&leaving].register("nowhere").await.expect_err("it is of no cluster").to_string();
    assert!(refused.contains("berth server rejoin"), "{refused}");
    eventually("the agent goes to another server", async || {
        let message = nodes.log(1);
        let connected = |number: &u8| {
            message.contains(&format!(" connected server={}", servers.all[number].agent_addr()))
        };
        others.iter().any(connected).then_some(())
    })
    .await;
    // What its agent had not said yet when its server left, it says to the next.
    eventually("the task is known to run", async || {
        let all = allocs(&servers.all[&others[0]].client, "count").await.expect("a list");
        assert_eq!(all.len(), 1, "{all:?}");
        (all[0].client_status == "running").then_some(())
    })
    .await;
    assert_eq!(nodes.pids("count"), tasks, "its task was started again");
    servers.stop(leaving);
    servers.until_all_vote().await;
    servers.all[&others[0]].register("without-it").await.expect("two of two");
    // It is not let in again by being started.
    servers.run(leaving, &[]);
    eventually("it says that it was removed, again", async || {
        let message = servers.log(leaving);
        (message.matches("was removed from its cluster").count() == 2).then_some(())
    })
    .await;
    servers.kill(leaving);

    let (stays, gone) = (others[0], others[1]);
    servers.all[&stays].stdout_of(&["server", "remove", "-yes", &format!("s{gone}")]);
    eventually("one is left, and goes on alone", async || {
        let left = servers.all[&stays].configuration().await?.servers;
        (left.len() == 1).then_some(())
    })
    .await;
    servers.kill(gone);
    servers.all[&stays].register("alone").await.expect("one of one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reinstalled_machine_replaces_its_dead_predecessor() {
    let mut servers = Servers::start(3).await;
    servers.all[&1].register("kept").await.expect("it is taken");
    let lost = servers.followers(&[1, 2, 3]).await[0];
    let others: Vec<u8> = [1, 2, 3].into_iter().filter(|number| *number != lost).collect();
    let id = async |servers: &Servers| {
        let all = servers.all[&others[0]].configuration().await?.servers;
        (all.len() == 3).then_some(())?;
        let name = format!("s{lost}.");
        all.into_iter().find(|server| server.node.starts_with(&name) && server.voter).map(|server| server.id)
    };
    let before = eventually("it votes", async || id(&servers).await).await;
    servers.kill(lost);
    std::fs::remove_dir_all(servers.data(lost)).expect("it was there");
    let addresses = others.iter().map(|number| servers.all[number].advertised()).collect::<Vec<_>>();
    servers.run(lost, &super::join_flag(&addresses));
    servers.until_all_vote().await;
    let after = eventually("it votes under another id", async || id(&servers).await).await;
    assert_ne!(after, before);
    assert!(eventually("a read", async || servers.all[&lost].knows("kept").await.ok()).await);
}
