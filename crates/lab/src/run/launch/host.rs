//! The machine that containers run on: its OCI runtime, an image, an agent, and the memory of the agent's processes.

use std::{
    fs::{self, File},
    path::{self, Path, PathBuf},
    process::{Child, Command, Stdio},
};

use procfs::process::all_processes;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::run::{Run, RunError};

const BUSYBOX: &str = "/bin/busybox";
const RUNTIMES: [&str; 4] = ["/usr/bin/crun", "/usr/local/bin/crun", "/usr/bin/runc", "/usr/sbin/runc"];

/// Where everything of a run lies.
#[derive(Debug, Clone)]
pub(super) struct LaunchHost {
    pub runtime: PathBuf,
    dir: PathBuf,
}

impl LaunchHost {
    /// Finds what is needed, and makes an image of busybox.
    pub fn find(run: &Run<'_>) -> Result<Self, RunError> {
        let cannot = |reason: &str| RunError::Start { what: "containers".into(), reason: reason.into() };
        if run.options.target.is_some() {
            return Err(cannot("they run on this machine: leave --target out"));
        }
        if !geteuid().is_root() {
            return Err(cannot("only root can"));
        }
        let runtime = RUNTIMES.iter().map(PathBuf::from).find(|path| path.is_file());
        let runtime = runtime.ok_or_else(|| cannot("there is no OCI runtime: install crun or runc"))?;
        let data = run.options.data.clone().unwrap_or_else(|| run.options.out.join("data"));
        // The agent knows images by whole paths.
        let dir = data.join(format!("launch-{}", run.number));
        let dir = path::absolute(&dir).map_err(|source| RunError::io("find", &dir, source))?;
        let host = Self { runtime, dir };
        host.remove();
        let bin = host.root().join("bin");
        fs::create_dir_all(&bin).map_err(|source| RunError::io("create", &bin, source))?;
        let copied = fs::copy(BUSYBOX, bin.join("busybox"));
        copied.map_err(|source| RunError::io("copy", Path::new(BUSYBOX), source))?;
        Ok(host)
    }

    /// Everything of the run goes.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    /// The image as the agent sees it.
    pub fn image(&self) -> String {
        self.root().display().to_string()
    }

    /// The root of all containers, which none of them writes to.
    pub fn root(&self) -> PathBuf {
        self.dir.join("images/busybox")
    }

    /// Where bundles of the runtime alone go.
    pub fn bundles(&self) -> PathBuf {
        self.dir.join("bundles")
    }

    fn agent_dir(&self) -> PathBuf {
        self.dir.join("agent")
    }

    /// The configuration of one of the agent's containers.
    pub fn bundle(&self) -> Result<Value, RunError> {
        let allocs = self.agent_dir().join("agent/allocs");
        let entries = fs::read_dir(&allocs).map_err(|source| RunError::io("read", &allocs, source))?;
        let mut configs = entries.flatten().map(|alloc| alloc.path().join("keepers/t/bundle/config.json"));
        let text = configs.find_map(|config| fs::read(config).ok());
        let config = text.and_then(|text| serde_json::from_slice(&text).ok());
        config.ok_or_else(|| RunError::Incomplete("no container of the agent has a bundle".into()))
    }

    /// KiB of memory that the agent and its keepers hold, of what is shared their part.
    pub fn pss_kib(&self, agent: u32) -> u64 {
        let dir = self.agent_dir().display().to_string();
        let processes = all_processes().into_iter().flatten().flatten();
        let ours = processes.filter(|process| {
            let is_keeper = || {
                let line = process.cmdline().unwrap_or_default();
                line.iter().any(|word| word == "keeper") && line.iter().any(|word| word.contains(&dir))
            };
            u32::try_from(process.pid()).is_ok_and(|pid| pid == agent) || is_keeper()
        });
        let held = ours.filter_map(|process| {
            let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid())).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            line.trim().trim_end_matches(" kB").parse::<u64>().ok()
        });
        held.sum()
    }
}

/// Seconds since the machine was started, in hundredths.
pub(super) fn uptime_s() -> Result<f64, RunError> {
    let path = Path::new("/proc/uptime");
    let text = fs::read_to_string(path).map_err(|source| RunError::io("read", path, source))?;
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| RunError::Incomplete(format!("{} makes no sense", path.display())))
}

/// `berth agent`. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct AgentProcess(Child);

impl AgentProcess {
    pub fn start(run: &Run<'_>, host: &LaunchHost, servers: &str) -> Result<Self, RunError> {
        let log_path = run.options.out.join("processes/agent.log");
        let log_file = File::create(&log_path).map_err(|source| RunError::io("create", &log_path, source))?;
        let (data, images) = (host.agent_dir(), host.root());
        let mut command = Command::new(&run.options.berth);
        command.args(["agent", "--servers", servers, "--bridge=false", "--log-level", "warn"]);
        command.arg("--data-dir").arg(data).arg("--image-dirs").arg(images);
        command.arg("--container-runtime").arg(&host.runtime);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file).spawn();
        child
            .map(Self)
            .map_err(|error| RunError::Start { what: "the agent".into(), reason: error.to_string() })
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
