//! A cluster's state is saved and restored: what was saved continues, and later changes are gone.

mod e2e;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use berth_api::http::{AllocationStub, Client, JobRegistered, JobStub, NodeStub, Target};
use e2e::{Daemon, eventually, free_port};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Lives until its pid file is gone.
const LIVE: &str = r#"echo $$ >> "$1"; while [ -e "$1" ]; do sleep 0.1; done"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saved_state_takes_the_place_of_another_one_and_of_none() {
    let mut cluster = Cluster::start().await;
    cluster.run("kept").await;
    let (alloc, pid) = (cluster.alloc("kept").await, cluster.pid("kept"));
    let file = cluster.path("state.snap");
    let file = file.to_str().expect("plain");
    cluster.succeeds(&["operator", "snapshot", "save", file]);
    assert!(!cluster.berth(&["operator", "snapshot", "save", file]).status.success(), "it was overwritten");
    cluster.run("later").await;

    cluster.succeeds(&["operator", "snapshot", "restore", "-yes", file]);
    assert_eq!(cluster.jobs().await, ["kept"]);
    cluster.wait_until_running("kept").await;
    let later = cluster.pid("later");
    eventually("what is forgotten ends", async || (!is_alive(&later)).then_some(())).await;
    assert_eq!((cluster.alloc("kept").await, cluster.pid("kept")), (alloc.clone(), pid.clone()));

    let kept = cluster.client.clone().keeping_to_one_cluster();
    let jobs = async || kept.get::<Vec<JobStub>>(&Target::new("/v1/jobs")).await;
    jobs().await.expect("it is the first that it asks");
    cluster.agent.kill();
    cluster.server.kill();
    fs::remove_dir_all(cluster.path("server")).expect("it is there");
    cluster.server = start_server(&cluster.dir, &cluster.http, &cluster.agents);
    assert_eq!(cluster.jobs().await, [""; 0]);
    let refused = jobs().await.expect_err("another cluster has the address");
    assert!(refused.status() == Some(421) && refused.to_string().contains("belongs to cluster"), "{refused}");
    cluster.refuses_a_damaged(file);
    assert_eq!(cluster.jobs().await, [""; 0]);
    cluster.succeeds(&["operator", "snapshot", "restore", "-yes", file]);
    cluster.agent = start_agent(&cluster.dir, &cluster.agents);
    cluster.wait_until_running("kept").await;
    assert_eq!((cluster.alloc("kept").await, cluster.pid("kept")), (alloc, pid), "it was started again");
    cluster.run("another").await;
    for job in ["kept", "another"] {
        cluster.succeeds(&["job", "stop", "-yes", job]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stopped_after_the_snapshot_runs_again_and_can_be_stopped() {
    let cluster = Cluster::start().await;
    cluster.run("back").await;
    let (before, pid) = (cluster.alloc("back").await, cluster.pid("back"));
    let file = cluster.path("state.snap");
    let file = file.to_str().expect("plain");
    cluster.succeeds(&["operator", "snapshot", "save", file]);
    cluster.succeeds(&["job", "stop", "-yes", "back"]);
    eventually("its process ends", async || (!is_alive(&pid)).then_some(())).await;

    cluster.succeeds(&["operator", "snapshot", "restore", "-yes", file]);
    // The allocation of the snapshot has ended on its node: another one takes its place.
    let after = eventually("it runs again", async || {
        let allocs = cluster.allocs("back").await?;
        allocs.iter().find(|alloc| alloc.client_status == "running" && alloc.id != before).cloned()
    })
    .await;
    let status = async |id: &str| {
        let allocs = cluster.allocs("back").await?;
        Some(allocs.into_iter().find(|alloc| alloc.id == id)?.client_status)
    };
    assert!(matches!(status(&before).await.as_deref(), Some("complete" | "failed" | "lost")));
    cluster.succeeds(&["job", "stop", "-yes", "back"]);
    eventually("it has ended", async || {
        (status(&after.id).await.as_deref() == Some("complete")).then_some(())
    })
    .await;
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// A server and an agent, each in its own process with its own data.
struct Cluster {
    server: Daemon,
    agent: Daemon,
    client: Client,
    http: String,
    agents: String,
    dir: TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let http = format!("127.0.0.1:{}", free_port());
        let agents = format!("127.0.0.1:{}", free_port());
        let dir = tempfile::tempdir().expect("a directory");
        let (server, agent) = (start_server(&dir, &http, &agents), start_agent(&dir, &agents));
        let cluster = Self { server, agent, client: e2e::client(&http), http, agents, dir };
        eventually("the node is ready", async || {
            let nodes = cluster.client.get::<Vec<NodeStub>>(&Target::new("/v1/nodes")).await.ok()?;
            nodes.value.iter().any(|node| node.status == "ready").then_some(())
        })
        .await;
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn berth(&self, args: &[&str]) -> Output {
        let mut berth = e2e::berth(args);
        berth.env("BERTH_ADDR", format!("http://{}", self.http)).output().expect("it runs")
    }

    fn succeeds(&self, args: &[&str]) {
        let output = self.berth(args);
        assert!(output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn refuses_a_damaged(&self, file: &str) {
        let damaged = self.path("damaged.snap");
        let mut bytes = fs::read(file).expect("it is there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&damaged, bytes).expect("there is room");
        let refused =
            self.berth(&["operator", "snapshot", "restore", "-yes", damaged.to_str().expect("plain")]);
        assert_eq!(refused.status.code(), Some(1));
    }

    /// Registers a service and waits until it runs.
    async fn run(&self, name: &str) {
        let job = json!({"ID": name, "Name": name, "Type": "service", "TaskGroups": [{
            "Name": "group",
            "Tasks": [{
                "Name": "task",
                "Driver": "raw_exec",
                "Config": {"command": "/bin/sh", "args": ["-c", LIVE, "sh", self.path(&format!("{name}.pid"))]},
                "Resources": {"CPU": 1, "MemoryMB": 10},
            }],
        }]});
        let body: Value = json!({ "Job": job });
        self.client.put::<JobRegistered>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
        self.wait_until_running(name).await;
    }

    async fn wait_until_running(&self, name: &str) {
        eventually(&format!("{name} runs"), async || {
            let allocs = self.allocs(name).await?;
            (allocs.len() == 1
                && allocs[0].client_status == "running"
                && self.path(&format!("{name}.pid")).exists())
            .then_some(())
        })
        .await;
    }

    async fn allocs(&self, job: &str) -> Option<Vec<AllocationStub>> {
        let target = Target::new("/v1/job").part(job).part("allocations");
        Some(self.client.get::<Vec<AllocationStub>>(&target).await.ok()?.value)
    }

    async fn alloc(&self, job: &str) -> String {
        let allocs = self.allocs(job).await.expect("they are listed");
        assert_eq!(allocs.len(), 1, "{job} was placed again");
        allocs[0].id.clone()
    }

    /// Of all processes that the job ever had.
    fn pid(&self, job: &str) -> String {
        fs::read_to_string(self.path(&format!("{job}.pid"))).expect("it has started").trim().to_owned()
    }

    async fn jobs(&self) -> Vec<String> {
        let jobs = self.client.get::<Vec<JobStub>>(&Target::new("/v1/jobs")).await.expect("they are listed");
        jobs.value.into_iter().map(|job| job.id).collect()
    }
}

fn start_server(dir: &TempDir, http: &str, agents: &str) -> Daemon {
    let data = dir.path().join("server");
    let args =
        ["server", "--data-dir", data.to_str().expect("plain"), "--http-addr", http, "--agent-addr", agents];
    let mut server =
        Daemon::start(&[&args[..], &["--log-level", "warn"]].concat(), &dir.path().join("server.err"));
    server.ready_line();
    server
}

fn start_agent(dir: &TempDir, agents: &str) -> Daemon {
    let data = dir.path().join("agent");
    let args = ["agent", "--data-dir", data.to_str().expect("plain"), "--servers", agents, "--raw-exec"];
    Daemon::start(&args, &dir.path().join("agent.err"))
}
