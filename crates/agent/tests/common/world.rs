//! An agent between a server and its tasks.

use std::process::{Child, Command, Stdio};

use berth_api::agent::{GroupSpec, LogSpec, PortBinding, RestartSpec, RunAlloc, TaskSpec, WelcomeMode};
use prost::Message;
use tempfile::TempDir;

use crate::common::{agent_program, alloc_id};
use crate::server::{Run, Server};

/// An agent's process and its data.
pub struct World {
    pub data: TempDir,
    pub server: Server,
    pub agent: Child,
    /// What its agent is told besides where its data and its server are.
    args: Vec<String>,
}

impl World {
    pub fn new() -> Self {
        Self::with_data(tempfile::tempdir().expect("a directory"))
    }

    pub fn with_data(data: TempDir) -> Self {
        Self::start(data, Vec::new())
    }

    /// With this runtime for containers, whose images lie in this directory.
    pub fn with_runtime(runtime: &str, images: &std::path::Path) -> Self {
        let args = vec![runtime.to_owned(), images.to_string_lossy().into_owned()];
        Self::start(tempfile::tempdir().expect("a directory"), args)
    }

    fn start(data: TempDir, args: Vec<String>) -> Self {
        let mut server = Server::new();
        let agent = spawn(&data, &server, &args);
        let (hello, mode) = server.accept();
        assert_eq!((hello.epoch, mode), (1, WelcomeMode::Equal));
        Self { data, server, agent, args }
    }

    pub fn kill_agent(&mut self) {
        self.agent.kill().expect("killed");
        self.agent.wait().expect("an end");
        self.server.disconnect();
    }

    /// Starts another agent, which may not know of all wishes.
    pub fn respawn_agent(&mut self) {
        self.agent = spawn(&self.data, &self.server, &self.args);
        self.server.accept();
    }

    pub fn restart_agent(&mut self) -> WelcomeMode {
        self.agent = spawn(&self.data, &self.server, &self.args);
        let (hello, mode) = self.server.accept();
        assert_eq!(hello.desired_digest, self.server.desired_digest().to_bytes());
        mode
    }

    pub fn path(&self, number: u8, rest: &str) -> std::path::PathBuf {
        let id = berth_api::agent::AllocId(alloc_id(number));
        self.data.path().join(format!("allocs/{id}/{rest}"))
    }
}

impl Drop for World {
    /// Told to end, an agent takes its tasks along. One that was killed leaves theirs to the next one, which there is not.
    fn drop(&mut self) {
        let agent = nix::unistd::Pid::from_raw(self.agent.id() as i32);
        if let Ok(None) = self.agent.try_wait() {
            let _ = nix::sys::signal::kill(agent, nix::sys::signal::Signal::SIGTERM);
        }
        let has_ended = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            !matches!(self.agent.try_wait(), Ok(None))
        });
        if !has_ended {
            self.agent.kill().ok();
            self.agent.wait().ok();
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        for point in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
            if std::path::Path::new(point).starts_with(self.data.path()) {
                let _ = nix::mount::umount2(point, nix::mount::MntFlags::MNT_DETACH);
            }
        }
    }
}

fn spawn(data: &TempDir, server: &Server, args: &[String]) -> Child {
    let mut command = Command::new(agent_program());
    command.arg("run").arg(data.path()).arg(server.address()).args(args).stdin(Stdio::null());
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
        ports: vec![PortBinding { label: "http".into(), host_port: 20_000, to: 0 }],
        ..RunAlloc::default()
    };
    Run { alloc, group: group.encode_to_vec().into() }
}
