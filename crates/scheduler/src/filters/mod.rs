//! Which nodes can run a group at all, room aside: a file per filter, and one list that names them.

mod compare;
mod constraint;
mod datacenter;
mod driver;
mod glob;
mod pool;
mod version;

use std::hash::{Hash, Hasher};

use berth_model::{
    constraint::{Constraint, Operator},
    job::{Group, Job},
    node::Node,
};

pub use compare::satisfies;

/// One reason for which a node cannot run a group.
trait Filter: std::fmt::Debug + Send + Sync {
    /// Whether the node can; if not, the reason as people read it.
    fn check(&self, node: &Node) -> Result<(), Refused>;

    /// Whether nodes of one class can get different answers.
    fn is_unique(&self) -> bool {
        false
    }
}

/// Why a node cannot run a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It is outside the job's pool or datacenters: it was never meant.
    NotAvailable,
    /// It was meant, and something is missing.
    Filtered(String),
}

/// All filters of one group. Two groups with equal wishes have equal [`Filters::signature`]s.
#[derive(Debug)]
pub struct Filters {
    filters: Vec<Box<dyn Filter>>,
    /// What the answers depend on besides the node.
    pub signature: Signature,
}

/// What the answers of [`Filters`] depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pool: String,
    datacenters: Vec<String>,
    drivers: Vec<String>,
    constraints: Vec<Constraint>,
}

impl Hash for Signature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.pool, &self.datacenters, &self.drivers, &self.constraints).hash(state);
    }
}

impl Filters {
    /// The filters of a group, cheapest and most telling first.
    pub fn of(job: &Job, group: &Group) -> Self {
        let signature = Signature::of(job, group);
        let mut filters: Vec<Box<dyn Filter>> = vec![
            Box::new(pool::PoolFilter::new(&signature.pool)),
            Box::new(datacenter::DatacenterFilter::new(&signature.datacenters)),
        ];
        for driver in &signature.drivers {
            filters.push(Box::new(driver::DriverFilter::new(driver)));
        }
        for constraint in &signature.constraints {
            filters.push(Box::new(constraint::ConstraintFilter::new(constraint)));
        }
        Self { filters, signature }
    }

    /// Whether a node can run the group; if not, why.
    ///
    /// # Errors
    /// The first filter's reason.
    pub fn check(&self, node: &Node) -> Result<(), Refused> {
        self.filters.iter().try_for_each(|filter| filter.check(node))
    }

    /// Whether nodes of one class can get different answers.
    pub fn is_unique(&self) -> bool {
        self.filters.iter().any(|filter| filter.is_unique())
    }
}

impl Signature {
    fn of(job: &Job, group: &Group) -> Self {
        let mut drivers: Vec<String> = group.tasks.iter().map(|t| t.driver.clone()).collect();
        drivers.sort_unstable();
        drivers.dedup();
        let on_node =
            |c: &&Constraint| !matches!(c.operator, Operator::DistinctHosts | Operator::DistinctProperty);
        Self {
            pool: job.node_pool.clone(),
            datacenters: job.datacenters.clone(),
            drivers,
            constraints: constraints_of(job, group).filter(on_node).cloned().collect(),
        }
    }
}

/// The constraints of a group: the job's, its own, and its tasks'.
pub fn constraints_of<'a>(job: &'a Job, group: &'a Group) -> impl Iterator<Item = &'a Constraint> {
    let tasks = group.tasks.iter().flat_map(|task| &task.constraints);
    job.constraints.iter().chain(&group.constraints).chain(tasks)
}
