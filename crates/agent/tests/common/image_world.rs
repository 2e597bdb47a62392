//! An agent that pulls images, and the requests and tasks that it is sent.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use berth_api::agent::{
    AllocStatus, ClientStatus, GroupSpec, LogSpec, PortBinding, RestartSpec, RunAlloc, TaskSpec,
};
use prost::Message;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{agent_program, alloc_id, end_agent, eventually, unmount_below};
use crate::images::{Image, Layer};
use crate::server::{Run, Server};

/// An agent that may ask one registry without TLS.
pub struct World {
    pub data: TempDir,
    pub server: Server,
    pub agent: Child,
}

impl World {
    pub fn new(registry: &str) -> Option<Self> {
        Self::with(&[("AGENT_REGISTRIES", registry)])
    }

    pub fn with(env: &[(&str, &str)]) -> Option<Self> {
        Self::with_images(env, Path::new("/nonexistent"))
    }

    pub fn with_images(env: &[(&str, &str)], images: &Path) -> Option<Self> {
        Self::at(tempfile::tempdir().expect("a directory"), env, images)
    }

    pub fn at(data: TempDir, env: &[(&str, &str)], images: &Path) -> Option<Self> {
        let missing = ["/usr/bin/crun", "/bin/busybox"].into_iter().find(|path| !Path::new(path).exists());
        if missing.is_some() || !rustix::process::geteuid().is_root() {
            eprintln!(
                "skipped: {}",
                missing.map_or("not root".to_owned(), |path| format!("{path} is missing"))
            );
            return None;
        }
        let mut server = Server::new();
        let mut command = Command::new(agent_program());
        command.arg("run").arg(data.path()).arg(server.address()).arg("/usr/bin/crun").arg(images);
        let agent = command.envs(env.iter().copied()).stdin(Stdio::null()).spawn().expect("an agent");
        server.accept();
        Some(Self { data, server, agent })
    }

    pub fn run(&mut self, number: u8, config: &Value) {
        self.run_with_ports(number, config, Vec::new());
    }

    pub fn run_with_ports(&mut self, number: u8, config: &Value, ports: Vec<PortBinding>) {
        let task = TaskSpec {
            name: "t".into(),
            driver: "docker".into(),
            config_json: config.to_string(),
            memory_mb: 64,
            kill_timeout_ms: 5_000,
            restart: RestartSpec { attempts: 0, interval_ms: 60_000, delay_ms: 10, mode: 0 },
            logs: LogSpec { max_files: 2, max_file_size_mb: 1, disabled: false },
            ..TaskSpec::default()
        };
        let group = GroupSpec { job_type: "batch".into(), tasks: vec![task], ..GroupSpec::default() };
        let alloc = RunAlloc { alloc_id: alloc_id(number).to_vec(), ports, ..RunAlloc::default() };
        self.server.desire(vec![Run { alloc, group: group.encode_to_vec().into() }], &[], &[], &[]);
    }

    /// Runs it to its end; its output.
    pub fn output(&mut self, number: u8, config: &Value) -> String {
        self.run(number, config);
        self.server.wait_for_status(number, ClientStatus::Complete);
        self.server.read_log(number, "t", 0, false).expect("a log")
    }

    /// Why it does not start.
    pub fn refusal(&mut self, number: u8, config: &Value) -> String {
        self.run(number, config);
        events(&self.server.wait_for_status(number, ClientStatus::Failed))
    }

    pub fn layers(&self) -> Vec<String> {
        let dir = self.data.path().join("images/layers");
        let names = dir.read_dir().expect("listed").flatten().map(|entry| entry.file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Nothing is left of what failed.
    pub fn assert_clean(&self) {
        eventually("the parts of layers to go", || self.layers().is_empty().then_some(()));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        end_agent(&mut self.agent);
        unmount_below(self.data.path());
    }
}

pub fn events(status: &AllocStatus) -> String {
    status.tasks[0].events.iter().map(|event| format!("{}\n", event.message)).collect()
}

pub fn simple(text: &str) -> Image {
    let config = json!({"Cmd": ["/bin/sh", "-c", format!("echo {text}")], "Env": ["PATH=/bin"]});
    Image::new(vec![Layer::busybox().finish()], config)
}
