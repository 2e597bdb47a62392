//! Prepares one start of a task: directories, environment, settings, and what its driver is to launch.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::agent::{ArtifactSpec, LogSpec, NodeSpec, TaskSpec};

use super::environment::environment;
use super::interpolate::{Names, TASK_BYTES_MAX};
use super::runner::Context;
use crate::alloc_dir::{self, Sharers};
use crate::devices::DeviceFiles;
use crate::drivers::settings::setup;
use crate::drivers::{Driver, ImageRequest, Launch, RootFs, TaskContext, TaskShare};
use crate::images::Image;
use crate::keeper::plan::LogPlan;
use crate::lifecycle::{RunSpec, StartFailure, TaskRef};
use crate::network::{Mapping, NetworkNeed, TaskNetwork};
use crate::paths::{AllocPaths, is_plain_name};
use crate::secrets::{NO_SECRETS, Secrets};
use crate::volumes::HostVolumes;

/// How many bytes a log file gets when the job asks for none.
const LOG_FILE_MB_DEFAULT: u32 = 10;

/// What is to be launched, and how its output is logged.
pub(super) struct PreparedStart {
    pub(super) launch: Launch,
    pub(super) logs: LogPlan,
}

/// What a task gets from outside before its start.
pub(super) struct StartInputs {
    pub(super) image: Option<Arc<Image>>,
    /// Those that are in its environment.
    pub(super) tokens: BTreeMap<String, String>,
    pub(super) secrets: Arc<Secrets>,
    /// Files in its directory of secrets that templates gave it, relative to that.
    pub(super) secret_files: Vec<String>,
}

/// Makes ready one start of a task. Blocks: to be called where that does no harm.
pub(super) fn prepare(
    context: &Context,
    run: &RunSpec,
    of: TaskRef,
    paths: &AllocPaths,
    obtained: StartInputs,
) -> Result<PreparedStart, StartFailure> {
    let StartInputs { image, tokens, secrets, secret_files } = obtained;
    let spec = &run.group.tasks[usize::from(of.task)];
    let equipment = context.equipment();
    let host = equipment.host(&context.node_id).with(&secrets);
    let (driver, mut task) = host.resolve(run, of, paths)?;
    // No name stands for them: what is replaced is shown to people.
    task.env.extend(tokens);
    let task = TaskContext { image, secrets: secrets.clone(), secret_files, ..task };
    let network = network(context, driver, &task, of)?;
    let first_id = first_id(context, driver, &task, of)?;
    let task = TaskContext { network, first_id, shared_cores: context.cores.shared(), ..task };
    let launch = driver.launch(&task)?;
    Ok(PreparedStart { launch, logs: log_plan(paths, spec) })
}

/// The network that a task needs. Where this node has none, a task that shares one cannot run; others go without.
fn network(
    context: &Context,
    driver: &dyn Driver,
    task: &TaskContext<'_>,
    of: TaskRef,
) -> Result<Option<TaskNetwork>, StartFailure> {
    match driver.network(task)? {
        NetworkNeed::Nothing => Ok(None),
        NetworkNeed::Host => {
            let networks = context.providers.networks.as_deref().ok();
            context.host_ports.take(task.run, task.paths, &context.host_ip, networks)?;
            Ok(None)
        }
        NetworkNeed::Shared => shared_network(context, task.run),
        NetworkNeed::Own(mappings) => provide(context, task.run, Some(of.task), &mappings),
    }
}

/// The one that all tasks of an allocation share, made unless it is there: its tasks find it made.
pub(super) fn shared_network(context: &Context, run: &RunSpec) -> Result<Option<TaskNetwork>, StartFailure> {
    provide(context, run, None, &Mapping::all(run, &context.host_ip)?)
}

fn provide(
    context: &Context,
    run: &RunSpec,
    task: Option<u16>,
    mappings: &[Mapping],
) -> Result<Option<TaskNetwork>, StartFailure> {
    let dns = run.group.network.as_ref().and_then(|network| network.dns.as_ref());
    match &context.providers.networks {
        Ok(networks) => Ok(Some(networks.provide((run.alloc, task), mappings, dns)?)),
        Err(why) if run.is_bridged() => {
            Err(setup(format!("find the group's network of mode \"bridge\": this node has none: {why}")))
        }
        Err(_) => Ok(None),
    }
}

