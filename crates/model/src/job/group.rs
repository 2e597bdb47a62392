//! A group: tasks that always run together on one node, and how many such allocations there are to be.

use std::{collections::BTreeMap, time::Duration};

use minicbor::{Decode, Encode};

use super::{
    Disconnect, IgnoredSettings, JobType, Lifecycle, Migrate, ReschedulePolicy, RestartPolicy, Scaling,
    Service, Task, TaskPhase, Update, Volume,
};
use crate::{
    constraint::{Affinity, Constraint, Spread},
    device::DeviceAsk,
    node::{HOST_NETWORK_DEFAULT, Node},
    resources::Resources,
    value::Value,
};

/// Tasks that are placed, started and stopped together.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Group {
    /// Unique in its job.
    #[n(0)]
    pub name: String,
    /// Desired allocations; 0 to [`super::GROUP_COUNT_MAX`].
    #[n(1)]
    pub count: u32,
    /// In addition to the job's.
    #[n(2)]
    pub constraints: Vec<Constraint>,
    /// In addition to the job's.
    #[n(3)]
    pub spreads: Vec<Spread>,
    /// The default of its tasks.
    #[n(4)]
    pub restart: RestartPolicy,
    /// What happens once restarts are exhausted.
    #[n(5)]
    pub reschedule: ReschedulePolicy,
    /// Space for logs and task directories.
    #[n(6)]
    pub disk: EphemeralDisk,
    /// Its networks, at most one.
    #[n(7)]
    pub networks: Vec<Network>,
    /// The owner's own labels.
    #[n(8)]
    pub meta: BTreeMap<String, String>,
    /// Waited between the end of the group's services and the kill signal.
    #[n(9)]
    #[cbor(with = "crate::codec::duration")]
    pub shutdown_delay: Duration,
    /// At least one.
    #[n(10)]
    pub tasks: Vec<Task>,
    /// In addition to the job's.
    #[n(11)]
    pub affinities: Vec<Affinity>,
    /// How a new version replaces it; none for at once.
    #[n(20)]
    pub update: Option<Box<Update>>,
    /// How it leaves a node that is drained; none for the default.
    #[n(21)]
    pub migrate: Option<Box<Migrate>>,
    /// What happens when its node goes silent; none for the default.
    #[n(22)]
    pub disconnect: Option<Box<Disconnect>>,
    /// The names under which others find it.
    #[n(23)]
    pub services: Vec<Service>,
    /// What its tasks may mount.
    #[n(24)]
    pub volumes: Vec<Volume>,
    /// Bounds of its count.
    #[n(25)]
    pub scaling: Option<Box<Scaling>>,
    /// Its allocations are stopped after this long; none for never.
    #[n(26)]
    #[cbor(with = "crate::codec::duration_option")]
    pub max_run_duration: Option<Duration>,
    /// `Consul`, and what came before [`Self::disconnect`].
    #[n(27)]
    pub kept: IgnoredSettings,
    /// Tasks that never run at the same time share their capacity. False for what was registered before servers counted so; not
    /// in entries before version 4.
    #[n(28)]
    #[cbor(default)]
    pub shares_resources: bool,
}

impl Group {
    /// A group of one allocation without tasks, with the defaults of job files.
    pub fn new(name: impl Into<String>, job_type: JobType) -> Self {
        Self {
            name: name.into(),
            count: 1,
            constraints: Vec::new(),
            spreads: Vec::new(),
            restart: RestartPolicy::default_for(job_type),
            reschedule: ReschedulePolicy::default_for(job_type),
            disk: EphemeralDisk::default(),
            networks: Vec::new(),
            meta: BTreeMap::new(),
            shutdown_delay: Duration::ZERO,
            tasks: Vec::new(),
            affinities: Vec::new(),
            update: None,
            migrate: None,
            disconnect: None,
            services: Vec::new(),
            volumes: Vec::new(),
            scaling: None,
            max_run_duration: None,
            kept: IgnoredSettings::new(),
            shares_resources: false,
        }
    }

    /// How a new version of the group replaces the one before, where that is done step by step, in a deployment.
    pub fn deployed_by(&self, job_type: JobType) -> Option<&Update> {
        let has_deployments = matches!(job_type, JobType::Service | JobType::System);
        self.update.as_deref().filter(|update| has_deployments && update.max_parallel > 0)
    }

