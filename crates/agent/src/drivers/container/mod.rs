//! `docker` and `container`: a container of an OCI runtime, crun or runc.

mod bundle;
mod device_files;
mod seccomp;
mod settings;

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::Uid;

use self::settings::{IGNORED, Network, Settings};
use super::settings::{parse, setup};
use super::{Base, Driver, ImageRequest, Launch, TaskContext};
use crate::keeper::plan::{ContainerRun, Run};
use crate::lifecycle::StartFailure;

/// The driver's names.
pub(super) const NAMES: [&str; 2] = ["docker", "container"];

/// In order of preference.
const RUNTIMES: [&str; 2] = ["crun", "runc"];

const SEARCHED: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Where containers come from on this node.
#[derive(Debug, Clone, Default)]
pub struct ContainerConfig {
    /// The OCI runtime's path; empty to look for crun, then runc.
    pub runtime: String,
    /// The address of the host on which ports of containers are reached.
    pub host_ip: String,
    /// Whether jobs may give containers the host's network.
    pub host_network: bool,
}

/// Why this host cannot run containers; none when it can.
pub(super) fn why_not(config: &ContainerConfig) -> Option<String> {
    find_runtime(&config.runtime).err()
}

/// The driver under both its names; none when this host cannot run containers.
pub(super) fn drivers(config: &ContainerConfig) -> Vec<Box<dyn Driver>> {
    let Ok(runtime) = find_runtime(&config.runtime) else { return Vec::new() };
    let (version, limits_swap) = (version(&runtime), limits_swap());
    let driver = |name| Container {
        name,
        runtime: runtime.clone(),
        version: version.clone(),
        limits_swap,
        host_ip: config.host_ip.clone(),
        host_network: config.host_network,
    };
    NAMES.map(|name| Box::new(driver(name)) as Box<dyn Driver>).into()
}

/// The path of the OCI runtime, or why there is none that can be used.
fn find_runtime(configured: &str) -> Result<String, String> {
    if !Uid::effective().is_root() {
        return Err("the agent does not run as root, which making containers needs".into());
    }
    if !configured.is_empty() {
        let exists = Path::new(configured).is_file();
        return if exists {
            Ok(configured.into())
        } else {
            Err(format!("there is no OCI runtime at {configured}"))
        };
    }
    let mut paths = RUNTIMES.iter().flat_map(|name| SEARCHED.map(|dir| Path::new(dir).join(name)));
    let found = paths.find(|path| path.is_file()).map(|path| path.to_string_lossy().into_owned());
    found.ok_or_else(|| "there is no OCI runtime: install crun or runc".into())
}

/// Whether the kernel keeps account of swap by cgroup: a runtime that is asked for what it does not do starts nothing.
fn limits_swap() -> bool {
    let first = Path::new("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists();
    let second = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    first || (second && Path::new("/proc/swaps").exists())
}

/// As `crun version 1.8.1`.
fn version(runtime: &str) -> String {
    let output = Command::new(runtime).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[derive(Debug)]
struct Container {
    name: &'static str,
    runtime: String,
    version: String,
    limits_swap: bool,
    host_ip: String,
    host_network: bool,
}

impl Driver for Container {
    fn name(&self) -> &'static str {
        self.name
    }

    fn attributes(&self) -> Vec<(String, String)> {
        vec![(format!("driver.{}.runtime", self.name), self.version.clone())]
    }

    fn base(&self) -> Base {
        Base::Container
    }

    fn kill_signal(&self) -> Signal {
        Signal::SIGTERM
    }

    fn image(&self, task: &TaskContext<'_>) -> Result<Option<ImageRequest>, StartFailure> {
        let settings: Settings = parse(self.name, &task.config_json, &IGNORED)?;
        settings.image_request().map(Some)
    }

    fn launch(&self, task: &TaskContext<'_>) -> Result<Launch, StartFailure> {
        let settings: Settings = parse(self.name, &task.config_json, &IGNORED)?;
        let image =
            task.image.as_ref().ok_or_else(|| setup("read the container's settings: there is no image"))?;
        let network = settings.network(self.host_network)?;
        let config_json = bundle::config_json(task, &settings, &image.config, network, self.limits_swap)?;
        let forwards = match network {
            Network::Own => settings.forwards(&task.run.ports, &self.host_ip)?,
            Network::Host => Vec::new(),
        };
        let user = if task.user.is_empty() { image.config.user.clone() } else { task.user.clone() };
        Ok(Launch::Kept(Run::Container(ContainerRun {
            runtime: self.runtime.clone(),
            id: task.start_name(),
            image_roots: image.lower_dirs.iter().map(|dir| dir.to_string_lossy().into_owned()).collect(),
            config_json,
            forwards,
            user,
            dirs: image.config.volumes.clone(),
            stop_signal: stop_signal(&image.config.stop_signal),
        })))
    }
}

/// By name or number; 0 for none, and for one that is not known.
fn stop_signal(text: &str) -> i32 {
    let by_number = || text.parse::<i32>().ok().and_then(|number| Signal::try_from(number).ok());
    let full = if text.starts_with("SIG") { text.to_owned() } else { format!("SIG{text}") };
    full.parse::<Signal>().ok().or_else(by_number).map_or(0, |signal| signal as i32)
}
