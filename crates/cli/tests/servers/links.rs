//! Links that damage what they carry, or deliver it byte by byte: between servers no damage becomes a record, and agents that are
//! connected again have all their tasks.

use std::time::Duration;

use berth_api::http::{JobRegistered, Target};
use serde_json::{Value, json};

use super::{
    e2e::{
        nodes::Nodes,
        proxy::Links,
        servers::Servers,
        writers::{Writers, check_all_there},
    },
    is_long, rounds,
};

/// For how long a link is so.
const LASTS: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_damaged_between_servers_becomes_no_record() {
    let servers = Servers::start(3).await;
    let writers = Writers::start(&servers, &[1, 2, 3]);
    writers.more(20).await;
    for round in 0..if is_long() { 2 * rounds() } else { 2 } {
        let leader = servers.leader(&[1, 2, 3]).await;
        for other in servers.followers(&[1, 2, 3]).await {
            for (from, to) in [(leader, other), (other, leader)] {
                if round % 2 == 0 { servers.links.garble(from, to) } else { servers.links.trickle(from, to) }
            }
        }
        tokio::time::sleep(LASTS).await;
        servers.links.heal();
        writers.more(20).await;
    }
    let (acknowledged, _) = writers.stop().await;
    servers.until_all_vote().await;
    check_all_there(&servers, &acknowledged).await;
    let refused = |number: &u8| servers.log(*number).contains("the checksum of a frame does not match");
    assert!(servers.running().iter().any(refused), "nothing was damaged that anybody looked at");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_an_agent_whose_link_is_bad_go_on() {
    const AGENT: u8 = 1;
    const SERVER: u8 = 2;
    let servers = Servers::start(1).await;
    let (links, server) = (Links::default(), &servers.all[&1]);
    let between = links.proxy(SERVER, server.agent_addr()).await;
    let mut nodes = Nodes::none();
    nodes.start_at(1, &[between], &servers, &[]);
    nodes.until_ready(&server.client, 1).await;
    let register = async |id: &str| {
        let body = json!({"Job": nodes.counting(id)});
        server.client.put::<JobRegistered>(&Target::new("/v1/jobs"), &body).await.expect("acknowledged");
    };
    register("before").await;
    let before = nodes.until_running("before", 1).await;
    for round in 0..if is_long() { 2 * rounds() } else { 2 } {
        for (from, to) in [(AGENT, SERVER), (SERVER, AGENT)] {
            if round % 2 == 0 { links.garble(from, to) } else { links.trickle(from, to) }
        }
        let id = format!("meanwhile-{round}");
        register(&id).await;
        tokio::time::sleep(LASTS).await;
        links.heal();
        nodes.until_running(&id, 1).await;
        nodes.until_ready(&server.client, 1).await;
        assert_eq!(nodes.pids("before"), before, "a task was started again");
        // A node has not room for as many jobs as there may be rounds.
        let stop = Target::new(&format!("/v1/job/{id}"));
        server.client.delete::<Value>(&stop).await.expect("acknowledged");
    }
}
