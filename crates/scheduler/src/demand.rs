//! What one allocation of a group needs of a node, whoever else is there: work that needs the same waits for the same.

use std::{collections::BTreeSet, sync::Arc};

use berth_model::{
    constraint::Operator,
    job::{Group, Job},
    node::Node,
    resources::Resources,
};

use crate::filters::{Feature, Filters, constraints_of, mounts_of};

/// What one allocation of a group needs.
#[derive(Debug)]
pub struct Demand {
    filters: Filters,
    resources: Resources,
    cores: u32,
}

impl Demand {
    /// That of a group.
    pub fn of(job: &Job, group: &Group) -> Self {
        Self { filters: Filters::of(job, group), resources: group.resources(), cores: group.cores() }
    }

    /// Names what a group needs: where one group of this name fits nowhere, another one does not either. Covers all that
    /// [`Filters`] and the placing of an allocation look at but the other allocations of its job, see
    /// [`Self::is_its_own`].
    pub fn key(job: &Job, group: &Group) -> Arc<[u8]> {
        let drivers: BTreeSet<&str> = group.tasks.iter().map(|task| task.driver.as_str()).collect();
        let drivers: Vec<&str> = drivers.into_iter().collect();
        let devices: Vec<_> = group.devices().collect();
        let constraints: Vec<_> = constraints_of(job, group).collect();
        let networks: Vec<_> = group.networks.iter().map(|network| (&network.mode, &network.ports)).collect();
        let mounts: Vec<_> = mounts_of(group).collect();
        let volumes = (&group.volumes, mounts);
        let on_nodes = (&job.node_pool, &job.datacenters, drivers, devices, constraints, networks, volumes);
        let features: Vec<&str> = Feature::needed(group).map(Feature::name).collect();
        let bytes = minicbor::to_vec((on_nodes, features, group.resources(), group.cores()));
        bytes.expect("writing to memory does not fail").into()
    }

    /// Whether where it fits depends on where the other allocations of its job are, and on how many there are.
    pub fn is_its_own(job: &Job, group: &Group) -> bool {
        let is_distinct = |operator| matches!(operator, Operator::DistinctHosts | Operator::DistinctProperty);
        job.job_type.is_per_node()
            || job.all_at_once
            || constraints_of(job, group).any(|constraint| is_distinct(constraint.operator))
    }

    /// Whether a node can run it at all, capacity aside.
    pub fn accepts(&self, node: &Node) -> bool {
        self.filters.check(node).is_ok()
    }

    /// What it holds on this node.
    pub fn on(&self, node: &Node) -> Resources {
        let cpu_mhz = self.cores.saturating_mul(node.core_mhz());
        self.resources.plus(Resources { cpu_mhz, ..Resources::ZERO })
    }

    /// What it holds on any node; the cpu of whole cores comes on top.
    pub fn resources(&self) -> Resources {
        self.resources
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_model::{
        JobKey,
        constraint::Constraint,
        job::{JobType, Network, Port, Task, Volume, VolumeMount},
    };

    use super::*;

    fn job(id: &str) -> Job {
        let mut task = Task::new("t", "exec", JobType::Batch);
        task.env.insert("FRAME".into(), id.into());
        task.resources.memory_mb = 100;
        let group = Group { tasks: vec![task], ..Group::new(format!("g-{id}"), JobType::Batch) };
        Job { groups: vec![group], ..Job::new(JobKey::new(id, id), JobType::Batch) }
    }

    fn mount(job: &mut Job, read_only: bool) {
        job.groups[0].volumes.push(Volume { name: "data".into(), ..Volume::default() });
        job.groups[0].tasks[0].volume_mounts.push(VolumeMount {
            volume: "data".into(),
            destination: "/data".into(),
            read_only,
            propagation_mode: String::new(),
            selinux_label: String::new(),
        });
    }

    fn key(change: impl FnOnce(&mut Job)) -> Arc<[u8]> {
        let mut job = job("a");
        change(&mut job);
        Demand::key(&job, &job.groups[0])
    }

    #[test]
    fn what_a_node_does_not_look_at_makes_no_other_demand() {
        let other = job("b");
        assert_eq!(Demand::key(&other, &other.groups[0]), key(|_| {}));
        assert_eq!(key(|job| job.groups[0].count = 7), key(|_| {}));
    }

    #[test]
    fn whatever_a_node_looks_at_makes_another_demand() {
        let changes: [fn(&mut Job); 13] = [
            |_| {},
            |job| job.node_pool = "gpu".into(),
            |job| job.datacenters = vec!["west".into()],
            |job| job.groups[0].tasks[0].driver = "docker".into(),
            |job| job.groups[0].tasks[0].resources.memory_mb = 101,
            |job| job.groups[0].tasks[0].resources.cores = 1,
            |job| job.groups[0].disk.size_mb = 1,
            |job| {
                let (left, right) = ("${attr.arch}".to_owned(), "arm64".to_owned());
                job.constraints.push(Constraint { left, operator: Operator::Equal, right });
            },
            |job| {
                let port = Port { label: "http".into(), fixed: Some(80), ..Port::default() };
                job.groups[0].networks.push(Network { ports: vec![port], ..Network::default() });
            },
            |job| job.groups[0].networks.push(Network { mode: "bridge".into(), ..Network::default() }),
            |job| job.groups[0].max_run_duration = Some(Duration::from_secs(60)),
            |job| mount(job, false),
            |job| mount(job, true),
        ];
        let keys: BTreeSet<_> = changes.into_iter().map(key).collect();
        assert_eq!(keys.len(), changes.len());
    }
}
