//! Two tenants on one node, as operators and users see it: one reaches its quota, capacity is freed, and the other's job goes first.

mod e2e;

use berth_api::http::Target;
use e2e::cluster::Cluster;
use serde_json::{Value, json};

/// Registers a job of one allocation that only pretends to run.
async fn register(cluster: &Cluster, namespace: &str, id: &str, memory_mb: u32) {
    let job = json!({"Job": {"ID": id, "Namespace": namespace, "Type": "batch", "TaskGroups": [{
        "Name": "g", "EphemeralDisk": {"SizeMB": 10},
        "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"},
            "Resources": {"CPU": 10, "MemoryMB": memory_mb}}]}]}});
    let _: Value = cluster.client.put(&Target::new("/v1/jobs"), &job).await.expect("it is registered").value;
}

#[tokio::test]
async fn freed_room_goes_to_the_tenant_that_holds_less() {
    let cluster = Cluster::dev(&["--total-memory", "10000", "--total-cpu", "10000"]);
    cluster.stdout_of(&["quota", "apply", "small", "-memory", "6000"]);
    cluster.stdout_of(&["namespace", "apply", "bulk", "-quota", "small"]);
    cluster.stdout_of(&["namespace", "apply", "lab"]);
    for id in ["first", "second"] {
        register(&cluster, "bulk", id, 3000).await;
        cluster.until_running("bulk", id).await;
    }
    register(&cluster, "default", "filler", 3000).await;
    cluster.until_running("default", "filler").await;

    register(&cluster, "bulk", "third", 3000).await;
    let blocked = cluster.blocked("bulk", "third").await;
    assert_eq!(blocked.quota_limit_reached, "small");
    let metric = &blocked.failed_tg_allocs.expect("it says why")["g"];
    assert_eq!(metric.quota_exhausted, Some(vec!["memory (9000/6000)".to_owned()]));
    let status = cluster.stdout_of(&["quota", "status", "small"]);
    assert!(status.contains("6000 MiB"), "{status}");

    register(&cluster, "lab", "one", 3000).await;
    let blocked = cluster.blocked("lab", "one").await;
    assert_eq!(blocked.quota_limit_reached, "", "it waits for room on the node");

    cluster.stdout_of(&["job", "stop", "-detach", "-namespace", "bulk", "-yes", "first"]);
    cluster.until_running("lab", "one").await;
    assert_eq!(cluster.running("bulk", "third").await, 0, "it waited longer, and its tenant holds more");
    cluster.stdout_of(&["job", "stop", "-detach", "-yes", "filler"]);
    cluster.until_running("bulk", "third").await;

    let kept = cluster.berth(&["namespace", "delete", "-yes", "bulk"]);
    let message = String::from_utf8_lossy(&kept.stderr).into_owned();
    assert!(!kept.status.success() && message.contains("stop and purge its jobs first"), "{message}");
}
