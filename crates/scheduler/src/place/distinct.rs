//! Constraints between allocations: `distinct_hosts` and `distinct_property`. Those of a job are about
//! all of its allocations, those of a group and its tasks about the group's.

use std::collections::HashMap;

use berth_model::{
    constraint::{Constraint, Operator},
    job::{Group, Job},
    store::NodeSlot,
};

use super::requirements::{Requirements, Zone};

/// Keeps the distinct constraints of one group while a plan is made.
#[derive(Debug, Default)]
pub struct DistinctRules {
    hosts: Option<DistinctHosts>,
    properties: Vec<DistinctPropertyRule>,
}

#[derive(Debug)]
struct DistinctHosts {
    of_job: bool,
    /// How many are there.
    taken: HashMap<NodeSlot, u32>,
}

#[derive(Debug)]
struct DistinctPropertyRule {
    /// Its position among the attributes of [`Requirements`].
    attribute: usize,
    of_job: bool,
    reason: String,
    most: u32,
    /// By value.
    counts: Vec<u32>,
}

impl DistinctRules {
    /// The distinct constraints of a group.
    pub fn of(job: &Job, group: &Group, requirements: &Requirements) -> Self {
        let mut distinct = Self::default();
        let mut attribute = job.spreads.len() + group.spreads.len();
        let own = group.constraints.iter().chain(group.tasks.iter().flat_map(|task| &task.constraints));
        let all = job.constraints.iter().map(|c| (c, true)).chain(own.map(|c| (c, false)));
        for (constraint, of_job) in all {
            match constraint.operator {
                Operator::DistinctHosts if constraint.right != "false" => {
                    let of_job = of_job || distinct.hosts.as_ref().is_some_and(|hosts| hosts.of_job);
                    distinct.hosts = Some(DistinctHosts { of_job, taken: HashMap::new() });
                }
                Operator::DistinctProperty => {
                    distinct.properties.push(DistinctPropertyRule {
                        attribute,
                        of_job,
                        reason: constraint.to_string(),
                        most: most(constraint),
                        counts: vec![0; requirements.attributes[attribute].values.len()],
                    });
                    attribute += 1;
                }
                _ => {}
            }
        }
        distinct
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_none() && self.properties.is_empty()
    }

    /// Whether a node can hold one allocation alone.
    pub fn is_by_host(&self) -> bool {
        self.hosts.is_some()
    }

    /// An allocation is on a node with these values; of the same group, or of another one of the job.
    pub fn add(&mut self, slot: NodeSlot, values: &[Option<usize>], of_group: bool) {
        if let Some(hosts) = self.hosts.as_mut().filter(|hosts| hosts.of_job || of_group) {
            *hosts.taken.entry(slot).or_default() += 1;
        }
        for property in self.properties.iter_mut().filter(|property| property.of_job || of_group) {
            if let Some(value) = values[property.attribute] {
                property.counts[value] += 1;
            }
        }
    }

    /// An allocation of the group that was on a node counts no more.
    pub fn remove(&mut self, slot: NodeSlot, values: &[Option<usize>]) {
        if let Some(hosts) = &mut self.hosts
            && let Some(count) = hosts.taken.get_mut(&slot)
        {
            *count -= 1;
            if *count == 0 {
                hosts.taken.remove(&slot);
            }
        }
        for property in &mut self.properties {
            if let Some(value) = values[property.attribute] {
                property.counts[value] -= 1;
            }
        }
    }

    /// Whether one more may go to a node.
    ///
    /// # Errors
    /// The reason as users read it.
    pub fn check(&self, slot: NodeSlot, zone: &Zone) -> Result<(), &str> {
        if self.hosts.as_ref().is_some_and(|hosts| hosts.taken.contains_key(&slot)) {
            return Err("distinct_hosts");
        }
        self.check_zone(zone)
    }

    /// Whether one more may go to any node of a zone.
    ///
    /// # Errors
    /// The reason as users read it.
    pub fn check_zone(&self, zone: &Zone) -> Result<(), &str> {
        let full = |property: &&DistinctPropertyRule| {
            zone.values[property.attribute].is_none_or(|value| property.counts[value] >= property.most)
        };
        self.properties.iter().find(full).map_or(Ok(()), |property| Err(&property.reason))
    }
}

/// Allocations that one value may have: 1 where the constraint does not say.
fn most(constraint: &Constraint) -> u32 {
    constraint.right.parse().unwrap_or(1)
}
