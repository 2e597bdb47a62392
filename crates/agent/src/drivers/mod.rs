//! How a task is run: one file per driver, and one list that names them all.
//!
//! A driver only reads settings and says what is to be launched. Starting, watching and killing are the same for all:
//! a [`keeper`](crate::keeper) does it, or a timer for tasks that are only pretended.

pub(crate) mod container;
#[cfg(test)]
mod example;
pub mod mock;
mod raw_exec;
pub(crate) mod settings;
#[cfg(test)]
mod submission;
mod task_share;

use std::collections::BTreeMap;
use std::sync::Arc;

use container::CheckedRuntime;
pub use container::{ContainerConfig, extra_capability};
pub(crate) use raw_exec::NAME as RAW_EXEC;
pub use task_share::TaskShare;

use berth_api::agent::TaskSpec;
use rustix::process::Signal;

use crate::images::Image;
pub use crate::images::ImageRequest;
use crate::keeper::plan::Run;
use crate::lifecycle::{RunSpec, StartFailure, TaskRef};
use crate::network::{NetworkNeed, TaskNetwork};
use crate::paths::AllocPaths;
use crate::secrets::Secrets;

/// A driver: it knows how to launch one kind of task.
pub trait Driver: Send + Sync {
    /// Its name in job files.
    fn name(&self) -> &'static str;

    /// Attributes of the node that it adds, as `driver.NAME.version`.
    fn attributes(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The root file system of its tasks.
    fn root_fs(&self) -> RootFs {
        RootFs::Host
    }

    /// The signal that asks a task to end, if the task names none.
    fn kill_signal(&self) -> Signal {
        Signal::INT
    }

    /// The image that must be on the node before a task can be launched; none for tasks without one.
    ///
    /// # Errors
    /// When the task's settings are wrong.
    fn image(&self, _task: &TaskContext<'_>) -> Result<Option<ImageRequest>, StartFailure> {
        Ok(None)
    }

    /// The network that it needs, where this node has networks for allocations.
    ///
    /// # Errors
    /// When the task's settings are wrong.
    fn network(&self, task: &TaskContext<'_>) -> Result<NetworkNeed, StartFailure> {
        Ok(if task.run.is_bridged() { NetworkNeed::Shared } else { NetworkNeed::Host })
    }

    /// Whether the users of a task are not to be the host's, where this node can do that.
    ///
    /// # Errors
    /// When the task's settings are wrong.
    fn has_own_users(&self, _task: &TaskContext<'_>) -> Result<bool, StartFailure> {
        Ok(false)
    }

    /// The limits that are not enforced on this node, and why; none where all are.
    fn unlimited(&self) -> Option<&str> {
        None
    }

    /// What has to be launched for a task.
    ///
    /// # Errors
    /// When the task's settings are wrong, or the host lacks something.
    fn launch(&self, task: &TaskContext<'_>) -> Result<Launch, StartFailure>;
}

/// The root file system of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootFs {
    /// The host's: the task sees the host's files.
    Host,
    /// A root directory of its own.
    Container,
}

/// What a driver is given of a task. All `${...}` have been replaced.
#[derive(Debug)]
pub struct TaskContext<'a> {
    /// The task as the job describes it.
    pub spec: &'a TaskSpec,
    /// The allocation's desired state, with its ports.
    pub run: &'a RunSpec,
    /// Which start of it this is.
    pub attempt: u32,
    /// Where its files are.
    pub paths: &'a AllocPaths,
    /// The task's `config` block, as JSON.
    pub config_json: String,
    /// The user that it is to run as; empty for the driver's default.
    pub user: String,
    /// The name that its group's network gives its host; empty for one of its own.
    pub hostname: String,
    /// The task's environment, by the names of the variables.
    pub env: BTreeMap<String, String>,
    /// Its share of the node.
    pub share: TaskShare,
    /// What it is given of variables.
    pub(crate) secrets: Arc<Secrets>,
    /// Files in its directory of secrets that templates gave it, relative to that.
    pub(crate) secret_files: Vec<String>,
    /// Its image, once that is on the node.
    pub(crate) image: Option<Arc<Image>>,
    /// The network that it needs, made; none where it needs none, or this node has none.
    pub(crate) network: Option<TaskNetwork>,
    /// The host's user id of its root, where it has user ids of its own.
    pub(crate) first_id: Option<u32>,
    /// Where tasks without cores of their own are to run; empty for everywhere.
    pub(crate) shared_cores: Vec<u32>,
}

