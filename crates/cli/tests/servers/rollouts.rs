//! Leaders are killed again and again while versions of a service are rolled out: each new leader continues the deployment
//! from where it was, and never takes down more than its `update` block allows.

use std::time::Duration;

use berth_api::http::{Client, Target};
use serde_json::{Value, json};

use super::{
    e2e::{eventually, nodes::Nodes, servers::Servers},
    is_long, rounds,
};

const SECOND_NS: u64 = 1_000_000_000;
/// Allocations of the service.
const COUNT: usize = 6;
/// Of them are replaced at a time.
const PARALLEL: usize = 2;
/// Leaders that are killed while one version is rolled out.
const KILLS: u64 = 2;

/// The service, whose versions say different things.
fn web(version: u64) -> Value {
    json!({"ID": "web", "Type": "service", "TaskGroups": [{
        "Name": "group",
        "Count": COUNT,
        "Update": {
            "MaxParallel": PARALLEL,
            "HealthCheck": "task_states",
            "MinHealthyTime": SECOND_NS / 2,
            "HealthyDeadline": 50 * SECOND_NS,
            "ProgressDeadline": 55 * SECOND_NS,
        },
        "Tasks": [{
            "Name": "task",
            "Driver": "mock_driver",
            "Config": {"run_for": "1h", "stdout_string": version.to_string()},
            "Resources": {"CPU": 1, "MemoryMB": 10},
        }],
    }]})
}

async fn allocs(client: &Client) -> Option<Vec<Value>> {
    Some(client.get(&Target::new("/v1/job/web/allocations")).await.ok()?.value)
}

/// A server that runs.
fn client(servers: &Servers) -> &Client {
    &servers.all[&servers.running()[0]].client
}

/// Waits until the newest version's deployment is that of `version` and `enough` says so of it; meanwhile enough allocations
/// run at each moment.
async fn watch(servers: &Servers, version: u64, what: &str, enough: impl Fn(&Value) -> bool) {
    eventually(&format!("version {version} {what}"), async || {
        let allocs = allocs(client(servers)).await?;
        let running = allocs.iter().filter(|alloc| alloc["ClientStatus"] == "running").count();
        assert!(
            version == 0 || running >= COUNT - PARALLEL,
            "{running} run during version {version}: {allocs:?}"
        );
        let newest = client(servers).get::<Value>(&Target::new("/v1/job/web/deployment")).await.ok()?.value;
        assert_ne!(newest["Status"], "failed", "{newest}");
        (newest["JobVersion"] == version && enough(&newest)).then_some(())
    })
    .await;
}

fn is_successful(deployment: &Value) -> bool {
    deployment["Status"] == "successful"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_come_to_their_end_while_leaders_are_killed_again_and_again() {
    let mut servers = Servers::start(3).await;
    let _nodes = Nodes::one_each(&servers).await;
    let versions = if is_long() { rounds() as u64 / KILLS } else { 2 };
    for version in 0..=versions {
        eventually("the version is registered", async || {
            // A leader that is killed may have taken it: it is the same version then.
            let body = json!({ "Job": web(version) });
            client(&servers).put::<Value>(&Target::new("/v1/jobs"), &body).await.ok()
        })
        .await;
        for kill in 0..if version == 0 { 0 } else { KILLS } {
            watch(&servers, version, "has come further", |deployment| {
                deployment["TaskGroups"]["group"]["PlacedAllocs"].as_u64() > Some(kill)
            })
            .await;
            let leader = servers.leader(&[1, 2, 3]).await;
            servers.kill(leader);
            servers
                .leader(&[1, 2, 3].into_iter().filter(|number| *number != leader).collect::<Vec<_>>())
                .await;
            tokio::time::sleep(Duration::from_millis(version * 100)).await;
            servers.run(leader, &[]);
            servers.until_all_vote().await;
        }
        watch(&servers, version, "is rolled out", is_successful).await;
        let allocs = allocs(client(&servers)).await.expect("a list");
        let mut desired = allocs.iter().filter(|alloc| alloc["DesiredStatus"] == "run");
        assert!(
            desired.clone().count() == COUNT && desired.all(|alloc| alloc["JobVersion"] == version),
            "{allocs:?}"
        );
    }
    let all: Vec<Value> =
        client(&servers).get(&Target::new("/v1/job/web/deployments")).await.expect("a list").value;
    assert_eq!(all.len() as u64, versions + 1, "one deployment a version: {all:?}");
    assert!(all.iter().all(is_successful), "{all:?}");
}
