//! All that has to be there before a task can be launched: directories, environment, settings.

use std::cell::Cell;
use std::sync::Arc;

use berth_api::agent::{LogSpec, NodeSpec, TaskSpec};

use super::data_dir::make_dir;
use super::environment::environment;
use super::interpolate::{Names, TASK_BYTES_MAX};
use super::runner::Context;
use crate::devices::DeviceFiles;
use crate::dirs::Dir;
use crate::drivers::settings::setup;
use crate::drivers::{Base, Driver, Given, ImageRequest, Launch, TaskContext};
use crate::failure::Failure;
use crate::images::Image;
use crate::keeper::plan::LogPlan;
use crate::lifecycle::{RunSpec, StartFailure, TaskRef};
use crate::network::{Mapping, NetworkNeed, TaskNetwork};
use crate::place::{AllocPlace, is_plain_name};
use crate::users;

/// How many bytes a log file gets when the job asks for none.
const LOG_FILE_MB_DEFAULT: u32 = 10;

/// What is to be launched, and how its output is kept.
pub(super) struct Prepared {
    pub(super) launch: Launch,
    pub(super) logs: LogPlan,
}

/// Makes ready one start of a task. Takes its time: to be called where blocking does no harm.
pub(super) fn prepare(
    context: &Context,
    run: &RunSpec,
    of: TaskRef,
    place: &AllocPlace,
    image: Option<Arc<Image>>,
) -> Result<Prepared, StartFailure> {
    let spec = &run.group.tasks[usize::from(of.task)];
    let host = context.host();
    let (driver, task) = host.resolve(run, of, place)?;
    let task = TaskContext { image, ..task };
    let network = network(context, driver, &task, of)?;
    let task = TaskContext { network, ..task };
    let owner = if driver.base() == Base::Host { task.user.as_str() } else { "" };
    make_dirs(place, &spec.name, owner, driver.base())?;
    let launch = driver.launch(&task)?;
    Ok(Prepared { launch, logs: log_plan(place, spec) })
}

/// The network that a task needs. Where this node has none, a task that shares one cannot run; others go without.
fn network(
    context: &Context,
    driver: &dyn Driver,
    task: &TaskContext<'_>,
    of: TaskRef,
) -> Result<Option<TaskNetwork>, StartFailure> {
    let run = task.run;
    let (key, mappings) = match driver.network(task)? {
        NetworkNeed::Nothing => return Ok(None),
        NetworkNeed::Host => {
            context.host_ports.check(run, task.place, &context.node.host_ip)?;
            return Ok(None);
        }
        NetworkNeed::Shared => ((of.alloc, None), Mapping::all(run, &context.node.host_ip)),
        NetworkNeed::Own(mappings) => ((of.alloc, Some(of.task)), mappings),
    };
    let dns = run.group.network.as_ref().and_then(|network| network.dns.as_ref());
    match &context.networks {
        Ok(networks) => Ok(Some(networks.provide(key, &mappings, dns)?)),
        Err(why) if run.is_bridged() => {
            Err(setup(format!("find the group's network of mode \"bridge\": this node has none: {why}")))
        }
        Err(_) => Ok(None),
    }
}

/// Where tasks are resolved: what they may refer to, and the drivers there are.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The node's id, as a UUID.
    pub node_id: &'a str,
    /// The node as the servers know it.
    pub node: &'a NodeSpec,
    /// Those that are turned on.
    pub drivers: &'a [Box<dyn Driver>],
    /// Those of the node's devices; devices without any are used by other means.
    pub device_files: &'a DeviceFiles,
}

