//! An agent with containers of one runtime, whose whole image is busybox.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use berth_api::agent::{GroupSpec, LogSpec, PortBinding, RestartSpec, RunAlloc, TaskSpec};
use prost::Message;
use serde_json::json;
use tempfile::TempDir;

use crate::common::{agent_program, alloc_id, end_agent};
use crate::server::{Run, Server};

/// An agent with one runtime; none, with the reason printed, where containers cannot run.
pub struct World {
    /// The number of its first allocation.
    pub first: u8,
    /// Of each task.
    pub restarts: u32,
    /// The disk limit of each allocation; 0 for none.
    pub disk_mb: u32,
    pub data: TempDir,
    pub image: TempDir,
    pub server: Server,
    pub agent: Child,
}

impl World {
    pub fn new(runtime: &str) -> Option<Self> {
        let missing = [runtime, "/bin/busybox"].into_iter().find(|path| !Path::new(path).exists());
        let why = match missing {
            Some(path) => format!("{path} is missing"),
            None if !rustix::process::geteuid().is_root() => "not root".to_owned(),
            None => return Some(Self::start(runtime)),
        };
        eprintln!("skipped: {why}");
        None
    }

    fn start(runtime: &str) -> Self {
        let (data, image) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        for dir in ["root/bin", "root/tmp", "mounts/rw", "mounts/ro"] {
            fs::create_dir_all(image.path().join(dir)).expect("a directory");
        }
        fs::copy("/bin/busybox", image.path().join("root/bin/busybox")).expect("copied");
        std::os::unix::fs::symlink("busybox", image.path().join("root/bin/sh")).expect("linked");
        let mut server = Server::new();
        let mut command = Command::new(agent_program());
        command.arg("run").arg(data.path()).arg(server.address()).arg(runtime).arg(image.path());
        command.env("AGENT_MOUNTS", image.path().join("mounts"));
        let agent = command.stdin(Stdio::null()).spawn().expect("an agent");
        server.accept();
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let first = NEXT.fetch_add(10, Ordering::Relaxed);
        Self { first, restarts: 0, disk_mb: 0, data, image, server, agent }
    }

    pub fn archive(&self) -> String {
        let path = self.image.path().join("busybox.tar.gz");
        let file = flate2::write::GzEncoder::new(
            fs::File::create(&path).expect("a file"),
            flate2::Compression::fast(),
        );
        let mut archive = tar::Builder::new(file);
        archive.follow_symlinks(false);
        archive.append_dir_all(".", self.image.path().join("root")).expect("archived");
        archive.into_inner().and_then(flate2::write::GzEncoder::finish).expect("written");
        path.to_string_lossy().into_owned()
    }

    pub fn root(&self) -> String {
        self.image.path().join("root").to_string_lossy().into_owned()
    }

    pub fn run(&mut self, number: u8, config: serde_json::Value) {
        self.run_with_ports(number, config, Vec::new());
    }

    pub fn run_with_ports(&mut self, number: u8, config: serde_json::Value, ports: Vec<PortBinding>) {
        self.run_driver("docker", number, config, ports);
    }

    pub fn run_driver(
        &mut self,
        driver: &str,
        number: u8,
        config: serde_json::Value,
        ports: Vec<PortBinding>,
    ) {
        let task = TaskSpec {
            name: "t".into(),
            driver: driver.into(),
            config_json: config.to_string(),
            memory_mb: 32,
            cpu_mhz: 100,
            kill_timeout_ms: 500,
            restart: RestartSpec { attempts: self.restarts, interval_ms: 60_000, delay_ms: 10, mode: 0 },
            logs: LogSpec { max_files: 2, max_file_size_mb: 1, disabled: false },
            ..TaskSpec::default()
        };
        let group = GroupSpec {
            job_type: "batch".into(),
            tasks: vec![task],
            disk_mb: self.disk_mb,
            ..GroupSpec::default()
        };
        let alloc = RunAlloc { alloc_id: alloc_id(number).to_vec(), ports, ..RunAlloc::default() };
        let run = Run { alloc, group: group.encode_to_vec().into() };
        self.server.desire(vec![run], &[], &[], &[]);
    }

    pub fn shell(&mut self, number: u8, image: &str, script: &str) {
        let script = format!("busybox --install -s /bin; {script}");
        self.run(number, json!({"image": image, "command": "/bin/sh", "args": ["-c", script]}));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        end_agent(&mut self.agent);
        assert_eq!(left_on_host(&self.data), Vec::<String>::new());
    }
}

/// Mounts and cgroups that this test's containers left behind.
pub fn left_on_host(data: &TempDir) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let data = data.path().to_string_lossy().into_owned();
    mounts.lines().filter(|line| line.contains(&data)).map(str::to_owned).collect()
}
