//! `docker` and `container`: a container of an OCI runtime, crun or runc.

mod binds;
pub(crate) mod bundle;
mod capabilities;
mod device_files;
mod exec;
mod mounts;
mod one_or_list;
mod runtime;
mod seccomp;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_api::agent::TaskSpec;
use rustix::process::Signal;

use self::bundle::ExtraFiles;
pub use self::capabilities::extra_capability;
pub(super) use self::runtime::CheckedRuntime;
use self::settings::{ContainerSettings, IGNORED, NetworkMode};
use super::settings::{parse, setup};
use super::{Driver, ImageRequest, Launch, RootFs, TaskContext};
use crate::cgroups;
use crate::images::ImageConfig;
use crate::keeper::plan::{ContainerRun, Run};
use crate::lifecycle::StartFailure;
use crate::network::NetworkNeed;
use crate::signals;
use crate::volumes::AllowedDir;

/// The driver's names.
pub(super) const NAMES: [&str; 2] = ["docker", "container"];
/// The driver of isolated commands of the host.
pub(super) const EXEC: &str = "exec";

/// Where containers come from on this node.
#[derive(Debug, Clone, Default)]
pub struct ContainerConfig {
    /// The OCI runtime's path; empty to look for crun, then runc.
    pub runtime: String,
    /// The address of the host on which ports of containers are reached.
    pub host_ip: String,
    /// Whether jobs may give containers the host's network.
    pub host_network: bool,
    /// Whether jobs may give containers the host's users.
    pub host_users: bool,
    /// What jobs may add to the rights of containers; see [`extra_capability`].
    pub extra_capabilities: Vec<&'static str>,
    /// What the root of a command of the host has of the host; empty for what most need.
    pub exec_paths: Vec<PathBuf>,
    /// Directories of the host from which jobs may mount.
    pub mount_dirs: Vec<AllowedDir>,
}

impl ContainerConfig {
    /// What makes containers on this host.
    ///
    /// # Errors
    /// Why it can make none.
    pub(super) fn find_runtime(&self, checked: &CheckedRuntime) -> Result<Runtime, String> {
        let path = runtime::find(&self.runtime)?;
        if let Some(why) = cgroups::without_limits() {
            return Err(why);
        }
        let version = checked.version_of(&path)?;
        let (host_network, host_users) = (self.host_network, self.host_users);
        let extra_capabilities = self.extra_capabilities.clone();
        Ok(Runtime {
            path,
            version,
            limits_swap: limits_swap(),
            host_network,
            host_users,
            extra_capabilities,
        })
    }

    /// The driver under both its names.
    pub(super) fn drivers(&self, runtime: &Runtime) -> [Arc<dyn Driver>; 2] {
        NAMES.map(|name| {
            let (runtime, allowed) = (runtime.clone(), self.mount_dirs.clone());
            Arc::new(ContainerDriver { name, runtime, host_ip: self.host_ip.clone(), allowed })
                as Arc<dyn Driver>
        })
    }

    /// The driver of commands of the host.
    pub(super) fn exec_driver(&self, runtime: Runtime) -> Arc<dyn Driver> {
        let paths = match &self.exec_paths[..] {
            [] => exec::PATHS.map(PathBuf::from).into(),
            paths => paths.to_vec(),
        };
        Arc::new(exec::ExecDriver { runtime, host_ip: self.host_ip.clone(), paths })
    }
}

/// What makes containers here, and what it may give them.
#[derive(Debug, Clone)]
pub(super) struct Runtime {
    path: String,
    version: String,
    limits_swap: bool,
    host_network: bool,
    host_users: bool,
    extra_capabilities: Vec<&'static str>,
}

#[cfg(test)]
impl Runtime {
    /// One that is there in tests alone, of an operator who allows all that can be allowed.
    pub(super) fn pretended() -> Self {
        let (path, version) = ("/nowhere/crun".into(), "crun version 1.0".into());
        let extra_capabilities = capabilities::EXTRA.to_vec();
        Self { path, version, limits_swap: true, host_network: true, host_users: true, extra_capabilities }
    }
}