/// Where the users of a task begin that are not the host's. Where this node cannot do that, tasks go without, as it says.
fn first_id(
    context: &Context,
    driver: &dyn Driver,
    task: &TaskContext<'_>,
    of: TaskRef,
) -> Result<Option<u32>, StartFailure> {
    match &context.providers.user_ids {
        Ok(ids) if driver.has_own_users(task)? => Ok(Some(ids.provide(of.alloc)?)),
        Ok(_) | Err(_) => Ok(None),
    }
}

/// What a start waits for.
pub(super) struct StartNeeds {
    pub(super) image: Option<ImageRequest>,
    /// The task's artifacts, with all `${...}` replaced.
    pub(super) artifacts: Vec<ArtifactSpec>,
    pub(super) root_fs: RootFs,
    /// The user of a task of the host; empty for the agent's.
    pub(super) user: String,
}

/// Makes the task's directories, and finds out what it needs before it can be prepared.
pub(super) fn begin(
    context: &Context,
    run: &RunSpec,
    of: TaskRef,
    paths: &AllocPaths,
    secrets: &Secrets,
) -> Result<StartNeeds, StartFailure> {
    let equipment = context.equipment();
    let host = equipment.host(&context.node_id).with(secrets);
    let (driver, task) = host.resolve(run, of, paths)?;
    let root_fs = driver.root_fs();
    let user = if root_fs == RootFs::Host { task.user.clone() } else { String::new() };
    alloc_dir::make_own(paths, run, of.task, &user, root_fs)?;
    let replaced = |artifact: &ArtifactSpec| {
        let ArtifactSpec { source, destination, options, headers, .. } = artifact;
        // These are shown to people.
        let locations = host.with(&NO_SECRETS).replace(run, of.task, paths, &[source, destination])?;
        let [source, destination] = <[String; 2]>::try_from(locations).unwrap_or_default();
        let texts: Vec<&str> = options.values().chain(headers.values()).map(String::as_str).collect();
        let mut texts = host.replace(run, of.task, paths, &texts)?.into_iter();
        let mut next = || texts.next().unwrap_or_default();
        let options = options.keys().map(|name| (name.clone(), next())).collect();
        let headers = headers.keys().map(|name| (name.clone(), next())).collect();
        Ok::<_, StartFailure>(ArtifactSpec { source, destination, options, headers, ..artifact.clone() })
    };
    let artifacts = task.spec.artifacts.iter().map(replaced).collect::<Result<_, _>>()?;
    Ok(StartNeeds { image: driver.image(&task)?, artifacts, root_fs, user })
}

/// Where tasks are resolved: what they may refer to, and the drivers there are.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The node's id, as a UUID.
    pub node_id: &'a str,
    /// The node as the servers know it.
    pub node: &'a NodeSpec,
    /// The drivers that are turned on.
    pub drivers: &'a [Arc<dyn Driver>],
    /// Device files of the node's devices; a device without any is used by other means.
    pub device_files: &'a DeviceFiles,
    /// The node's volumes.
    pub volumes: &'a HostVolumes,
    /// What the task is given of variables.
    pub secrets: &'a Secrets,
}

