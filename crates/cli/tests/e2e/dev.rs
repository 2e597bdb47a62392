//! A server and an agent in one process, and the commands that talk to it.

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use berth_api::http::{Client, Target};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Daemon, berth, berth_at, client, eventually, http_address};

/// Where debug builds have them panic.
const FAILPOINTS: &str = "BERTH_FAILPOINTS";

/// What it keeps is below `home`.
pub struct Dev {
    daemon: Daemon,
    pub address: String,
    pub home: TempDir,
    /// What its commands and clients show; empty for none.
    pub token: String,
    /// Where it is a process of its own, and what it is started with.
    agent: Option<(Daemon, Vec<String>)>,
    /// With what another server takes the place of this one, where the agent is apart.
    again: Vec<String>,
}

impl Dev {
    /// With more settings.
    pub fn start(args: &[&str]) -> Self {
        let home = TempDir::new().expect("a directory");
        let mut command = berth(&["dev", "--http-addr", "127.0.0.1:0"]);
        command.args(args).env("TMPDIR", home.path());
        let mut daemon = Daemon::spawn(command, &home.path().join("stderr"));
        let address = format!("http://{}", http_address(&daemon.ready_line()));
        Self { daemon, address, home, token: String::new(), agent: None, again: Vec::new() }
    }

    /// The agent, which these settings are for, is another process than the server, and may be killed.
    pub fn apart(args: &[&str]) -> Self {
        Self::apart_with(&[], args)
    }

    /// The same, with an agent of another copy of the program.
    pub fn apart_from(program: &Path, args: &[&str]) -> Self {
        Self::apart_as(program, "", &[], args)
    }

    /// The same, with settings of the server, too.
    pub fn apart_with(of_server: &[&str], args: &[&str]) -> Self {
        Self::apart_failing("", of_server, args)
    }

    /// The same, and both panic at these points.
    pub fn apart_failing(failpoints: &str, of_server: &[&str], args: &[&str]) -> Self {
        Self::apart_as(Path::new(env!("CARGO_BIN_EXE_berth")), failpoints, of_server, args)
    }

    fn apart_as(program: &Path, failpoints: &str, of_server: &[&str], args: &[&str]) -> Self {
        let home = TempDir::new().expect("a directory");
        let dir = |name: &str| home.path().join(name).to_str().expect("plain").to_owned();
        let (any, data) = ("127.0.0.1:0", dir("server"));
        let server = ["server", "--http-addr", any, "--agent-addr", any, "--data-dir", &data];
        let mut command = berth(&[&server, of_server].concat());
        command.env(FAILPOINTS, failpoints);
        let mut daemon = Daemon::spawn(command, &home.path().join("stderr"));
        let ready = daemon.ready_line();
        let agents = ready.trim().rsplit(' ').next().expect("it names where agents connect");
        let fixed = ["agent", "--data-dir", &dir("agent"), "--servers", agents, "--raw-exec"];
        let args: Vec<String> = fixed.iter().chain(args).map(|&arg| arg.to_owned()).collect();
        let address = format!("http://{}", http_address(&ready));
        let again =
            ["server", "--http-addr", &http_address(&ready), "--agent-addr", agents, "--data-dir", &data];
        let again = again.iter().chain(of_server).map(|&arg| arg.to_owned()).collect();
        let agent = Some((Self::agent(program, failpoints, &args, &home), args));
        Self { daemon, address, home, token: String::new(), agent, again }
    }

    fn agent(program: &Path, failpoints: &str, args: &[String], home: &TempDir) -> Daemon {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = berth_at(program, &args);
        command.env(FAILPOINTS, failpoints);
        Daemon::spawn(command, &home.path().join("agent.stderr"))
    }

    /// SIGTERM to the server, and the wait for its end.
    pub fn stop_server(&mut self) {
        self.daemon.stop();
    }

    /// SIGKILL for the server.
    pub fn kill_server(&mut self) {
        self.daemon.kill();
    }

    /// Another one in its place, with what it has kept.
    pub fn start_server(&mut self) {
        self.try_start_server().unwrap_or_else(|log| panic!("{log}"));
    }

    /// The same, or its log where it ends by itself.
    pub fn try_start_server(&mut self) -> Result<(), String> {
        let (args, log) =
            (self.again.iter().map(String::as_str).collect::<Vec<_>>(), self.home.path().join("stderr"));
        let before = std::fs::read_to_string(&log).unwrap_or_default().len();
        self.daemon = Daemon::start(&args, &log);
        let ready = self.daemon.try_ready_line().map(drop);
        ready.ok_or_else(|| std::fs::read_to_string(&log).unwrap_or_default().split_off(before))
    }

    /// The process ids of the server and of its agent, which is apart.
    pub fn pids(&self) -> [u32; 2] {
        [self.daemon.pid(), self.agent.as_ref().expect("it is apart").0.pid()]
    }

