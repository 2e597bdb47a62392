//! An agent between a server and its tasks.

use std::process::{Child, Command, Stdio};

use berth_api::agent::{
    GroupSpec, Hello, LogSpec, PortBinding, RestartSpec, RunAlloc, TaskSpec, WelcomeMode,
};
use prost::Message;
use tempfile::TempDir;

use crate::common::{agent_program, alloc_id, end_agent, unmount_below};
use crate::server::{Run, Server};

/// An agent's process and its data.
pub struct World {
    pub data: TempDir,
    pub server: Server,
    pub agent: Child,
    /// What its agent is told besides where its data and its server are.
    args: Vec<String>,
    /// The same, by variables.
    env: Vec<(&'static str, &'static str)>,
    /// Where those end that are started from now on, as if they were killed.
    pub ends_at: Option<String>,
}

impl World {
    pub fn new() -> Self {
        Self::with_data(tempfile::tempdir().expect("a directory"))
    }

    pub fn with_data(data: TempDir) -> Self {
        Self::start(data, Vec::new(), Vec::new())
    }

    /// With this runtime for containers, whose images lie in this directory.
    pub fn with_runtime(runtime: &str, images: &std::path::Path) -> Self {
        Self::with_settings(runtime, images, Vec::new())
    }

    /// The same with variables that its agent reads.
    pub fn with_settings(
        runtime: &str,
        images: &std::path::Path,
        env: Vec<(&'static str, &'static str)>,
    ) -> Self {
        let args = vec![runtime.to_owned(), images.to_string_lossy().into_owned()];
        Self::start(tempfile::tempdir().expect("a directory"), args, env)
    }

    fn start(data: TempDir, args: Vec<String>, env: Vec<(&'static str, &'static str)>) -> Self {
        let mut server = Server::new();
        let agent = spawn(&data, &server, (&args, &env, None));
        let (hello, mode) = server.accept();
        assert_eq!((hello.epoch, mode), (1, WelcomeMode::Equal));
        Self { data, server, agent, args, env, ends_at: None }
    }

    pub fn kill_agent(&mut self) {
        self.agent.kill().expect("killed");
        self.agent.wait().expect("an end");
        self.server.disconnect();
    }

    /// Starts another agent: what it says first, and how it was welcomed.
    pub fn start_agent(&mut self) -> (Hello, WelcomeMode) {
        self.agent = spawn(&self.data, &self.server, (&self.args, &self.env, self.ends_at.as_deref()));
        self.server.accept()
    }

    /// Starts another agent, which may not know of all desired.
    pub fn respawn_agent(&mut self) {
        self.start_agent();
    }

    pub fn restart_agent(&mut self) -> WelcomeMode {
        let (hello, mode) = self.start_agent();
        assert_eq!(hello.desired_digest, self.server.desired_digest().to_bytes());
        mode
    }

    pub fn path(&self, number: u8, rest: &str) -> std::path::PathBuf {
        let id = berth_api::agent::AllocId(alloc_id(number));
        self.data.path().join(format!("allocs/{id}/{rest}"))
    }
}

impl Drop for World {
    /// Told to end, an agent takes its tasks along. One that was killed leaves them to the next one, which is started for
    /// that alone.
    fn drop(&mut self) {
        if !matches!(self.agent.try_wait(), Ok(None)) {
            self.server.disconnect();
            self.agent = spawn(&self.data, &self.server, (&self.args, &self.env, self.ends_at.as_deref()));
            self.server.until_dialed();
        }
        end_agent(&mut self.agent);
        unmount_below(self.data.path());
    }
}

fn spawn(
    data: &TempDir,
    server: &Server,
    (args, env, ends_at): (&[String], &[(&'static str, &'static str)], Option<&str>),
) -> Child {
    let mut command = Command::new(agent_program());
    command.arg("run").arg(data.path()).arg(server.address()).args(args);
    command.envs(env.iter().copied()).envs(ends_at.map(|at| ("AGENT_ENDS_AT", at))).stdin(Stdio::null());
    command.spawn().expect("an agent")
}

pub fn task(name: &str, driver: &str, config: serde_json::Value) -> TaskSpec {
    TaskSpec {
        name: name.into(),
        driver: driver.into(),
        config_json: config.to_string(),
        restart: RestartSpec { attempts: 0, interval_ms: 1_000, delay_ms: 10, mode: 0 },
        kill_timeout_ms: 5_000,
        logs: LogSpec { max_files: 2, max_file_size_mb: 1, disabled: false },
        ..TaskSpec::default()
    }
}

pub fn shell(name: &str, script: &str) -> TaskSpec {
    task(name, "raw_exec", serde_json::json!({"command": "/bin/sh", "args": ["-c", script]}))
}

/// The host's ports are the same in all tests: none of them may listen on one.
pub fn run_without_ports(number: u8, tasks: Vec<TaskSpec>) -> Run {
    let Run { mut alloc, group } = run(number, tasks);
    alloc.ports.clear();
    Run { alloc, group }
}

pub fn run(number: u8, tasks: Vec<TaskSpec>) -> Run {
    let group = GroupSpec {
        job_type: "batch".into(),
        job_id: "j".into(),
        group: "g".into(),
        tasks,
        ..GroupSpec::default()
    };
    let alloc = RunAlloc {
        alloc_id: alloc_id(number).to_vec(),
        ports: vec![PortBinding { label: "http".into(), host_port: 20_000, to: 0, ..PortBinding::default() }],
        ..RunAlloc::default()
    };
    Run { alloc, group: group.encode_to_vec().into() }
}
