//! `exec`: a command of the host in a container whose root is made of directories of the host, read-only.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde::Deserialize;

use super::bundle::Files;
use super::settings::{Network, Settings};
use super::{Runtime, bundle};
use crate::drivers::settings::{parse, setup};
use crate::drivers::{Base, Driver, Launch, TaskContext};
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
    fn into_container(self) -> Result<Settings, StartFailure> {
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
        Ok(Settings::of_exec(self.command, self.args, self.work_dir, self.cap_add, self.cap_drop))
    }
}

#[derive(Debug)]
pub(super) struct Exec {
    pub(super) runtime: Runtime,
    pub(super) host_ip: String,
    /// Directories of the host that its root has; those that the host has not are left out.
    pub(super) paths: Vec<PathBuf>,
}

impl Exec {
    fn settings(&self, task: &TaskContext<'_>) -> Result<Settings, StartFailure> {
        parse::<ExecSettings>(self.name(), &task.config_json, &[])?.into_container()
    }

    /// Where the operator lets jobs have the host's network, a group that asks for no other has it.
    fn network_of(&self, task: &TaskContext<'_>) -> Network {
        let mode = task.run.group.network.as_ref().map_or("", |network| network.mode.as_str());
        match mode {
            "none" => Network::Nothing,
            "bridge" => Network::Shared,
            _ if self.runtime.host_network => Network::Host,
            _ => Network::Shared,
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
    fn files(&self, task: &TaskContext<'_>, network: Network) -> Files {
        let mut files = Files::default();
        let mut bind = |source: &Path, target: &str, read_only| {
            // What the host has mounted below is not what the operator named.
            files.root.push(files.binds.add(BindSource::of(source), target, read_only));
        };
        for path in self.paths.iter().filter(|path| path.exists()) {
            bind(path, &path.to_string_lossy(), true);
        }
        if network != Network::Host {
            // The host's would name servers and names that are others' there.
            let own = task.place.keeper_dir(&task.spec.name).join(BUNDLE).join(OWN_FILES).join("etc");
            for name in ["hosts", "hostname", "resolv.conf"] {
                let target = format!("/etc/{name}");
                if Path::new(&target).exists() {
                    bind(&own.join(name), &target, true);
                }
            }
        }
        bind(&task.place.task_dir(&task.spec.name).join("tmp"), "/tmp", false);
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

impl Driver for Exec {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn attributes(&self) -> Vec<(String, String)> {
        vec![("driver.exec.runtime".into(), self.runtime.version.clone())]
    }

    fn base(&self) -> Base {
        Base::Container
    }

    fn kill_signal(&self) -> Signal {
        Signal::SIGINT
    }

    fn network(&self, task: &TaskContext<'_>) -> Result<NetworkNeed, StartFailure> {
        self.settings(task)?;
        Ok(match self.network_of(task) {
            Network::Shared | Network::Own => NetworkNeed::Shared,
            Network::Host => NetworkNeed::Host,
            Network::Nothing => NetworkNeed::Nothing,
        })
    }

    fn has_own_users(&self, _task: &TaskContext<'_>) -> Result<bool, StartFailure> {
        Ok(true)
    }

    fn launch(&self, task: &TaskContext<'_>) -> Result<Launch, StartFailure> {
        let settings = self.settings(task)?;
        let (image, network) = (ImageConfig::default(), self.network_of(task));
        let user = user(&task.user)?;
        let forwards = if network == Network::Shared && task.network.is_none() {
            self.forwards(task)?
        } else {
            Vec::new()
        };
        let files = self.files(task, network);
        let container = bundle::container(task, &self.runtime, &settings, &image, network, files)?;
        Ok(Launch::Kept(Run::Container(ContainerRun { user, forwards, ..container })))
    }
}
