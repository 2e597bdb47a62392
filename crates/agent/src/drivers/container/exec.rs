//! `exec`: a command of the host in a container whose root is made of directories of the host, read-only.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde::Deserialize;

use super::bundle::ExtraFiles;
use super::settings::{ContainerSettings, NetworkMode};
use super::{Runtime, bundle};
use crate::drivers::settings::{parse, setup};
use crate::drivers::{Driver, Launch, RootFs, TaskContext};
use crate::failure::Failure;
use crate::images::ImageConfig;
use crate::keeper::container::{BUNDLE, OWN_FILES};
use crate::keeper::plan::{BindSource, ContainerRun, Run};
use crate::lifecycle::StartFailure;
use crate::network::{Mapping, NetworkNeed};
use crate::users;

/// Whom it runs as when the job does not say.
const USER: &str = "nobody";

/// What its root has of the host when the operator does not say.
pub(super) const PATHS: [&str; 8] = ["/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr"];

/// What a job may say. All else is refused by name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ExecSettings {
    command: String,
    args: Vec<String>,
    work_dir: String,
    pid_mode: String,
    ipc_mode: String,
    cap_add: Vec<String>,
    cap_drop: Vec<String>,
}

impl ExecSettings {
    fn into_container(self) -> Result<ContainerSettings, StartFailure> {
        if self.command.is_empty() {
            return Err(setup("read the settings of exec: command is empty"));
        }
        for (name, mode) in [("pid_mode", &self.pid_mode), ("ipc_mode", &self.ipc_mode)] {
            if !matches!(mode.as_str(), "" | "private") {
                return Err(setup(format!(
                    "read the settings of exec: {name} {mode:?} would let it reach other processes of this node: \
                     leave it out, or say \"private\""
                )));
            }
        }
        Ok(ContainerSettings::of_exec(self.command, self.args, self.work_dir, self.cap_add, self.cap_drop))
    }
}

#[derive(Debug)]
pub(super) struct ExecDriver {
    pub(super) runtime: Runtime,
    pub(super) host_ip: String,
    /// Directories of the host that its root has; those that the host has not are left out.
    pub(super) paths: Vec<PathBuf>,
}

impl ExecDriver {
    fn settings(&self, task: &TaskContext<'_>) -> Result<ContainerSettings, StartFailure> {
        parse::<ExecSettings>(self.name(), &task.config_json, &[])?.into_container()
    }

    /// Where the operator lets jobs have the host's network, a group that asks for no other has it.
    fn network_of(&self, task: &TaskContext<'_>) -> NetworkMode {
        let mode = task.run.group.network.as_ref().map_or("", |network| network.mode.as_str());
        match mode {
            "none" => NetworkMode::Nothing,
            "bridge" => NetworkMode::Shared,
            _ if self.runtime.host_network => NetworkMode::Host,
            _ => NetworkMode::Shared,
        }
    }

    /// Where the node has no networks that tasks can share, all ports lead to the only task of a group.
    fn forwards(&self, task: &TaskContext<'_>) -> Result<Vec<Mapping>, StartFailure> {
        let is_alone = task.run.group.tasks.len() == 1;
        if !is_alone && !task.run.ports.is_empty() {
            return Err(setup(
                "find the task's network: this node has none that tasks of a group can share, so that the group's \
                 ports cannot lead to several of them",
            ));
        }
        Ok(Mapping::all(task.run, &self.host_ip)?)
    }

    /// Its root, as far as it is not made by the runtime.
    fn files(&self, task: &TaskContext<'_>, network: NetworkMode) -> ExtraFiles {
        let mut files = ExtraFiles::default();
        let mut bind = |source: &Path, target: &str, read_only| {
            // What the host has mounted below is not what the operator named.
            files.root.push(files.binds.add(BindSource::of(source), target, read_only));
        };
        for path in self.paths.iter().filter(|path| path.exists()) {
            bind(path, &path.to_string_lossy(), true);
        }
        if network != NetworkMode::Host {
            // The host's would name servers and names that are others' there.
            let own = task.paths.keeper_dir(&task.spec.name).join(BUNDLE).join(OWN_FILES).join("etc");
            for name in ["hosts", "hostname", "resolv.conf"] {
                let target = format!("/etc/{name}");
                if Path::new(&target).exists() {
                    bind(&own.join(name), &target, true);
                }
            }
        }
        bind(&task.paths.task_dir(&task.spec.name).join("tmp"), "/tmp", false);
        files
    }
}

/// As numbers: its root has no files yet when it is asked who that is.
fn user(name: &str) -> Result<String, StartFailure> {
    let user = users::find(if name.is_empty() { USER } else { name })?;
    if user.uid.is_root() {
        let doing = "find the user that the task runs as";
        return Err(setup(
            Failure::other(doing, "exec runs nothing as root: name another `user`").to_string(),
        ));
    }
    Ok(format!("{}:{}", user.uid, user.gid))
}

impl Driver for ExecDriver {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn attributes(&self) -> Vec<(String, String)> {
        vec![("driver.exec.runtime".into(), self.runtime.version.clone())]
    }

    fn root_fs(&self) -> RootFs {
        RootFs::Container
    }

    fn kill_signal(&self) -> Signal {
        Signal::INT
    }

    fn network(&self, task: &TaskContext<'_>) -> Result<NetworkNeed, StartFailure> {
        self.settings(task)?;
        Ok(match self.network_of(task) {
            NetworkMode::Shared | NetworkMode::Own => NetworkNeed::Shared,
            NetworkMode::Host => NetworkNeed::Host,
            NetworkMode::Nothing => NetworkNeed::Nothing,
        })
    }

    fn has_own_users(&self, _task: &TaskContext<'_>) -> Result<bool, StartFailure> {
        Ok(true)
    }

    fn launch(&self, task: &TaskContext<'_>) -> Result<Launch, StartFailure> {
        let settings = self.settings(task)?;
        let (image, network) = (ImageConfig::default(), self.network_of(task));
        let user = user(&task.user)?;
        let forwards = if network == NetworkMode::Shared && task.network.is_none() {
            self.forwards(task)?
        } else {
            Vec::new()
        };
        let files = self.files(task, network);
        let container = bundle::container(task, &self.runtime, &settings, &image, network, files)?;
        Ok(Launch::Keeper(Run::Container(ContainerRun { user, forwards, ..container })))
    }
}