    /// What happens to its allocations when their node goes silent, by its block or by the settings that came before it.
    pub fn on_disconnect(&self) -> Disconnect {
        if let Some(disconnect) = &self.disconnect {
            return (**disconnect).clone();
        }
        let span = |name| match self.kept.get(name) {
            Some(Value::Int(nanos)) => Some(Duration::from_nanos(u64::try_from(*nanos).ok()?)),
            _ => None,
        };
        Disconnect {
            lost_after: span("MaxClientDisconnect"),
            stop_on_client_after: span("StopAfterClientDisconnect"),
            replace: self.kept.get("PreventRescheduleOnLost") != Some(&Value::Bool(true)),
            ..Disconnect::default()
        }
    }

    /// Whether agents stop the allocations of both after the same time without a server.
    pub fn stops_alike(&self, other: &Self) -> bool {
        self.on_disconnect().stops_after() == other.on_disconnect().stops_after()
    }

    /// How long its tasks may take to end once they are asked to, but for what runs after them.
    pub fn ending_max(&self) -> Duration {
        // Agents end the leader first and sidecars last, each once those before have ended: their times add up.
        let stage = |task: &Task| match task.lifecycle {
            Some(lifecycle) if lifecycle.is_sidecar() => 2,
            _ => usize::from(!task.leader),
        };
        let mut stages = [Duration::ZERO; 3];
        for task in &self.tasks {
            let longest = &mut stages[stage(task)];
            *longest = task.shutdown_delay.saturating_add(task.kill_timeout).max(*longest);
        }
        stages.into_iter().fold(self.shutdown_delay, Duration::saturating_add)
    }

    /// Whether some of its tasks never run at the same time.
    pub fn has_phases(&self) -> bool {
        let phases = |task: &Task| Lifecycle::phases(task.lifecycle);
        self.tasks.windows(2).any(|pair| phases(&pair[0]) != phases(&pair[1]))
    }

    /// What one allocation of the group holds on any node: as much as its tasks may have at the same time, of each kind. The
    /// cpu of whole cores comes on top, see [`Self::resources_on`].
    pub fn resources(&self) -> Resources {
        let disk = Resources { disk_mb: self.disk.size_mb, ..Resources::ZERO };
        let in_phase = |phase: Option<TaskPhase>| {
            let runs =
                |task: &&Task| phase.is_none_or(|phase| Lifecycle::phases(task.lifecycle).contains(&phase));
            self.tasks.iter().filter(runs).fold(disk, |sum, task| sum.plus(task.resources.room()))
        };
        if !self.shares_resources {
            return in_phase(None);
        }
        TaskPhase::ALL.into_iter().map(|phase| in_phase(Some(phase))).fold(disk, Resources::max)
    }

    /// What one allocation of the group holds on this node.
    pub fn resources_on(&self, node: &Node) -> Resources {
        let cpu_mhz = self.cores().saturating_mul(node.core_mhz());
        self.resources().plus(Resources { cpu_mhz, ..Resources::ZERO })
    }

    /// Cores that one allocation has for itself alone; they are its tasks' by their ids, from its start to its end.
    pub fn cores(&self) -> u32 {
        self.tasks.iter().fold(0, |sum, task| sum.saturating_add(task.resources.cores))
    }

    /// What its tasks ask of devices, in order of declaration.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceAsk> + Clone {
        self.tasks.iter().flat_map(|task| &task.resources.devices)
    }

    /// All ports that one allocation needs, in order of declaration.
    pub fn ports(&self) -> impl Iterator<Item = &Port> + Clone {
        self.networks.iter().flat_map(|n| &n.ports)
    }
}

/// Capacity on the node's disk that goes away with the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct EphemeralDisk {
    /// MiB; 300 when not given.
    #[n(0)]
    pub size_mb: u32,
    /// Prefer the node that held the predecessor.
    #[n(1)]
    pub sticky: bool,
    /// Carry the data over to the successor.
    #[n(2)]
    pub migrate: bool,
}

impl Default for EphemeralDisk {
    fn default() -> Self {
        Self { size_mb: 300, sticky: false, migrate: false }
    }
}

/// The ports that a group asks for.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub struct Network {
    /// `host`, `bridge`, `none` or `cni/NAME`; empty means host.
    #[n(0)]
    pub mode: String,
    /// Its ports, each with a label.
    #[n(1)]
    pub ports: Vec<Port>,
    /// The name that its tasks see as their host's; empty for the node's.
    #[n(2)]
    pub hostname: String,
    /// `DNS`, `CNI`, and settings that Nomad keeps here for networks of nodes.
    #[n(3)]
    pub kept: IgnoredSettings,
}

