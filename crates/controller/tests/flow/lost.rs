//! Many nodes that fall silent at once: no more than a share of them is declared lost.

use berth_model::{command::SetSchedulerConfig, scheduling::SchedulerConfig};

use super::*;

impl Shell {
    /// So many nodes, each with an allocation.
    fn cluster_of(count: u128) -> Self {
        let mut shell = Self::new();
        (1..=count).for_each(|node| shell.join(node as u64, node));
        shell.register(count as u32, 600);
        assert_eq!(shell.wanted().len(), count as usize);
        shell.pass(40);
        shell
    }

    /// Nothing is heard of these nodes any more.
    fn cut(&mut self, nodes: std::ops::RangeInclusive<u64>) {
        self.sessions.retain(|node, _| !nodes.contains(node));
    }

    fn down(&self) -> usize {
        self.store.nodes().iter().filter(|(_, row)| row.status == NodeStatus::Down).count()
    }

    fn may_lose(&mut self, percent: u8) {
        let config = SchedulerConfig { lost_nodes_max_percent: Some(percent), ..SchedulerConfig::default() };
        let set = SetSchedulerConfig { config, only_if: None };
        self.request(999, Command::SetSchedulerConfig(Box::new(set)));
    }
}

/// Agents are sent away meanwhile, and look for a server that leads.
#[test]
fn a_leader_that_hears_no_majority_declares_nothing_lost_and_waits_once_it_does() {
    let mut shell = Shell::cluster_of(6);
    let placed = shell.wanted();
    shell.tell(Event::Majority { heard: false });
    shell.cut(1..=2);
    shell.pass(60);
    assert_eq!(shell.down(), 0);
    shell.tell(Event::Majority { heard: true });
    for (_, alloc, node) in placed.iter().filter(|(.., node)| node.0 > 2) {
        shell.hello(node.0 as u64 + 100, node.0, 1, 0);
        shell.observe(node.0 as u64 + 100, &[(*alloc, ClientStatus::Running)]);
    }
    shell.pass(20);
    assert_eq!((shell.down(), shell.wanted()), (0, placed), "they have as long as after an election");
    shell.pass(10);
    assert_eq!(shell.down(), 2, "and no longer");
}

#[test]
fn a_share_of_the_nodes_is_declared_lost() {
    let mut shell = Shell::cluster_of(20);
    shell.cut(1..=8);
    shell.pass(20);
    assert_eq!((shell.down(), shell.recovery.held), (8, 0), "two fifths of them");
}

/// They fall silent within the time between two heartbeats, and are overdue one after the other.
#[test]
fn more_than_a_share_is_held_as_a_whole_and_goes_on_when_it_is_back() {
    let mut shell = Shell::cluster_of(20);
    let placed = shell.wanted();
    for node in 1..=9 {
        shell.cut(node..=node);
        shell.pass(u64::from(node % 2 == 0));
    }
    shell.pass(600);
    assert_eq!((shell.down(), shell.recovery.held), (0, 9));
    assert_eq!(shell.recovery.held_nodes.len(), 9);
    assert_eq!(shell.wanted(), placed, "work of nodes was replaced that are silent behind a broken switch");
    (1..=9).for_each(|node| shell.hello(node + 100, node.into(), 1, 0));
    let of = |id: u128| placed.iter().filter(move |(.., node)| node.0 == id).map(|(_, alloc, _)| *alloc);
    for node in 1..=9 {
        let statuses: Vec<_> = of(node).map(|alloc| (alloc, ClientStatus::Running)).collect();
        shell.observe(node as u64 + 100, &statuses);
    }
    shell.pass(1);
    assert_eq!((shell.down(), shell.recovery.held), (0, 0));
    shell.pass(60);
    assert_eq!(shell.wanted(), placed);
}

#[test]
fn when_few_enough_are_left_the_others_are_lost() {
    let mut shell = Shell::cluster_of(20);
    shell.cut(1..=12);
    shell.pass(60);
    assert_eq!((shell.down(), shell.recovery.held), (0, 12));
    (1..=4).for_each(|node| shell.join(node + 100, node.into()));
    shell.pass(1);
    assert_eq!((shell.down(), shell.recovery.held), (8, 0), "eight are as many as may be lost");
}

#[test]
fn what_was_lost_of_late_counts() {
    let mut shell = Shell::cluster_of(20);
    shell.cut(1..=5);
    shell.pass(60);
    shell.cut(6..=9);
    shell.pass(60);
    assert_eq!((shell.down(), shell.recovery.held), (5, 4), "nine within minutes");
    shell.lead(2);
    (10..=20).for_each(|node| shell.join(node, node.into()));
    shell.pass(60);
    assert_eq!((shell.down(), shell.recovery.held), (5, 4), "another leader counts from the state");
    shell.pass(300);
    assert_eq!((shell.down(), shell.recovery.held), (9, 0), "by then four of fifteen are silent");
}

#[test]
fn operators_let_go_of_nodes_that_are_gone() {
    let mut shell = Shell::cluster_of(20);
    shell.cut(1..=19);
    shell.pass(60);
    assert_eq!((shell.down(), shell.recovery.held), (0, 19));
    shell.may_lose(100);
    shell.pass(1);
    assert_eq!((shell.down(), shell.recovery.held), (19, 0));
}

#[test]
fn a_new_leader_holds_those_that_do_not_come_back() {
    let mut shell = Shell::cluster_of(20);
    shell.lead(2);
    (1..=10).for_each(|node| shell.join(node, node.into()));
    shell.pass(20);
    assert_eq!((shell.recovery.unheard, shell.recovery.held), (10, 0), "they have time to come back");
    assert!(shell.recovery.grace_until > shell.at());
    shell.pass(20);
    assert_eq!((shell.down(), shell.recovery.held), (0, 10));
}

#[test]
fn few_nodes_are_always_lost() {
    let mut shell = Shell::cluster_of(6);
    shell.cut(1..=5);
    shell.pass(20);
    assert_eq!((shell.down(), shell.recovery.held), (5, 0));
}

/// A cluster that shrinks by half overnight.
#[test]
fn nodes_that_are_closed_and_empty_are_lost_however_many() {
    let mut shell = Shell::cluster_of(20);
    let deregister = DeregisterJob { job: JobKey::new("default", "web"), purge: false, eval: EvalId(5) };
    shell.request(99, Command::DeregisterJob(deregister));
    let live: Vec<_> = shell.store.allocs().iter().filter(|(_, row)| !row.is_terminal()).collect();
    let live: Vec<_> = live.iter().map(|(_, row)| (row.id, row.node)).collect();
    for (alloc, node) in live {
        let id = shell.store.nodes().row(node).unwrap().id;
        shell.observe(id.0 as u64, &[(alloc, ClientStatus::Complete)]);
    }
    for node in 1..=15 {
        shell.request(500 + node, Command::SetNodeEligibility(NodeId(node.into()), false));
    }
    shell.cut(1..=14);
    shell.pass(20);
    assert_eq!((shell.down(), shell.recovery.held), (14, 0));
    shell.cut(16..=16);
    shell.pass(20);
    assert_eq!((shell.down(), shell.recovery.held), (15, 0), "they do not count among those that are lost");
}
