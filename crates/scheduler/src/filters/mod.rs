//! Which nodes can run a group at all, capacity aside: a file per filter, and one list of them.

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

use berth_model::{
    constraint::Constraint,
    job::{Group, Job, VolumeMount},
    node::Node,
};

pub use compare::satisfies;
pub use condition::Condition;
pub use device::DeviceRequest;
pub use feature::{FEATURES_ATTRIBUTE, Feature};

/// Every filter, in the order in which they are asked: the cheapest and most telling first. Capacity, ports and distinct
/// constraints are asked after these.
pub const FILTERS: &[FilterRule] = &[
    pool::RULE,
    datacenter::RULE,
    driver::RULE,
    network::RULE,
    host_network::RULE,
    device::RULE,
    volume::RULE,
    constraint::RULE,
    feature::RULE,
];

/// A kind of filter, and how it is made for a group.
#[derive(Debug)]
pub struct FilterRule {
    /// As the reference names it.
    pub name: &'static str,
    /// Which nodes pass, as the reference describes it.
    pub passes: &'static str,
    /// Whether allocations that run already have to leave a node that does not pass.
    is_for_running: bool,
    /// Adds what is to be checked for a group: nothing, where the group asks for nothing of the kind.
    add: fn(&Job, &Group, &mut Checks),
}

/// What is checked of each node, in order.
type Checks = Vec<Box<dyn Filter>>;

/// One reason for which a node cannot run a group.
trait Filter: std::fmt::Debug + Send + Sync {
    /// Whether the node can; if not, the reason as users read it.
    fn check(&self, node: &Node) -> Result<(), FilterRefusal>;

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
    /// As users read it.
    pub reason: String,
    /// What to change in the job so that it has nothing against the node.
    pub remedy: String,
}

/// Why a node cannot run a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterRefusal {
    /// It is outside the job's pool or datacenters: it was never meant.
    NotAvailable,
    /// It was meant, and something is missing.
    Filtered(String),
}

/// All filters of one group.
#[derive(Debug)]
pub struct Filters(Checks);

impl Filters {
    /// The filters of a group. Whatever they look at in a group must be distinguished by the cache of requirements and by
    /// [`crate::Demand::key`] too.
    pub fn of(job: &Job, group: &Group) -> Self {
        Self::made_by(FILTERS.iter(), job, group)
    }

    /// Those that decide whether what runs on a node may stay there: all but what its agent knows. An agent runs as it always
    /// did what servers have just learned to distinguish.
    pub fn of_what_runs(job: &Job, group: &Group) -> Self {
        Self::made_by(FILTERS.iter().filter(|rule| rule.is_for_running), job, group)
    }

    fn made_by<'a>(rules: impl Iterator<Item = &'a FilterRule>, job: &Job, group: &Group) -> Self {
        let mut checks = Vec::new();
        rules.for_each(|rule| (rule.add)(job, group, &mut checks));
        Self(checks)
    }

    /// Whether a node can run the group; if not, why.
    ///
    /// # Errors
    /// The first filter's reason.
    pub fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        self.0.iter().try_for_each(|filter| filter.check(node))
    }

    /// What each filter has against a node, not only the first.
    pub fn objections(&self, node: &Node) -> impl Iterator<Item = Objection> {
        self.0.iter().filter_map(|filter| {
            let reason = match filter.check(node).err()? {
                FilterRefusal::Filtered(reason) => reason,
                FilterRefusal::NotAvailable => "outside of the job's node pool or datacenters".to_owned(),
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