/// One port of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Port {
    /// Names the port in the job and in the task's environment.
    #[n(0)]
    pub label: String,
    /// The port on the host; none for one that the scheduler picks.
    #[n(1)]
    pub fixed: Option<u16>,
    /// The port inside the task's network; 0 for the same as on the host.
    #[n(2)]
    pub to: u16,
    /// The node's network that it is taken from; empty or `default` for the first.
    #[n(3)]
    pub host_network: String,
    /// Others may have the same fixed port.
    #[n(4)]
    pub ignore_collision: bool,
    /// Its owner wrote "the same as on the host" as -1, and is shown it so; `to` is 0 then. Not in entries of older servers.
    #[n(5)]
    #[cbor(with = "crate::codec::late_flag", has_nil)]
    pub to_is_host: bool,
}

impl Port {
    /// The network that it is taken from by its name; none for the first, in which every node is.
    pub fn named_network(&self) -> Option<&str> {
        Some(&*self.host_network).filter(|name| !["", HOST_NETWORK_DEFAULT].contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Hook, TaskResources};

    /// A group with tasks of these hooks, sidecar or not, and memory.
    fn group(tasks: &[(Option<(Hook, bool)>, u32)]) -> Group {
        let task = |(hook, memory_mb): &(Option<(Hook, bool)>, u32)| Task {
            lifecycle: hook.map(|(hook, sidecar)| Lifecycle { hook, sidecar }),
            resources: TaskResources { cpu_mhz: 10, memory_mb: *memory_mb, ..TaskResources::default() },
            ..Task::new("t", "mock_driver", JobType::Batch)
        };
        let tasks = tasks.iter().map(task).collect();
        let group = Group { tasks, ..Group::new("g", JobType::Batch) };
        Group { shares_resources: group.has_phases(), ..group }
    }

    #[test]
    fn tasks_that_take_turns_need_the_capacity_of_the_largest_turn() {
        let (init, proxy) = (Some((Hook::Prestart, false)), Some((Hook::Prestart, true)));
        let (hello, bye) = (Some((Hook::Poststart, false)), Some((Hook::Poststop, false)));
        let memory = |tasks: &[(Option<(Hook, bool)>, u32)]| group(tasks).resources().memory_mb;
        assert_eq!(memory(&[(init, 300), (init, 200), (None, 400), (bye, 100)]), 500);
        assert_eq!(memory(&[(init, 300), (None, 400), (hello, 200), (bye, 100)]), 600);
        assert_eq!(memory(&[(init, 300), (proxy, 50), (None, 100), (bye, 360)]), 360);
        assert_eq!(memory(&[(init, 300), (proxy, 50), (None, 100), (bye, 340)]), 350, "it runs beside both");
        // Of each kind the most, which need not be of one turn; tasks of one turn change nothing.
        assert_eq!(group(&[(init, 300), (None, 1), (None, 1)]).resources().cpu_mhz, 20);
        assert!(!group(&[(None, 100), (hello, 200)]).shares_resources);
        assert_eq!(memory(&[(None, 100), (hello, 200)]), 300);
    }

    #[test]
    fn the_times_of_tasks_that_end_one_after_the_other_add_up() {
        let sidecar = Some((Hook::Prestart, true));
        let mut group = group(&[(None, 1), (None, 1), (None, 1), (sidecar, 1)]);
        for (task, kill_timeout) in group.tasks.iter_mut().zip([20, 5, 30, 7]) {
            task.kill_timeout = Duration::from_secs(kill_timeout);
        }
        group.tasks[1].shutdown_delay = Duration::from_secs(40);
        group.shutdown_delay = Duration::from_secs(3);
        assert_eq!(
            group.ending_max(),
            Duration::from_secs(3 + 45 + 7),
            "main tasks together, then the sidecar"
        );
        group.tasks[2].leader = true;
        assert_eq!(group.ending_max(), Duration::from_secs(3 + 30 + 45 + 7), "the leader before them");
    }

    #[test]
    fn what_older_servers_do_not_know_of_a_port_takes_no_byte_unless_it_is_said() {
        let written = |port: &Port| minicbor::to_vec(port).expect("it fits");
        let read = |bytes: &[u8]| minicbor::decode::<Port>(bytes).expect("it was written");
        let plain = Port { label: "http".to_owned(), ..Port::default() };
        let same = Port { to_is_host: true, ..plain.clone() };
        assert_eq!((read(&written(&plain)), read(&written(&same))), (plain.clone(), same.clone()));
        assert_eq!(written(&plain)[0] & 0x1f, 5, "fields");
        assert_eq!(written(&same)[0] & 0x1f, 6, "fields");
    }

    #[test]
    fn what_was_registered_before_holds_capacity_for_all_at_once() {
        let new = group(&[(Some((Hook::Prestart, false)), 300), (None, 400)]);
        let old = Group { shares_resources: false, ..new };
        assert_eq!(old.resources().memory_mb, 700);
    }
}
