//! What a newer version of a job means for allocations of an older one: nothing, an update in place, or a replacement.

use super::{Group, Job, Network, Port, Task};
use crate::constraint::{Constraint, Operator};

/// What a newer version of a job asks of an allocation of an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionChange {
    /// Nothing: it can stand for one of the newer version.
    Nothing,
    /// To be sent what is new, where its node meets the newer version's conditions: nothing of it is started again.
    InPlace,
    /// To free capacity for one of the newer version.
    Replacement,
}

impl Job {
    /// What the `newer` job asks of an allocation of a group of this one.
    pub(crate) fn change_to(&self, group: &Group, newer: &Self, newer_group: &Group) -> VersionChange {
        if self.runs_the_same(group, newer, newer_group) {
            VersionChange::Nothing
        } else if self.may_become(group, newer, newer_group) {
            VersionChange::InPlace
        } else {
            VersionChange::Replacement
        }
    }

    /// Whether only how many are desired, or how and when they are replaced, differs.
    fn runs_the_same(&self, group: &Group, newer: &Self, newer_group: &Group) -> bool {
        let alike = Group {
            // What the agent does by itself it is to be instructed to do.
            disconnect: if group.stops_alike(newer_group) {
                group.disconnect.clone()
            } else {
                newer_group.disconnect.clone()
            },
            ..newer_group.as_desired_by(group)
        };
        self.where_and_what() == newer.where_and_what() && alike == *group
    }

    fn where_and_what(&self) -> impl PartialEq {
        (self.job_type, &self.node_pool, &self.datacenters, &self.meta, &self.constraints)
    }

    /// Whether all that differs besides is how tasks are watched, restarted and ended, and which nodes may run them.
    fn may_become(&self, group: &Group, newer: &Self, newer_group: &Group) -> bool {
        if (self.job_type, &self.meta) != (newer.job_type, &newer.meta)
            || group.tasks.len() != newer_group.tasks.len()
            || !self.distinct(group).eq(newer.distinct(newer_group))
        {
            return false;
        }
        let tasks = newer_group.tasks.iter().zip(&group.tasks);
        let alike = Group {
            disconnect: group.disconnect.clone(),
            kept: group.kept_but_for_silence(newer_group),
            constraints: group.constraints.clone(),
            restart: group.restart,
            services: group.services.clone(),
            shutdown_delay: group.shutdown_delay,
            max_run_duration: group.max_run_duration,
            tasks: tasks.map(|(newer, task)| newer.as_ended_by(task)).collect(),
            ..newer_group.as_desired_by(group)
        };
        alike == *group
    }

    /// Conditions on allocations among each other: whether all of them still meet these is not seen at one of them.
    fn distinct<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Constraint> {
        let is_distinct =
            |c: &&Constraint| matches!(c.operator, Operator::DistinctHosts | Operator::DistinctProperty);
        let tasks = group.tasks.iter().flat_map(|task| &task.constraints);
        self.constraints.iter().chain(&group.constraints).chain(tasks).filter(is_distinct)
    }
}

/// What came before `disconnect`: settings of it by other names.
const SILENCE: [&str; 3] = ["MaxClientDisconnect", "StopAfterClientDisconnect", "PreventRescheduleOnLost"];

impl Group {
    /// The group with how many of it are desired, and how and when they are replaced, as `other` says.
    fn as_desired_by(&self, other: &Self) -> Self {
        Self {
            count: other.count,
            reschedule: other.reschedule,
            spreads: other.spreads.clone(),
            update: other.update.clone(),
            migrate: other.migrate.clone(),
            scaling: other.scaling.clone(),
            // What is there holds what it was given.
            shares_resources: other.shares_resources,
            networks: spelt_as(&self.networks, &other.networks),
            ..self.clone()
        }
    }

    /// What a newer group keeps besides, with what this one says of silent nodes.
    fn kept_but_for_silence(&self, newer: &Self) -> super::IgnoredSettings {
        let (own, newer) = (self.kept.iter(), newer.kept.iter());
        let is_silence = |name: &str| SILENCE.contains(&name);
        let newer = newer.filter(|(name, _)| !is_silence(name));
        let own = own.filter(|(name, _)| is_silence(name));
        newer.chain(own).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// Networks with what means the same written as others have it.
fn spelt_as(networks: &[Network], others: &[Network]) -> Vec<Network> {
    let mut networks = networks.to_vec();
    let ports = |network: &mut Network| std::mem::take(&mut network.ports);
    for (network, other) in networks.iter_mut().zip(others) {
        let spelt = ports(network).into_iter().enumerate().map(|(at, port)| {
            let other = other.ports.get(at).filter(|other| (other.to, port.to) == (0, 0));
            Port { to_is_host: other.map_or(port.to_is_host, |other| other.to_is_host), ..port }
        });
        network.ports = spelt.collect();
    }
    networks
}

impl Task {
    /// The task, watched, restarted and ended as `other` is.
    fn as_ended_by(&self, other: &Self) -> Self {
        let restart =
            super::RestartPolicy { render_templates: self.restart.render_templates, ..other.restart };
        Self {
            constraints: other.constraints.clone(),
            restart,
            kill_timeout: other.kill_timeout,
            kill_signal: other.kill_signal.clone(),
            shutdown_delay: other.shutdown_delay,
            services: other.services.clone(),
            scaling: other.scaling.clone(),
            ..self.clone()
        }
    }
}