impl Host<'_> {
    /// What a task's driver is asked to launch, found out without touching the host's disk.
    ///
    /// # Errors
    /// When the task's settings are wrong.
    pub fn launch(&self, run: &RunSpec, of: TaskRef, place: &AllocPlace) -> Result<Launch, StartFailure> {
        let (driver, task) = self.resolve(run, of, place)?;
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
        place: &AllocPlace,
        texts: &[&str],
    ) -> Result<Vec<String>, StartFailure> {
        let spec = &run.group.tasks[usize::from(task)];
        let driver = self.drivers.iter().find(|driver| driver.name() == spec.driver);
        let base = driver.map_or(Base::Host, |driver| driver.base());
        let given = Given::of(run, spec, self.node, self.device_files)?;
        let env = environment(run, spec, &given, place, base, self.node);
        let room = Cell::new(TASK_BYTES_MAX);
        let names = Names { node_id: self.node_id, node: self.node, env: &env, room: &room };
        texts.iter().map(|text| names.replace(text)).collect()
    }

    /// The image that a task needs.
    pub(crate) fn image(
        &self,
        run: &RunSpec,
        of: TaskRef,
        place: &AllocPlace,
    ) -> Result<Option<ImageRequest>, StartFailure> {
        let (driver, task) = self.resolve(run, of, place)?;
        driver.image(&task)
    }

    fn resolve<'a>(
        &'a self,
        run: &'a RunSpec,
        of: TaskRef,
        place: &'a AllocPlace,
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
        let given = Given::of(run, spec, node, self.device_files)?;
        let known = environment(run, spec, &given, place, driver.base(), node);
        let room = Cell::new(TASK_BYTES_MAX);
        let names = Names { node_id: self.node_id, node, env: &known, room: &room };
        let mut env = known.clone();
        for (name, value) in &spec.env {
            env.insert(name.clone(), names.replace(value)?);
        }
        let names = Names { env: &env, ..names };
        let (config_json, user) = (names.replace_in_json(&spec.config_json)?, names.replace(&spec.user)?);
        let hostname = run.group.network.as_ref().map_or("", |network| network.hostname.as_str());
        let hostname = names.replace(hostname)?;
        let task = TaskContext {
            spec,
            run,
            attempt: of.attempt,
            place,
            config_json,
            user,
            hostname,
            env,
            given,
            image: None,
            network: None,
        };
        Ok((&**driver, task))
    }
}

fn log_plan(place: &AllocPlace, spec: &TaskSpec) -> LogPlan {
    let LogSpec { max_files, max_file_size_mb, disabled } = spec.logs;
    let file_mb = if max_file_size_mb == 0 { LOG_FILE_MB_DEFAULT } else { max_file_size_mb };
    LogPlan {
        dir: place.logs_dir().to_string_lossy().into_owned(),
        task: spec.name.clone(),
        files_max: max_files.max(1),
        file_bytes_max: u64::from(file_mb) << 20,
        disabled,
    }
}

/// The allocation's root is private to the agent's user, unless a task has a user of its own: that one has to pass.
fn make_dirs(place: &AllocPlace, task: &str, user: &str, base: Base) -> Result<(), Failure> {
    let user = if user.is_empty() { None } else { Some(users::find(user)?) };
    let mode = if user.is_none() { 0o700 } else { 0o711 };
    make_dir(place.root(), mode)?;
    let root = Dir::open(place.root())?;
    let shared = root.make("alloc", if base == Base::Container { 0o777 } else { mode })?;
    ["data", "tmp"].iter().try_for_each(|name| shared.make(name, 0o1777).map(drop))?;
    root.make("logs", 0o700)?;
    root.make("keepers", 0o700)?.make(task, 0o700)?;
    let own = root.make("tasks", mode)?.make(task, 0o755)?;
    // Nobody but a container's own user comes to its directories, and who that is is known once its image is mounted.
    let modes = if base == Base::Container { [0o777; 3] } else { [0o755, 0o755, 0o700] };
    for (name, mode) in ["local", "tmp", "secrets"].into_iter().zip(modes) {
        let dir = own.make(name, mode)?;
        user.as_ref().map_or(Ok(()), |user| dir.give(user))?;
    }
    user.map_or(Ok(()), |user| own.give(&user))
}
