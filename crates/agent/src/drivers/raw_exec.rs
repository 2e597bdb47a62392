//! `raw_exec`: a command with the agent's own rights and no isolation.

use serde::Deserialize;

use super::settings::{parse, setup};
use super::{Driver, Launch, TaskContext};
use crate::HOST_LOG_TARGET;
use crate::cgroups::{CgroupLimits, Cgroups};
use crate::keeper::plan::{CgroupSetting, ProcessRun, Run};
use crate::lifecycle::StartFailure;
use crate::network::NetworkNeed;

/// The driver's name.
pub(crate) const NAME: &str = "raw_exec";

/// Processes and threads at a time, as many as a container that asks for no other limit.
const PIDS_MAX: u64 = 4_096;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExecSettings {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    /// Relative to the task's directory.
    #[serde(default)]
    work_dir: String,
}

#[derive(Debug)]
pub(super) struct RawExecDriver {
    /// None where this host has none: then only what stays in a task's session is sure to end with it.
    cgroups: Option<Cgroups>,
    unlimited: Option<String>,
}

impl RawExecDriver {
    /// Says by name what the host lacks.
    pub(super) fn new() -> Self {
        let cgroups = Cgroups::find().inspect_err(|failure| {
            tracing::warn!(
                target: HOST_LOG_TARGET,
                %failure,
                "raw_exec: processes that leave their task's session outlive it if its keeper is killed"
            );
        });
        let unlimited = match &cgroups {
            Ok(cgroups) => without(&cgroups.controllers.lacking()),
            // The reason is in the warning above: this text is the same on all such nodes, which are distinguished by it.
            Err(_) => {
                Some("memory, processes and the share of cpu: this node makes no cgroups for it".to_owned())
            }
        };
        if let Some(unlimited) = &unlimited {
            tracing::warn!(target: HOST_LOG_TARGET, unlimited, "raw_exec: its tasks are not limited in this");
        }
        Self { cgroups: cgroups.ok(), unlimited }
    }
}

#[cfg(test)]
impl RawExecDriver {
    /// As on a host that has none.
    pub(super) fn without_cgroups() -> Self {
        Self { cgroups: None, unlimited: None }
    }
}

/// What is not limited where these cgroup controllers are missing.
fn without(missing: &[&'static str]) -> Option<String> {
    let limits = |name: &&str| match *name {
        "cpu" => "the share of cpu",
        "pids" => "processes",
        _ => "memory",
    };
    let unlimited: Vec<&str> = missing.iter().map(limits).collect();
    (!missing.is_empty()).then(|| {
        let controllers = missing.join(", ");
        format!("{}: this node lacks the cgroup controllers {controllers}", unlimited.join(", "))
    })
}

/// What a task asked for. It may use more of the processors than its part, where nobody wants them.
fn limits(task: &TaskContext<'_>) -> CgroupLimits {
    let bytes = |mb: u32| u64::from(mb) << 20;
    CgroupLimits {
        memory_bytes: bytes(task.spec.memory_mb),
        memory_max_bytes: bytes(task.spec.memory_max_mb),
        cpu_shares: task.share.cpu_mhz.into(),
        pids: PIDS_MAX,
    }
}
fn cgroup_settings(cgroups: &Cgroups, task: &TaskContext<'_>) -> Result<Vec<CgroupSetting>, StartFailure> {
    let (name, cores) = (task.start_name(), task.cores());
    let limits = cgroups.controllers.settings(&name, limits(task));
    let cpuset = cgroups.cpuset.as_ref().map_or(Ok(Vec::new()), |cpuset| cpuset.settings(&name, cores))?;
    Ok(limits.into_iter().chain(cpuset).collect())
}

impl Driver for RawExecDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn attributes(&self) -> Vec<(String, String)> {
        let version = self.cgroups.as_ref().map_or("none".into(), |cgroups| cgroups.version.to_string());
        let unlimited = self.unlimited.iter().map(|what| ("driver.raw_exec.unlimited".into(), what.clone()));
        std::iter::once(("driver.raw_exec.cgroups".into(), version)).chain(unlimited).collect()
    }

    fn unlimited(&self) -> Option<&str> {
        self.unlimited.as_deref()
    }

    fn network(&self, task: &TaskContext<'_>) -> Result<NetworkNeed, StartFailure> {
        match task.run.group.network.as_ref().map_or("", |network| network.mode.as_str()) {
            "bridge" => Ok(NetworkNeed::Shared),
            "none" => Err(setup(
                "find the group's network of mode \"none\": raw_exec isolates nothing, and its task would have that of this \
                 node: use the driver exec, or another mode",
            )),
            _ => Ok(NetworkNeed::Host),
        }
    }

    fn launch(&self, task: &TaskContext<'_>) -> Result<Launch, StartFailure> {
        let settings: RawExecSettings = parse(self.name(), &task.config_json, &[])?;
        if settings.command.is_empty() {
            return Err(setup("read the settings of raw_exec: command is empty"));
        }
        if !task.share.mounts.is_empty() {
            return Err(setup(
                "mount the volumes of raw_exec: its tasks see the files of the host as they are, so that nothing can be \
                 mounted for them: use another driver, or the volume's own path without volume_mount",
            ));
        }
        let dir = task.paths.task_dir(&task.spec.name).join(&settings.work_dir);
        Ok(Launch::Keeper(Run::Process(ProcessRun {
            program: settings.command,
            args: settings.args,
            env: task.env.clone().into_iter().collect(),
            dir: dir.to_string_lossy().into_owned(),
            user: task.user.clone(),
            cores: task.share.cores.clone(),
            limits: self.cgroups.as_ref().map_or(Ok(Vec::new()), |cgroups| cgroup_settings(cgroups, task))?,
            cgroup: self.cgroups.as_ref().map_or(String::new(), |cgroups| {
                cgroups.path(&task.start_name()).to_string_lossy().into_owned()
            }),
            network: task.network.as_ref().map_or(String::new(), |network| network.path.clone()),
            ..ProcessRun::default()
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_limited_is_named() {
        assert_eq!(without(&[]), None);
        let why = without(&["cpu", "memory"]).expect("something");
        assert_eq!(why, "the share of cpu, memory: this node lacks the cgroup controllers cpu, memory");
        let driver = RawExecDriver { cgroups: None, unlimited: Some(why.clone()) };
        let attributes = [("driver.raw_exec.cgroups", "none".to_owned()), ("driver.raw_exec.unlimited", why)];
        assert_eq!(driver.attributes(), attributes.map(|(name, value)| (name.to_owned(), value)));
    }
}
