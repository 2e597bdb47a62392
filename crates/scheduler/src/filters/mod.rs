//! Which nodes can run a group at all, room aside: a file per filter, and one list that names them.

mod compare;
mod condition;
mod constraint;
mod datacenter;
mod device;
mod driver;
mod feature;
mod glob;
mod host_network;
mod network;
mod pool;
mod quantity;
mod version;
mod volume;

use std::collections::BTreeSet;

use berth_model::{
    constraint::{Constraint, Operator},
    job::{Group, Job, Port, VolumeMount},
    node::Node,
};
use feature::FeatureFilter;

pub use compare::satisfies;
pub use condition::Condition;
pub use device::DeviceWish;
pub use feature::{FEATURES_ATTRIBUTE, Feature};

/// Every filter by its name, and which nodes it lets pass; room, ports and distinct constraints are asked after these.
pub const FILTERS: &[(&str, &str)] = &[
    ("node pool", "nodes of the job's pool, or all for the pool `all`"),
    ("datacenter", "nodes whose datacenter matches one of the job's names or globs"),
    ("driver", "nodes that have the drivers of all tasks"),
    ("network", "nodes that can give a group a network of its own, where it has `mode = \"bridge\"`"),
    (
        "host network",
        "nodes that are in the networks from which the group's ports are taken, as `host_network` names them",
    ),
    ("device", "nodes that have the devices and cores of all tasks, whoever holds them now"),
    ("volume", "nodes that have the volumes of the group, and let it write where it does"),
    ("constraint", "nodes that meet the constraints of the job, the group and its tasks"),
    (
        "feature",
        "nodes whose agents know all that the group's settings need, as `berth.features` names it; what runs already stays",
    ),
];

/// One reason for which a node cannot run a group.
trait Filter: std::fmt::Debug + Send + Sync {
    /// Whether the node can; if not, the reason as people read it.
    fn check(&self, node: &Node) -> Result<(), Refused>;

    /// Whether nodes of one class can get different answers.
    fn is_unique(&self) -> bool {
        false
    }

    /// What to change in a job so that a node passes which it turns away for this reason.
    fn remedy(&self, _: &Node, reason: &str) -> String {
        format!("drop what says: {reason}")
    }
}

/// What one filter has against a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// As people read it.
    pub reason: String,
    /// What to change in the job so that it has nothing against the node.
    pub remedy: String,
}

/// Why a node cannot run a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It is outside the job's pool or datacenters: it was never meant.
    NotAvailable,
    /// It was meant, and something is missing.
    Filtered(String),
}

/// All filters of one group.
#[derive(Debug)]
pub struct Filters(Vec<Box<dyn Filter>>);

impl Filters {
    /// The filters of a group, cheapest and most telling first. Whatever else of a group they look at is to be told apart
    /// by the cache of wishes and by [`crate::Demand::key`] too.
    pub fn of(job: &Job, group: &Group) -> Self {
        let mut filters = Self::of_what_runs(job, group);
        let features =
            Feature::needed(group).map(|feature| Box::new(FeatureFilter(feature)) as Box<dyn Filter>);
        filters.0.extend(features);
        filters
    }

    /// Those that decide whether what runs on a node may stay there: all but what its agent knows. An agent runs as it always
    /// did what servers have just learned to tell apart.
    pub fn of_what_runs(job: &Job, group: &Group) -> Self {
        let mut filters: Vec<Box<dyn Filter>> = vec![
            Box::new(pool::PoolFilter::new(&job.node_pool)),
            Box::new(datacenter::DatacenterFilter::new(&job.datacenters)),
        ];
        let drivers: BTreeSet<&str> = group.tasks.iter().map(|task| task.driver.as_str()).collect();
        for driver in drivers {
            filters.push(Box::new(driver::DriverFilter::new(driver)));
        }
        // Nothing of a task that only pretends to run is in a network.
        let is_bridged = group.networks.iter().any(|network| network.mode == "bridge");
        if is_bridged && group.tasks.iter().any(|task| task.driver != "mock_driver") {
            filters.push(Box::new(network::NetworkFilter));
        }
        let host_networks: BTreeSet<&str> = group.ports().filter_map(Port::named_network).collect();
        for network in host_networks {
            filters.push(Box::new(host_network::HostNetworkFilter::new(network)));
        }
        for ask in group.devices() {
            filters.push(Box::new(device::DeviceFilter::new(ask)));
        }
        if group.cores() > 0 {
            filters.push(Box::new(device::CoreFilter(group.cores())));
        }
        for asked in &group.volumes {
            filters.push(Box::new(volume::VolumeFilter::new(asked, group)));
        }
        let on_node =
            |c: &&Constraint| !matches!(c.operator, Operator::DistinctHosts | Operator::DistinctProperty);
        for constraint in constraints_of(job, group).filter(on_node) {
            filters.push(Box::new(constraint::ConstraintFilter::new(constraint)));
        }
        Self(filters)
    }

    /// Whether a node can run the group; if not, why.
    ///
    /// # Errors
    /// The first filter's reason.
    pub fn check(&self, node: &Node) -> Result<(), Refused> {
        self.0.iter().try_for_each(|filter| filter.check(node))
    }

    /// What each filter has against a node, not only the first.
    pub fn objections(&self, node: &Node) -> impl Iterator<Item = Objection> {
        self.0.iter().filter_map(|filter| {
            let reason = match filter.check(node).err()? {
                Refused::Filtered(reason) => reason,
                Refused::NotAvailable => "outside of the job's node pool or datacenters".to_owned(),
            };
            Some(Objection { remedy: filter.remedy(node, &reason), reason })
        })
    }

    /// Whether nodes of one class can get different answers.
    pub fn is_unique(&self) -> bool {
        self.0.iter().any(|filter| filter.is_unique())
    }
}

/// The constraints of a group: the job's, its own, and its tasks'.
pub fn constraints_of<'a>(job: &'a Job, group: &'a Group) -> impl Iterator<Item = &'a Constraint> {
    let tasks = group.tasks.iter().flat_map(|task| &task.constraints);
    job.constraints.iter().chain(&group.constraints).chain(tasks)
}

/// Where the tasks of a group see its volumes.
pub fn mounts_of(group: &Group) -> impl Iterator<Item = &VolumeMount> {
    group.tasks.iter().flat_map(|task| &task.volume_mounts)
}
