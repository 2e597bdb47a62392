//! Real agents that are nodes of several servers, and a job whose tasks report their process ids.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use berth_api::http::{AllocationStub, Client, NodeStub, Target};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Daemon, berth_at, eventually, home::Home, servers::Servers, stepped_clock::SteppedClock};

/// Writes its process id, and counts until that file is gone: it outlives no test.
const COUNT: &str = r#"file="$1-$NOMAD_ALLOC_ID"; echo $$ >> "$file"; n=0; while [ -e "$file" ]; do n=$((n + 1)); echo $n; sleep 0.2; done"#;

/// The agents, by the numbers that tests give them. They end when this is dropped, and so do their tasks.
pub struct Nodes {
    agents: BTreeMap<u8, Daemon>,
    /// By which their processes go.
    clocks: BTreeMap<u8, SteppedClock>,
    home: Home,
}

impl Nodes {
    /// None yet.
    pub fn none() -> Self {
        let home = Home::new();
        Self { agents: BTreeMap::new(), clocks: BTreeMap::new(), home }
    }

    /// One agent on each server, which knows no other: number 1 on server 1, and so on.
    pub async fn one_each(servers: &Servers) -> Self {
        let mut nodes = Self::none();
        for number in servers.running() {
            nodes.start(number, &[number], servers);
        }
        nodes.until_ready(&servers.all[&1].client, servers.running().len()).await;
        nodes
    }

    /// Starts an agent that knows these servers, or starts it again.
    pub fn start(&mut self, number: u8, known: &[u8], servers: &Servers) {
        self.start_with(number, known, servers, &[]);
    }

    /// The same with these further arguments.
    pub fn start_with(&mut self, number: u8, known: &[u8], servers: &Servers, more: &[&str]) {
        let known: Vec<SocketAddr> = known.iter().map(|known| servers.all[known].agent_addr()).collect();
        self.start_at(number, &known, servers, more);
    }

    /// The same, where servers are reached at other addresses than their own.
    pub fn start_at(&mut self, number: u8, known: &[SocketAddr], servers: &Servers, more: &[&str]) {
        let addresses: Vec<String> = known.iter().map(SocketAddr::to_string).collect();
        let (data, name) = (self.path(&format!("node-{number}")), format!("n{number}"));
        let data = data.to_str().expect("a plain path");
        let args = ["agent", "--data-dir", data, "--servers", &addresses.join(","), "--node-name", &name];
        let args = [&args[..], &["--raw-exec", "--mock-driver", "--containers=false"], more].concat();
        let log = self.path(&format!("stderr-node-{number}"));
        let clock = SteppedClock::new(&self.path(&format!("clock-node-{number}")));
        let mut command = berth_at(&servers.program, &args);
        clock.put_into(&mut command);
        self.clocks.insert(number, clock);
        self.agents.insert(number, Daemon::spawn(command, &log));
    }

    /// The clock of an agent.
    pub fn clock(&self, number: u8) -> &SteppedClock {
        &self.clocks[&number]
    }

    /// An agent that runs.
    pub fn agent(&mut self, number: u8) -> &mut Daemon {
        self.agents.get_mut(&number).expect("it runs")
    }

    /// Kills an agent; its tasks go on.
    pub fn kill(&mut self, number: u8) {
        self.agents.remove(&number).expect("it runs").kill();
    }

    /// Sends a signal to an agent.
    pub fn signal(&self, number: u8, signal: Signal) {
        self.agents[&number].signal(signal);
    }

    /// The log of an agent.
    pub fn log(&self, number: u8) -> String {
        std::fs::read_to_string(self.path(&format!("stderr-node-{number}"))).unwrap_or_default()
    }

    /// A file of the test's own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Waits until so many nodes are ready, as a server shows them.
    pub async fn until_ready(&self, client: &Client, count: usize) {
        eventually(&format!("{count} nodes are ready"), async || {
            let nodes = client.get::<Vec<NodeStub>>(&Target::new("/v1/nodes")).await.ok()?.value;
            (nodes.iter().filter(|node| node.status == "ready").count() == count).then_some(())
        })
        .await;
    }

    /// A job that counts, on each node.
    pub fn counting(&self, id: &str) -> Value {
        json!({"ID": id, "Name": id, "Type": "system", "TaskGroups": [{
            "Name": "group",
            "Tasks": [{
                "Name": "task",
                "Driver": "raw_exec",
                "Config": {"command": "/bin/sh", "args": ["-c", COUNT, "sh", self.path(id)]},
                "Resources": {"CPU": 1, "MemoryMB": 10},
            }],
        }]})
    }

    /// The process ids of a job's tasks that were ever started, by allocation.
    pub fn pids(&self, id: &str) -> BTreeMap<String, Vec<String>> {
        let files = std::fs::read_dir(self.home.path()).expect("a directory");
        let prefix = format!("{id}-");
        let of = |file: std::io::Result<std::fs::DirEntry>| {
            let name = file.ok()?.file_name().into_string().ok()?;
            let alloc = name.strip_prefix(&prefix)?.to_owned();
            let text = std::fs::read_to_string(self.path(&name)).ok()?;
            Some((alloc, text.lines().map(str::to_owned).collect()))
        };
        files.filter_map(of).collect()
    }

    /// Waits until so many tasks of a job run, and returns their process ids.
    pub async fn until_running(&self, id: &str, count: usize) -> BTreeMap<String, Vec<String>> {
        eventually(&format!("{count} tasks of {id} run"), async || {
            let pids = self.pids(id);
            (pids.len() == count && pids.values().all(|pids| !pids.is_empty())).then_some(pids)
        })
        .await
    }
}

/// Whether a process is there.
pub fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// The allocations of a job, as a server shows them.
pub async fn allocs(client: &Client, id: &str) -> Option<Vec<AllocationStub>> {
    Some(client.get(&Target::new("/v1/job").part(id).part("allocations")).await.ok()?.value)
}
