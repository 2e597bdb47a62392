//! Deployments of jobs that run on every node, under which nodes join and are closed.

use berth_model::{
    command::{DrainNode, NewDrain},
    constraint::{Constraint, Operator},
    deployment::{Deployment, DeploymentStatus},
    job::{Disconnect, Reconcile, Update},
};

use super::*;

/// Node by node, and each at once after the one before.
fn log(memory_mb: u32) -> Job {
    log_as(memory_mb, Update::default())
}

fn log_as(memory_mb: u32, update: Update) -> Job {
    let mut job = Job { job_type: JobType::System, ..job(1, memory_mb) };
    let update = Update { max_parallel: 1, stagger: Duration::ZERO, ..update };
    job.groups[0].update = Some(Box::new(update));
    job
}

/// One of three is a canary, and the first failure ends the deployment: no time limits how long it takes.
fn one_canary() -> Update {
    Update { canary: 30, progress_deadline: Duration::ZERO, ..Update::default() }
}

impl Shell {
    /// What should run on a node does and is well, what should end has.
    pub(super) fn settle_on(&mut self, node: u128) {
        let (_, row) = self.store.node(NodeId(node)).expect("it is there");
        let live = self.store.nodes().live(row).filter_map(|slot| self.store.allocs().row(slot));
        let (runs, ends): (Vec<_>, Vec<_>) = live.map(|row| (row.id, row.is_desired())).partition(|of| of.1);
        let with = |all: Vec<(AllocId, bool)>, status| -> Vec<_> {
            all.into_iter().map(|(id, _)| (id, status)).collect()
        };
        self.observe(node as u64, &with(ends, ClientStatus::Complete));
        self.observe_as(node as u64, &with(runs, ClientStatus::Running), Some(true));
        self.tick(1);
    }

    /// What runs on a node fails.
    fn fail_on(&mut self, node: u128) {
        let on: Vec<_> = self.wanted().into_iter().filter(|(.., of)| of.0 == node).collect();
        let failed: Vec<_> = on.into_iter().map(|(_, id, _)| (id, ClientStatus::Failed)).collect();
        self.observe_as(node as u64, &failed, Some(false));
        self.tick(1);
    }

    fn open(&mut self, node: u128, eligible: bool) {
        self.seeds += 1;
        self.request(self.seeds, Command::SetNodeEligibility(NodeId(node), eligible));
    }

    /// Nothing is heard of a node any more, until it is lost.
    fn lose(&mut self, node: u64) {
        self.sessions.remove(&node);
        self.pass(40);
        let (_, row) = self.store.node(NodeId(node.into())).expect("it is there");
        assert_eq!(row.status, NodeStatus::Down);
    }

    fn rollout(&self) -> DeploymentStatus {
        self.newest().status
    }