/// Whether the kernel keeps account of swap by cgroup: a runtime that is asked for what it does not do starts nothing.
fn limits_swap() -> bool {
    let first = Path::new("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists();
    let second = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    first || (second && Path::new("/proc/swaps").exists())
}

/// The version in what a runtime says of itself.
fn number(text: &str) -> Option<&str> {
    text.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

#[derive(Debug)]
struct ContainerDriver {
    name: &'static str,
    runtime: Runtime,
    host_ip: String,
    /// Where what jobs mount may lie.
    allowed: Vec<AllowedDir>,
}

impl Driver for ContainerDriver {
    fn name(&self) -> &'static str {
        self.name
    }

    fn attributes(&self) -> Vec<(String, String)> {
        let named = |what: &str| format!("driver.{}.{what}", self.name);
        let version = number(&self.runtime.version).map(|number| (named("version"), number.to_owned()));
        version.into_iter().chain([(named("runtime"), self.runtime.version.clone())]).collect()
    }

    fn root_fs(&self) -> RootFs {
        RootFs::Container
    }

    fn kill_signal(&self) -> Signal {
        Signal::TERM
    }

    fn image(&self, task: &TaskContext<'_>) -> Result<Option<ImageRequest>, StartFailure> {
        let settings: ContainerSettings = parse(self.name, &task.config_json, &IGNORED)?;
        settings.image_request().map(Some)
    }

    fn network(&self, task: &TaskContext<'_>) -> Result<NetworkNeed, StartFailure> {
        let settings: ContainerSettings = parse(self.name, &task.config_json, &IGNORED)?;
        Ok(match settings.network(task.run, self.runtime.host_network)? {
            NetworkMode::Host => NetworkNeed::Host,
            NetworkMode::Nothing => NetworkNeed::Nothing,
            NetworkMode::Shared => NetworkNeed::Shared,
            NetworkMode::Own => NetworkNeed::Own(settings.mappings(&task.run.ports, &self.host_ip)?),
        })
    }

    fn has_own_users(&self, task: &TaskContext<'_>) -> Result<bool, StartFailure> {
        let settings: ContainerSettings = parse(self.name, &task.config_json, &IGNORED)?;
        settings.has_own_users(self.runtime.host_users)
    }

    fn launch(&self, task: &TaskContext<'_>) -> Result<Launch, StartFailure> {
        let settings: ContainerSettings = parse(self.name, &task.config_json, &IGNORED)?;
        let image =
            task.image.as_ref().ok_or_else(|| setup("read the container's settings: there is no image"))?;
        let network = settings.network(task.run, self.runtime.host_network)?;
        let mounts = settings.mounts(task, &self.allowed)?;
        let files = ExtraFiles { root: Vec::new(), own: mounts.entries, binds: mounts.binds };
        let container = bundle::container(task, &self.runtime, &settings, &image.config, network, files)?;
        let forwards = match network {
            NetworkMode::Own if task.network.is_none() => {
                settings.mappings(&task.run.ports, &self.host_ip)?
            }
            _ => Vec::new(),
        };
        let user = if task.user.is_empty() { image.config.user.clone() } else { task.user.clone() };
        Ok(Launch::Keeper(Run::Container(ContainerRun {
            image_roots: image.lower_dirs.iter().map(|dir| dir.to_string_lossy().into_owned()).collect(),
            forwards,
            user,
            dirs: image.config.volumes.clone(),
            stop_signal: self.stop_signal(task.spec, &image.config)?,
            ..container
        })))
    }
}

impl ContainerDriver {
    /// The signal that the image wants to be ended by; 0 where nothing depends on it.
    fn stop_signal(&self, spec: &TaskSpec, image: &ImageConfig) -> Result<i32, StartFailure> {
        let signal = image.stop_signal.trim();
        if signal.is_empty() || !spec.kill_signal.is_empty() {
            return Ok(0);
        }
        signals::number(signal).ok_or_else(|| {
            setup(format!(
                "read the image's stop signal {signal:?}: there is no such signal; name one in the task's kill_signal"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_a_runtimes_output() {
        let outputs = ["crun version 1.8.1", "runc version 1.1.5+ds1", "runc"];
        assert_eq!(outputs.map(number), [Some("1.8.1"), Some("1.1.5+ds1"), None]);
    }
}
