//! A cluster of real processes, as operators and users see it: a server with one node of its own, or with simulated ones.

use std::{path::PathBuf, process::Output};

use berth_api::http::{Client, Evaluation, NodeStub, Target};
use serde_json::Value;

use super::{Daemon, berth, client, eventually, home::Home, http_address};

/// The cluster; it ends when this is dropped.
pub struct Cluster {
    address: String,
    pub client: Client,
    _daemons: Vec<Daemon>,
    home: Home,
}

impl Cluster {
    /// `berth dev` with these further arguments: one node, on which raw_exec and mock_driver run.
    pub fn dev(args: &[&str]) -> Self {
        Self::with_containers(&[&["--containers=false"], args].concat())
    }

    /// The same with containers, where they can run.
    pub fn with_containers(args: &[&str]) -> Self {
        let home = Home::new();
        let mut command = berth(&["dev", "--http-addr", "127.0.0.1:0"]);
        command.args(args).env("TMPDIR", home.path());
        let mut daemon = Daemon::spawn(command, &home.path().join("stderr"));
        let address = http_address(&daemon.ready_line());
        Self { client: client(&address), address, _daemons: vec![daemon], home }
    }

    /// A server, and so many simulated nodes with these further arguments, once all of them are ready.
    pub async fn simulated(nodes: usize, args: &[&str]) -> Self {
        let home = Home::new();
        let (data, log) = (home.path().join("data"), home.path().join("stderr"));
        let data = data.to_str().expect("a plain path");
        let server =
            ["server", "--http-addr", "127.0.0.1:0", "--agent-addr", "127.0.0.1:0", "--data-dir", data];
        let mut server = Daemon::start(&server, &log);
        let ready = server.ready_line();
        let agents = ready.trim().rsplit(' ').next().expect("it names where agents connect");
        let count = nodes.to_string();
        let fleet = ["lab", "nodes", "--server", agents, "--count", &count];
        let fleet = Daemon::start(&[&fleet[..], args].concat(), &log);
        let address = http_address(&ready);
        let cluster = Self { client: client(&address), address, _daemons: vec![server, fleet], home };
        let are_ready = async || {
            let known: Vec<NodeStub> =
                cluster.client.get(&Target::new("/v1/nodes")).await.expect("a list").value;
            (known.iter().filter(|node| node.status == "ready").count() == nodes).then_some(())
        };
        eventually("all nodes are ready", are_ready).await;
        cluster
    }

    /// Where its server answers.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Runs a command that talks to it.
    pub fn berth(&self, args: &[&str]) -> Output {
        berth(args).env("BERTH_ADDR", &self.address).output().expect("it runs")
    }

    /// What a command prints; it must succeed.
    pub fn stdout_of(&self, args: &[&str]) -> String {
        let output = self.berth(args);
        assert!(output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Has placement checked by what the API shows.
    pub fn audit(&self) {
        let found = self.stdout_of(&["lab", "audit", "--target", &self.address]);
        assert!(found.contains("nothing is wrong"), "{found}");
    }

    /// A file of the test's own, which is gone once the test ends.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// What a command complains of, with its exit code; it must fail.
    pub fn refused(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.berth(args);
        assert!(!output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stdout));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// A job file of this text.
    pub fn job_file(&self, text: &str) -> String {
        let path = self.home.path().join("job.nomad.hcl");
        std::fs::write(&path, text).expect("it is written");
        path.to_str().expect("a plain path").to_owned()
    }

    /// The allocations of a job, old ones too.
    pub async fn allocs(&self, namespace: &str, id: &str) -> Vec<Value> {
        let target = Target::new("/v1/job").part(id).part("allocations").param("namespace", namespace);
        self.client.get(&target).await.expect("the job is there").value
    }

    /// How many of them run.
    pub async fn running(&self, namespace: &str, id: &str) -> usize {
        let allocs = self.allocs(namespace, id).await;
        allocs.iter().filter(|alloc| alloc["ClientStatus"] == "running").count()
    }

    /// Waits until exactly one runs.
    pub async fn until_running(&self, namespace: &str, id: &str) {
        let running = async || (self.running(namespace, id).await == 1).then_some(());
        eventually(&format!("{namespace}/{id} runs"), running).await;
    }

    /// The evaluations of a job.
    pub async fn evaluations(&self, namespace: &str, id: &str) -> Vec<Evaluation> {
        let target = Target::new("/v1/job").part(id).part("evaluations").param("namespace", namespace);
        self.client.get(&target).await.expect("the job is there").value
    }

    /// The evaluation in which a job waits.
    pub async fn blocked(&self, namespace: &str, id: &str) -> Evaluation {
        let look = async || {
            let evals = self.evaluations(namespace, id).await;
            evals.into_iter().find(|eval| eval.status == "blocked")
        };
        eventually(&format!("{namespace}/{id} waits"), look).await
    }
}