    /// The nodes with a version.
    fn nodes_with(&self, version: u64) -> Vec<u128> {
        self.versions().into_iter().filter(|(_, of)| *of == version).map(|(node, _)| node.0).collect()
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
    nodes(2)
}

/// A job that takes what the first version leaves of the first node, but for less than a second one needs.
fn fills_first() -> Job {
    let mut job = Job { key: JobKey::new("default", "fills"), ..job(1, 920) };
    let (left, right) = ("${node.unique.name}".to_owned(), "n1".to_owned());
    job.groups[0].constraints = vec![Constraint { left, operator: Operator::Equal, right }];
    job
}

/// So many nodes with the first version, which is well.
fn nodes(count: u128) -> Shell {
    let mut shell = Shell::new();
    (1..=count).for_each(|node| shell.join(node as u64, node));
    shell.register_job(log(50));
    (1..=count).for_each(|node| shell.settle_on(node));
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
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

/// Nobody is asked for a promotion that would change nothing, and no other node is held up by it.
#[test]
fn a_deployment_ends_once_neither_its_canary_nor_anything_to_compare_it_with_is_left() {
    let mut shell = nodes(3);
    shell.register_job(log_as(60, one_canary()));
    assert_eq!(shell.nodes_with(1), [1]);
    shell.settle_on(1);
    assert_eq!(shell.rollout(), DeploymentStatus::Running, "it waits for its promotion");
    shell.open(2, false);
    shell.open(3, false);
    assert_eq!(shell.rollout(), DeploymentStatus::Running, "and can be promoted still");
    shell.join(4, 4);
    shell.settle_on(4);
    shell.lose(1);
    assert_eq!((shell.nodes_with(0), shell.nodes_with(1)), (vec![2, 3], vec![4]));
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
    shell.open(2, true);
    shell.settle_on(2);
    shell.open(3, true);
    shell.settle_on(3);
    assert_eq!(shell.nodes_with(1), [2, 3, 4], "nobody has to promote what is over");
}

#[test]
fn a_canary_whose_node_is_lost_is_placed_anew_and_promoted() {
    let mut shell = nodes(3);
    shell.register_job(log_as(60, Update { auto_promote: true, ..one_canary() }));
    assert_eq!(shell.nodes_with(1), [1]);
    shell.lose(1);
    assert_eq!((shell.nodes_with(0), shell.nodes_with(1)), (vec![3], vec![2]));
    shell.settle_on(2);
    assert_eq!(shell.nodes_with(1), [2, 3]);
    shell.settle_on(3);
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
}

/// There is one canary, on the first node that takes new work, where it has no room. Once that node is closed it goes to the next.
#[test]
fn a_canary_without_capacity_is_placed_elsewhere_once_its_node_is_closed() {
    for is_closed_meanwhile in [false, true] {
        let mut shell = nodes(3);
        shell.register_job(fills_first());
        assert_eq!(shell.wanted().len(), 4, "{is_closed_meanwhile}");
        shell.in_hand = is_closed_meanwhile.then(Vec::new);
        shell.register_job(log_as(200, one_canary()));
        let requests = shell.in_hand.take().unwrap_or_default();
        let planned: Vec<_> = requests.into_iter().map(|requests| shell.plan(requests)).collect();
        assert_eq!(shell.nodes_with(1), [], "there is no room for it on the first");
        shell.open(1, false);
        planned.into_iter().for_each(|planned| shell.tell(planned));
        assert_eq!(shell.could_be_placed(), [""; 0]);
        assert_eq!(shell.nodes_with(1), [2]);
    }
}

#[test]
fn a_deployment_ends_when_the_last_node_that_it_waits_for_is_closed() {
    let mut shell = nodes(3);
    shell.register_job(log(60));
    shell.settle_on(1);
    assert_eq!((shell.nodes_with(0), shell.nodes_with(1)), (vec![3], vec![1, 2]));
    shell.open(3, false);
    assert_eq!(shell.rollout(), DeploymentStatus::Running);
    shell.lose(2);
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
    assert_eq!((shell.nodes_with(0), shell.nodes_with(1)), (vec![3], vec![1]));
    shell.open(3, true);
    assert_eq!(shell.nodes_with(1), [1, 3]);
}

#[test]
fn nodes_that_are_drained_are_not_waited_for() {
    let mut shell = nodes(2);
    shell.register_job(log(60));
    shell.settle_on(1);
    let drain = NewDrain { deadline: None, ignore_system: true, requested_ns: 0 };
    let drain = DrainNode { node: NodeId(2), drain: Some(drain), eligible: false, meta: BTreeMap::new() };
    assert_eq!(shell.rollout(), DeploymentStatus::Running);
    shell.request(900, Command::DrainNode(Box::new(drain)));
    shell.settle_on(2);
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
}

/// What was well once may fail while the others are updated: nothing more is replaced, and no time is left to wait for.
#[test]
fn a_deployment_that_fails_at_once_does_so_for_what_was_healthy_before() {
    let mut shell = nodes(3);
    shell.register_job(log_as(60, Update { progress_deadline: Duration::ZERO, ..Update::default() }));
    shell.settle_on(1);
    assert_eq!(shell.nodes_with(1), [1, 2]);
    shell.fail_on(1);
    assert_eq!(shell.rollout(), DeploymentStatus::Failed);
}

#[test]
fn a_deployment_is_not_successful_where_its_last_allocation_fails() {
    let mut shell = two_nodes();
    shell.register_job(log(60));
    shell.settle_on(1);
    shell.fail_on(2);
    assert_eq!(shell.rollout(), DeploymentStatus::Running);
    shell.pass(700);
    assert_eq!(shell.rollout(), DeploymentStatus::Failed);
}

/// With the first of its nodes silent, which may come back.
/// It failed before the rollback, and another has run in its place since.
#[test]
fn what_failed_of_the_version_that_a_rollback_returns_to_does_not_end_what_runs_by_now() {
    let mut shell = two_nodes();
    shell.fail_on(1);
    assert_eq!(shell.nodes_with(0), [2]);
    shell.register_job(log(60));
    shell.settle_on(1);
    shell.settle_on(2);
    assert_eq!(shell.nodes_with(1), [1, 2]);
    shell.register_job(log(50));
    assert_eq!(shell.wanted().len(), 2, "what runs is replaced, one by one: {:?}", shell.versions());
    shell.settle_on(1);
    shell.settle_on(2);
    assert_eq!(shell.nodes_with(2), [1, 2]);
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
}

#[test]
fn a_rollback_is_not_held_up_by_what_failed_of_the_version_that_it_returns_to() {
    let mut shell = two_nodes();
    shell.fail_on(1);
    shell.register_job(log(60));
    shell.settle_on(1);
    shell.settle_on(2);
    shell.fail_on(1);
    assert_eq!(shell.versions(), [(NodeId(2), 1)].into(), "what failed is not started again");
    shell.register_job(log(50));
    assert_eq!(shell.versions(), [(NodeId(2), 2)].into());
    shell.settle_on(2);
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
}

#[test]
fn nodes_that_are_silent_hold_up_no_others() {
    let mut shell = nodes(4);
    let mut job = log(60);
    let lost_after = Some(Duration::from_secs(3_600));
    job.groups[0].disconnect = Some(Box::new(Disconnect {
        lost_after,
        stop_on_client_after: None,
        replace: false,
        reconcile: Reconcile::BestScore,
    }));
    shell.register_job(job);
    shell.sessions.remove(&1);
    shell.pass(40);
    for node in 2..=4 {
        assert_eq!(shell.nodes_with(1), (1..=node).collect::<Vec<_>>());
        shell.settle_on(node);
    }
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
}

#[test]
fn a_group_whose_only_node_leaves_is_not_waited_for() {
    let mut shell = Shell::new();
    (1..=2).for_each(|node| shell.join(node as u64, node));
    let of = |memory_mb| {
        let mut job = log(memory_mb);
        let only = |rack: &str| Constraint {
            left: "${meta.rack}".to_owned(),
            operator: Operator::Equal,
            right: rack.to_owned(),
        };
        job.groups.push(Group {
            name: "h".to_owned(),
            constraints: vec![only("r0")],
            ..job.groups[0].clone()
        });
        job.groups[0].constraints = vec![only("r1")];
        job
    };
    shell.register_job(of(50));
    (1..=2).for_each(|node| shell.settle_on(node));
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
    shell.register_job(of(60));
    assert_eq!(shell.nodes_with(1), [1, 2]);
    shell.lose(2);
    shell.settle_on(1);
    assert_eq!(shell.rollout(), DeploymentStatus::Successful);
}