impl TaskContext<'_> {
    /// The cores on which it is to run: its own, or those that nobody else has; empty for all.
    pub(crate) fn cores(&self) -> &[u32] {
        if self.share.cores.is_empty() { &self.shared_cores } else { &self.share.cores }
    }

    /// Names this start of the task, on the whole host.
    pub(crate) fn start_name(&self) -> String {
        let index = self.run.group.tasks.iter().position(|spec| spec.name == self.spec.name).unwrap_or(0);
        let task = u16::try_from(index).unwrap_or(u16::MAX);
        TaskRef { alloc: self.run.alloc, task, attempt: self.attempt }.start_name()
    }
}

/// What has to be launched.
#[derive(Debug, Clone, PartialEq)]
pub enum Launch {
    /// No process: timers play the task.
    Mock(mock::MockSettings),
    /// A process or container, run by a keeper.
    Keeper(Run),
}

/// Which drivers an operator has turned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DriverSwitches {
    /// Tasks that only pretend to run.
    pub mock_driver: bool,
    /// Commands without any isolation, with the agent's own rights.
    pub raw_exec: bool,
    /// Containers, where the host has an OCI runtime.
    pub containers: bool,
    /// Commands of the host in containers, where it has one.
    pub exec: bool,
}

/// The drivers that an operator has turned on.
pub struct Drivers {
    switches: DriverSwitches,
    containers: ContainerConfig,
    runtime: CheckedRuntime,
    /// Those that work on every host.
    always: Vec<Arc<dyn Driver>>,
}

/// The drivers that work at present.
pub struct WorkingDrivers {
    /// The drivers that work.
    pub drivers: Vec<Arc<dyn Driver>>,
    /// Names of the others, and of those that the operator has turned off, each with the reason.
    pub missing: Vec<(&'static str, String)>,
}

impl Drivers {
    /// The drivers that are on; warns of what the host lacks for those that work everywhere.
    pub fn new(switches: DriverSwitches, containers: ContainerConfig) -> Self {
        let mut always: Vec<Arc<dyn Driver>> = Vec::new();
        if switches.mock_driver {
            always.push(Arc::new(mock::MockDriver));
        }
        if switches.raw_exec {
            always.push(Arc::new(raw_exec::RawExecDriver::new()));
        }
        Self { switches, containers, runtime: CheckedRuntime::default(), always }
    }

    /// Finds out which drivers work. Blocks: an OCI runtime is run for its version.
    pub fn find(&self) -> WorkingDrivers {
        let DriverSwitches { containers, exec, .. } = self.switches;
        let mut working = WorkingDrivers { drivers: self.always.clone(), missing: self.turned_off() };
        let runtime =
            if containers || exec { self.containers.find_runtime(&self.runtime) } else { Err(String::new()) };
        let off = |flag: &str| Err(format!("the agent was started with --{flag}=false"));
        let of_containers = if containers { runtime.clone() } else { off("containers") };
        match of_containers {
            Ok(runtime) => working.drivers.extend(self.containers.drivers(&runtime)),
            Err(why) => working.missing.extend(container::NAMES.map(|name| (name, why.clone()))),
        }
        match if exec { runtime } else { off("exec") } {
            Ok(runtime) => working.drivers.push(self.containers.exec_driver(runtime)),
            Err(why) => working.missing.push((container::EXEC, why)),
        }
        working
    }

    /// The drivers that work everywhere, and why the others cannot be used for now; runs nothing.
    pub(crate) fn unasked(&self, why: &str) -> WorkingDrivers {
        let others = container::NAMES.into_iter().chain([container::EXEC]);
        let missing =
            self.turned_off().into_iter().chain(others.map(|name| (name, why.to_owned()))).collect();
        WorkingDrivers { drivers: self.always.clone(), missing }
    }

    /// The drivers that would work but are turned off, with the reason.
    fn turned_off(&self) -> Vec<(&'static str, String)> {
        let why = "the agent was started without --raw-exec, and its tasks would have the agent's own rights";
        if self.switches.raw_exec { Vec::new() } else { vec![(RAW_EXEC, why.to_owned())] }
    }
}
