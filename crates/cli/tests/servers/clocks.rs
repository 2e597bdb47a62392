//! Clocks of servers and agents that step by an hour: no node is declared lost, no task is restarted, and no acknowledged write is
//! lost.

use std::time::Duration;

use berth_api::http::{JobRegistered, NodeStub, Target};
use serde_json::json;

use super::{
    e2e::{
        nodes::Nodes,
        servers::Servers,
        writers::{Writers, check_all_there},
    },
    is_long, rounds,
};

const HOUR_S: i64 = 3_600;
/// For how long a clock is wrong: longer than a leader may be silent, and in the long run than a node may be.
const LASTS_S: [u64; 2] = [3, 60];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_steps_ends_nothing() {
    let servers = Servers::start(3).await;
    let nodes = Nodes::one_each(&servers).await;
    let client = &servers.all[&1].client;
    let body = json!({"Job": nodes.counting("counting")});
    client.put::<JobRegistered>(&Target::new("/v1/jobs"), &body).await.expect("acknowledged");
    let running = nodes.until_running("counting", 3).await;
    let lasts = Duration::from_secs(LASTS_S[usize::from(is_long())]);
    for round in 0..if is_long() { rounds() / 10 } else { 1 } {
        let leader = servers.leader(&[1, 2, 3]).await;
        for seconds in [HOUR_S, -HOUR_S, 0] {
            let writers = Writers::start_named(&servers, &[1, 2, 3], &format!("round-{round}-{seconds}"));
            writers.more(10).await;
            servers.all[&leader].clock.set_ahead_s(seconds);
            servers.all[&(leader % 3 + 1)].clock.set_ahead_s(-seconds);
            nodes.clock(leader).set_ahead_s(-seconds);
            nodes.clock(leader % 3 + 1).set_ahead_s(seconds);
            writers.more(10).await;
            let (acknowledged, failed) = writers.stop().await;
            assert_eq!(failed, 0, "requests failed");
            check_all_there(&servers, &acknowledged).await;
            tokio::time::sleep(lasts).await;
            let found = client.get::<Vec<NodeStub>>(&Target::new("/v1/nodes")).await.expect("listed").value;
            assert!(found.iter().all(|node| node.status == "ready"), "{seconds} s ahead: {found:?}");
        }
    }
    assert_eq!(nodes.pids("counting"), running, "a task was started again");
}