    /// Whether the agent, which is apart, has ended by itself.
    pub fn agent_has_ended(&mut self) -> bool {
        self.agent.as_mut().expect("it is apart").0.has_ended()
    }

    /// SIGKILL for the agent.
    pub fn kill_agent(&mut self) {
        self.agent.as_mut().expect("it is apart").0.kill();
    }

    /// SIGTERM for the agent, and the wait for its end.
    pub fn stop_agent(&mut self) {
        self.agent.as_mut().expect("it is apart").0.stop();
    }

    /// Another one in its place.
    pub fn start_agent(&mut self) {
        self.start_agent_of(Path::new(env!("CARGO_BIN_EXE_berth")));
    }

    /// The same of another copy of the program.
    pub fn start_agent_of(&mut self, program: &Path) {
        let (agent, args) = self.agent.as_mut().expect("it is apart");
        *agent = Self::agent(program, "", args, &self.home);
    }

    /// The log of all runs of the agent, which is a process of its own.
    pub fn agent_log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("agent.stderr")).unwrap_or_default()
    }

    /// Where an agent that is apart keeps an allocation.
    pub fn alloc_dir(&self, alloc: &str) -> PathBuf {
        let dir = self.home.path().join("agent/agent/allocs").join(alloc);
        assert!(dir.exists(), "{}", dir.display());
        dir
    }

    /// Ends all that runs, as nothing else would once the agent is gone.
    fn end_all(&self) {
        let jobs = self.berth(&["job", "status", "-o", "name"]);
        for job in String::from_utf8_lossy(&jobs.stdout).lines() {
            self.berth(&["job", "stop", "-yes", job]);
        }
    }

    pub fn client(&self) -> Client {
        let client = client(&self.address);
        if self.token.is_empty() { client } else { client.with_token(&self.token) }
    }

    pub fn berth(&self, args: &[&str]) -> Output {
        let mut command = berth(args);
        command.env("BERTH_ADDR", &self.address).env("BERTH_TOKEN", &self.token);
        command.output().expect("it runs")
    }

    /// What it prints; it must succeed.
    pub fn stdout_of(&self, args: &[&str]) -> String {
        let output = self.berth(args);
        assert!(output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What it complains of; it must fail.
    pub fn complained(&self, args: &[&str]) -> String {
        let output = self.berth(args);
        assert!(!output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Registers a job.
    pub async fn register(&self, job: &Value) {
        let body = json!({ "Job": job });
        self.client().put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("registered");
    }

    /// The ids of a job's allocations, once so many are in that status, and no others are there.
    pub async fn allocs(&self, id: &str, count: usize, status: &str) -> Vec<String> {
        eventually(&format!("{count} allocations of {id} are {status}"), async || {
            let target = Target::new("/v1/job").part(id).part("allocations");
            let mut allocs: Vec<Value> = self.client().get(&target).await.ok()?.value;
            allocs.retain(|alloc| alloc["DesiredStatus"] == "run" || alloc["ClientStatus"] == "running");
            let all = allocs.iter().all(|alloc| alloc["ClientStatus"] == status);
            (all && allocs.len() == count)
                .then(|| allocs.iter().map(|alloc| alloc["ID"].as_str().unwrap().to_owned()).collect())
        })
        .await
    }

    /// The id of a job's allocation that has failed, once one has.
    pub async fn failed(&self, id: &str) -> String {
        eventually(&format!("an allocation of {id} fails"), async || {
            let target = Target::new("/v1/job").part(id).part("allocations");
            let allocs: Vec<Value> = self.client().get(&target).await.ok()?.value;
            let failed = allocs.iter().find(|alloc| alloc["ClientStatus"] == "failed")?;
            Some(failed["ID"].as_str()?.to_owned())
        })
        .await
    }

    /// Runs a job of shell scripts, by the names of their tasks, and waits until they run.
    pub async fn run_scripts(&self, id: &str, count: u32, tasks: &[(&str, &str)]) -> Vec<String> {
        let tasks: Vec<Value> = tasks.iter().map(|(name, script)| task(name, script)).collect();
        let group = json!({"Name": "g", "Count": count, "Tasks": tasks});
        self.register(&json!({"ID": id, "Name": id, "Type": "service", "TaskGroups": [group]})).await;
        self.allocs(id, count as usize, "running").await
    }

    /// Waits until a task has printed that; its agent may be away for a while.
    pub async fn until_printed(&self, alloc: &str, text: &str) {
        eventually(&format!("it prints {text:?}"), async || {
            String::from_utf8_lossy(&self.berth(&["alloc", "logs", alloc]).stdout)
                .contains(text)
                .then_some(())
        })
        .await;
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        if self.agent.is_some() {
            self.end_all();
        }
        if let Some((agent, _)) = &mut self.agent {
            agent.stop();
        }
        self.daemon.stop();
    }
}

/// A task that is a shell script.
pub fn task(name: &str, script: &str) -> Value {
    json!({
        "Name": name,
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", script]},
        "Resources": {"CPU": 1, "MemoryMB": 10},
    })
}
