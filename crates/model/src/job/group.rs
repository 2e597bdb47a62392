//! A group: tasks that always run together on one node, and how many such sets are wanted.

use std::{collections::BTreeMap, time::Duration};

use minicbor::{Decode, Encode};

use super::{ReschedulePolicy, RestartPolicy, Task};
use crate::{
    constraint::{Constraint, Spread},
    resources::Resources,
};

/// Tasks that are placed, started and stopped together.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Group {
    /// Unique in its job.
    #[n(0)]
    pub name: String,
    /// Allocations wanted; 0 to [`super::GROUP_COUNT_MAX`].
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
    /// Room for logs and task directories.
    #[n(6)]
    pub disk: EphemeralDisk,
    /// At most one.
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
}

impl Group {
    /// What one allocation of the group holds on its node.
    pub fn resources(&self) -> Resources {
        let disk = Resources { disk_mb: self.disk.size_mb, ..Resources::ZERO };
        self.tasks.iter().fold(disk, |sum, task| {
            sum.plus(Resources {
                cpu_mhz: task.resources.cpu_mhz,
                memory_mb: task.resources.memory_mb,
                disk_mb: 0,
            })
        })
    }

    /// All ports that one allocation needs, in order of declaration.
    pub fn ports(&self) -> impl Iterator<Item = &Port> + Clone {
        self.networks.iter().flat_map(|n| &n.ports)
    }
}

/// Room on the node's disk that goes away with the allocation.
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Network {
    /// `host` or `none`; empty means host.
    #[n(0)]
    pub mode: String,
    /// By label.
    #[n(1)]
    pub ports: Vec<Port>,
}

/// One port of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
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
}
