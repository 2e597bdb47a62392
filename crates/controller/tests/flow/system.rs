//! Deployments of jobs that run on every node, under which nodes join and are closed.

use berth_model::{
    deployment::{Deployment, DeploymentStatus},
    job::Update,
};

use super::*;

/// Node by node, and each at once after the one before.
fn log(memory_mb: u32) -> Job {
    let mut job = Job { job_type: JobType::System, ..job(1, memory_mb) };
    let update = Update { max_parallel: 1, stagger: Duration::ZERO, ..Update::default() };
    job.groups[0].update = Some(Box::new(update));
    job
}

impl Shell {
    /// What should run on a node does and is well, what should end has.
    fn settle_on(&mut self, node: u128) {
        let (_, row) = self.store.node(NodeId(node)).expect("it is there");
        let live = self.store.nodes().live(row).filter_map(|slot| self.store.allocs().row(slot));
        let (runs, ends): (Vec<_>, Vec<_>) = live.map(|row| (row.id, row.is_wanted())).partition(|of| of.1);
        let with = |all: Vec<(AllocId, bool)>, status| -> Vec<_> {
            all.into_iter().map(|(id, _)| (id, status)).collect()
        };
        self.observe(node as u64, &with(ends, ClientStatus::Complete));
        self.observe_as(node as u64, &with(runs, ClientStatus::Running), Some(true));
        self.tick(1);
    }

    fn newest(&self) -> &Deployment {
        self.store.deployments().iter().max_by_key(|of| of.create_index).expect("there is one")
    }

    /// The versions that should run on each node.
    fn versions(&self) -> BTreeMap<NodeId, u64> {
        let version = |slot| self.store.allocs().row(slot).expect("it is there").job_version;
        self.wanted().into_iter().map(|(slot, _, node)| (node, version(slot))).collect()
    }
}

/// Two nodes with the first version, which is well.
fn two_nodes() -> Shell {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    shell.register_job(log(50));
    shell.settle_on(1);
    shell.settle_on(2);
    assert_eq!(shell.newest().status, DeploymentStatus::Successful);
    shell
}

#[test]
fn a_node_that_joins_does_not_end_a_deployment_before_the_others_are_updated() {
    let mut shell = two_nodes();
    shell.register_job(log(60));
    let old = || NodeId(2);
    assert_eq!(shell.versions(), [(NodeId(1), 1), (old(), 0)].into());
    shell.join(3, 3);
    shell.settle_on(3);
    shell.settle_on(1);
    assert_eq!(shell.versions(), [(NodeId(1), 1), (old(), 1), (NodeId(3), 1)].into());
    assert_eq!(shell.newest().status, DeploymentStatus::Running);
    shell.settle_on(2);
    assert_eq!(shell.newest().status, DeploymentStatus::Successful);
}

#[test]
fn a_node_that_is_closed_keeps_its_version_and_no_deployment_waits_for_it() {
    let mut shell = two_nodes();
    shell.request(101, Command::SetNodeEligibility(NodeId(2), false));
    shell.register_job(log(60));
    shell.settle_on(1);
    assert_eq!(shell.versions(), [(NodeId(1), 1), (NodeId(2), 0)].into());
    assert_eq!(shell.newest().status, DeploymentStatus::Successful);
    shell.request(102, Command::SetNodeEligibility(NodeId(2), true));
    assert_eq!(shell.versions(), [(NodeId(1), 1), (NodeId(2), 1)].into());
}
