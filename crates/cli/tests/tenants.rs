//! Two tenants on one node, as operators and users see it: a quota is reached, room comes free, the other's job goes first.

mod e2e;

use std::{path::Path, process::Output};

use berth_api::http::{Client, Evaluation, Target};
use e2e::{Daemon, berth, client, eventually, http_address};
use serde_json::{Value, json};

/// A `berth dev` of one node with room for 10,000 MiB.
struct Cluster {
    address: String,
    client: Client,
    _daemon: Daemon,
    _home: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let told = home.path().join("told");
        let mut command = berth(&["dev", "--http-addr", "127.0.0.1:0", "--containers=false"]);
        command.args(["--total-memory", "10000", "--total-cpu", "10000"]).env("TMPDIR", home.path());
        let mut daemon = Daemon::spawn(command, Path::new(&told));
        let address = http_address(&daemon.ready_line());
        let client = client(&address);
        Self { address, client, _daemon: daemon, _home: home }
    }

    fn berth(&self, args: &[&str]) -> Output {
        berth(args).env("BERTH_ADDR", &self.address).output().expect("it runs")
    }

    /// What a command prints; it must succeed.
    fn said(&self, args: &[&str]) -> String {
        let output = self.berth(args);
        assert!(output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Registers a job of one allocation that only pretends to run.
    async fn register(&self, namespace: &str, id: &str, memory_mb: u32) {
        let job = json!({"Job": {"ID": id, "Namespace": namespace, "Type": "batch", "TaskGroups": [{
            "Name": "g", "EphemeralDisk": {"SizeMB": 10},
            "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"},
                "Resources": {"CPU": 10, "MemoryMB": memory_mb}}]}]}});
        let _: Value = self.client.put(&Target::new("/v1/jobs"), &job).await.expect("it is registered").value;
    }

    async fn live(&self, namespace: &str, id: &str) -> usize {
        let target = Target::new("/v1/job").part(id).part("allocations").param("namespace", namespace);
        let allocs: Vec<Value> = self.client.get(&target).await.expect("the job is there").value;
        allocs.iter().filter(|alloc| alloc["ClientStatus"] == "running").count()
    }

    async fn until_running(&self, namespace: &str, id: &str) {
        let running = async || (self.live(namespace, id).await == 1).then_some(());
        eventually(&format!("{namespace}/{id} runs"), running).await;
    }

    /// The evaluation in which a job waits.
    async fn blocked(&self, namespace: &str, id: &str) -> Evaluation {
        let target = Target::new("/v1/job").part(id).part("evaluations").param("namespace", namespace);
        let look = async || {
            let evals: Vec<Evaluation> = self.client.get(&target).await.expect("the job is there").value;
            evals.into_iter().find(|eval| eval.status == "blocked")
        };
        eventually(&format!("{namespace}/{id} waits"), look).await
    }
}

#[tokio::test]
async fn freed_room_goes_to_the_tenant_that_holds_less() {
    let cluster = Cluster::start();
    cluster.said(&["quota", "apply", "small", "-memory", "6000"]);
    cluster.said(&["namespace", "apply", "bulk", "-quota", "small"]);
    cluster.said(&["namespace", "apply", "lab"]);
    for id in ["first", "second"] {
        cluster.register("bulk", id, 3000).await;
        cluster.until_running("bulk", id).await;
    }
    cluster.register("default", "filler", 3000).await;
    cluster.until_running("default", "filler").await;

    cluster.register("bulk", "third", 3000).await;
    let blocked = cluster.blocked("bulk", "third").await;
    assert_eq!(blocked.quota_limit_reached, "small");
    let metric = &blocked.failed_tg_allocs.expect("it says why")["g"];
    assert_eq!(metric.quota_exhausted, Some(vec!["memory (9000/6000)".to_owned()]));
    let status = cluster.said(&["quota", "status", "small"]);
    assert!(status.contains("6000 MiB"), "{status}");

    cluster.register("lab", "one", 3000).await;
    let blocked = cluster.blocked("lab", "one").await;
    assert_eq!(blocked.quota_limit_reached, "", "it waits for room on the node");

    cluster.said(&["job", "stop", "-detach", "-namespace", "bulk", "-yes", "first"]);
    cluster.until_running("lab", "one").await;
    assert_eq!(cluster.live("bulk", "third").await, 0, "it waited longer, and its tenant holds more");
    cluster.said(&["job", "stop", "-detach", "-yes", "filler"]);
    cluster.until_running("bulk", "third").await;

    let kept = cluster.berth(&["namespace", "delete", "-yes", "bulk"]);
    let told = String::from_utf8_lossy(&kept.stderr).into_owned();
    assert!(!kept.status.success() && told.contains("stop and purge its jobs first"), "{told}");
}