impl<'h> Host<'h> {
    /// The same, for a task that is given these.
    pub(super) fn with(self, secrets: &'h Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// What a task's driver is asked to launch, found out without touching the host's disk.
    ///
    /// # Errors
    /// When the task's settings are wrong.
    pub fn launch(&self, run: &RunSpec, of: TaskRef, paths: &AllocPaths) -> Result<Launch, StartFailure> {
        let (driver, task) = self.resolve(run, of, paths)?;
        driver.launch(&task)
    }

    /// Texts of a group or task with their names replaced, as the task sees them.
    ///
    /// # Errors
    /// When a name is unknown, or a text grows too long.
    pub(super) fn replace(
        &self,
        run: &RunSpec,
        task: u16,
        paths: &AllocPaths,
        texts: &[&str],
    ) -> Result<Vec<String>, StartFailure> {
        let spec = &run.group.tasks[usize::from(task)];
        let root_fs = self.root_fs_of(spec);
        let share = TaskShare::of(run, spec, self.node, self.device_files, self.volumes)?;
        let env = environment(run, spec, &share, paths, root_fs, self.node);
        let bytes_left = Cell::new(TASK_BYTES_MAX);
        let names = Names {
            node_id: self.node_id,
            node: self.node,
            env: &env,
            secrets: self.secrets,
            bytes_left: &bytes_left,
        };
        texts.iter().map(|text| names.replace(text)).collect()
    }

    /// What a task sees: what its directories are to it, and its environment.
    ///
    /// # Errors
    /// When the task's settings are wrong.
    pub(super) fn surroundings(
        &self,
        run: &RunSpec,
        of: TaskRef,
        paths: &AllocPaths,
    ) -> Result<(RootFs, BTreeMap<String, String>), StartFailure> {
        let (driver, task) = self.resolve(run, of, paths)?;
        Ok((driver.root_fs(), task.env))
    }

    /// Who these tasks are to the directories that they share.
    pub(super) fn sharers(&self, tasks: &[TaskSpec]) -> Sharers {
        let is_container = |task: &TaskSpec| self.root_fs_of(task) == RootFs::Container;
        let has_user = |task: &TaskSpec| !is_container(task) && !task.user.is_empty();
        Sharers { host_users: tasks.iter().any(has_user), containers: tasks.iter().any(is_container) }
    }

    /// What a task needs of a network, as far as that can be said before it is given anything of variables; none where it
    /// cannot be. A group that has one is given it all the same: whatever is wrong with the task its own start reports.
    pub(super) fn network_need(&self, run: &RunSpec, task: u16, paths: &AllocPaths) -> Option<NetworkNeed> {
        let of = TaskRef { alloc: run.alloc, task, attempt: 0 };
        let host = self.with(&NO_SECRETS);
        let need = host.resolve(run, of, paths).and_then(|(driver, task)| driver.network(&task));
        need.ok().or_else(|| run.is_bridged().then_some(NetworkNeed::Shared))
    }

    fn root_fs_of(&self, spec: &TaskSpec) -> RootFs {
        let driver = self.drivers.iter().find(|driver| driver.name() == spec.driver);
        driver.map_or(RootFs::Host, |driver| driver.root_fs())
    }

    fn resolve<'a>(
        &'a self,
        run: &'a RunSpec,
        of: TaskRef,
        paths: &'a AllocPaths,
    ) -> Result<(&'a dyn Driver, TaskContext<'a>), StartFailure> {
        let spec = &run.group.tasks[usize::from(of.task)];
        if !is_plain_name(&spec.name) {
            return Err(setup(format!(
                "make the directory of task {:?}: its name cannot name one",
                spec.name
            )));
        }
        let driver = self.drivers.iter().find(|driver| driver.name() == spec.driver).ok_or_else(|| {
            setup(format!("find the driver {:?}: this node has none of that name", spec.driver))
        })?;
        let node = self.node;
        let share = TaskShare::of(run, spec, node, self.device_files, self.volumes)?;
        let known = environment(run, spec, &share, paths, driver.root_fs(), node);
        let bytes_left = Cell::new(TASK_BYTES_MAX);
        let names = Names {
            node_id: self.node_id,
            node,
            env: &known,
            secrets: self.secrets,
            bytes_left: &bytes_left,
        };
        let mut env = known.clone();
        for (name, value) in &spec.env {
            let value = names.replace(value)?;
            if value.contains('\0') {
                return Err(setup(format!("make the environment: the value of {name} has a zero byte")));
            }
            env.insert(name.clone(), value);
        }
        // What templates give may be secret, and stands where secrets may stand.
        let shown_env = env.clone();
        env.extend(self.secrets.env().clone());
        let names = Names { env: &env, ..names };
        // What else stands there is reported when it is wrong, and written down by keepers and runtimes.
        let without_secrets = Names { secrets: &NO_SECRETS, env: &shown_env, ..names };
        let config_json =
            without_secrets.replace_in_json(&spec.config_json, |name| (name == "args").then_some(&names))?;
        let names = without_secrets;
        let user = names.replace(&spec.user)?;
        let hostname = run.group.network.as_ref().map_or("", |network| network.hostname.as_str());
        let hostname = names.replace(hostname)?;
        let task = TaskContext {
            spec,
            run,
            attempt: of.attempt,
            paths,
            config_json,
            user,
            hostname,
            env,
            share,
            secrets: Arc::default(),
            secret_files: Vec::new(),
            image: None,
            network: None,
            first_id: None,
            shared_cores: Vec::new(),
        };
        Ok((&**driver, task))
    }
}

fn log_plan(paths: &AllocPaths, spec: &TaskSpec) -> LogPlan {
    let LogSpec { max_files, max_file_size_mb, disabled } = spec.logs;
    let file_mb = if max_file_size_mb == 0 { LOG_FILE_MB_DEFAULT } else { max_file_size_mb };
    LogPlan {
        dir: paths.logs_dir().to_string_lossy().into_owned(),
        task: spec.name.clone(),
        files_max: max_files.max(1),
        file_bytes_max: u64::from(file_mb) << 20,
        disabled,
    }
}
