//! Periodic jobs while leaders are killed and while there is no leader.

use std::time::Duration;

use berth_api::http::{Client, Target};
use serde_json::{Value, json};

use super::e2e::{
    eventually,
    nodes::{Nodes, allocs},
    servers::Servers,
};

/// Seconds between two runs.
const EVERY_S: u64 = 2;

async fn register(client: &Client) {
    let job = json!({
        "ID": "often",
        "Type": "batch",
        "Periodic": {"Enabled": true, "Specs": [format!("*/{EVERY_S} * * * * * *")], "SpecType": "cron"},
        "TaskGroups": [{"Name": "g", "Tasks": [{
            "Name": "t", "Driver": "mock_driver", "Config": {"run_for": "100ms"},
            "Resources": {"CPU": 1, "MemoryMB": 10},
        }]}],
    });
    let body = json!({ "Job": job });
    client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
}

/// The seconds for which there are runs; none while nobody answers.
async fn runs(client: &Client) -> Option<Vec<u64>> {
    let runs = Target::new("/v1/jobs").param("prefix", "often/periodic-");
    let jobs: Vec<Value> = client.get(&runs).await.ok()?.value;
    let second = |job: &Value| job["ID"].as_str()?.strip_prefix("often/periodic-")?.parse().ok();
    let mut seconds: Vec<u64> = jobs.iter().filter_map(second).collect();
    seconds.sort_unstable();
    Some(seconds)
}

/// Waits until there are so many runs after this second: the first of them.
async fn until_runs_after(client: &Client, second: u64, count: usize) -> Vec<u64> {
    eventually(&format!("it runs {count} times after {second}"), async || {
        let after: Vec<u64> =
            runs(client).await?.into_iter().filter(|run| *run > second).take(count).collect();
        (after.len() == count).then_some(after)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_at_its_times_and_never_twice_whoever_leads() {
    let mut servers = Servers::start(3).await;
    let _nodes = Nodes::one_each(&servers).await;
    let client = servers.all[&1].client.clone();
    register(&client).await;
    let runs_at_first = until_runs_after(&client, 0, 2).await;
    assert!(
        runs_at_first.iter().all(|second| second % EVERY_S == 0),
        "each at its own time: {runs_at_first:?}"
    );
    let mut last = runs_at_first[1];
    for _ in 0..2 {
        let leader = servers.leader(&[1, 2, 3]).await;
        let others = servers.followers(&[1, 2, 3]).await;
        servers.kill(leader);
        // The next leader makes up for what was due meanwhile, and goes on.
        last = until_runs_after(&servers.all[&others[0]].client, last, 4).await[3];
        servers.run(leader, &[]);
        servers.until_all_vote().await;
    }

    // Nobody is there several times when it is due: one run makes up for all of them.
    let last = *runs(&client).await.expect("a list").last().expect("some");
    [1, 2, 3].into_iter().for_each(|number| servers.kill(number));
    tokio::time::sleep(Duration::from_secs(3 * EVERY_S)).await;
    for number in [1, 2, 3] {
        servers.run(number, &[]);
    }
    servers.until_all_vote().await;
    let after = until_runs_after(&client, last, 4).await;
    let missed =
        [last].iter().chain(&after).zip(&after).filter(|(before, next)| *next - *before > EVERY_S).count();
    assert!(missed > 0, "times that nobody was there for were made up for one by one: {last} {after:?}");

    // Each was registered once, and did its work once.
    for second in runs(&client).await.expect("a list") {
        let id = format!("often/periodic-{second}");
        let target = Target::new("/v1/job").part(&id);
        let job: Value = client.get(&target).await.expect("it is there").value;
        assert_eq!(job["Version"], 0, "{id}");
        eventually(&format!("{id} has run"), async || {
            let allocs = allocs(&client, &id).await?;
            assert!(allocs.len() <= 1, "{id} has run {} times", allocs.len());
            (allocs.first()?.client_status == "complete").then_some(())
        })
        .await;
    }
}
