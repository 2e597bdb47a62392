//! Nodes that change while their agents are connected.

use std::collections::BTreeSet;

use super::*;

impl Shell {
    /// The agent of node 1 says that its memory is now this; it never says its secret again.
    fn redescribe(&mut self, session: u64, memory_mb: u32) {
        let mut node = Node { secret_hash: Vec::new(), ..node(1) };
        node.total.memory_mb = memory_mb;
        self.tell(Event::NodeChanged(SessionId(session), Box::new(node)));
    }

    fn memory_mb(&self) -> u32 {
        let (slot, _) = self.store.node(NodeId(1)).expect("a node");
        let detail = self.store.nodes().detail(slot).expect("a node");
        assert_eq!(detail.node.secret_hash, node(1).secret_hash);
        detail.node.total.memory_mb
    }
}

#[test]
fn a_node_that_grows_takes_what_waits_for_capacity() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let memory_mb = shell.memory_mb();
    shell.register(1, memory_mb + 1);
    assert_eq!(shell.wanted(), []);
    shell.redescribe(1, memory_mb + 1);
    shell.pass(1);
    assert_eq!((shell.memory_mb(), shell.wanted().len()), (memory_mb + 1, 1));
    assert_eq!((shell.closed.len(), shell.store.node(NodeId(1)).unwrap().1.status), (0, NodeStatus::Ready));
}

#[test]
fn what_changes_back_before_it_is_written_ends_as_it_is() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let memory_mb = shell.memory_mb();
    shell.slow_log = true;
    shell.redescribe(1, memory_mb * 2);
    shell.pass(11);
    shell.redescribe(1, memory_mb);
    shell.slow_log = false;
    shell.catch_up();
    shell.pass(1);
    assert_eq!((shell.memory_mb(), shell.closed.len()), (memory_mb, 0));
}

/// An operator changes the metadata of a node twice, and the agent says so a second apart, or at once after a stall.
#[test]
fn a_node_may_change_several_times_in_a_row() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let memory_mb = shell.memory_mb();
    for more in 1..=3 {
        shell.redescribe(1, memory_mb + more);
        shell.pass(1);
        assert_eq!((shell.memory_mb(), shell.closed.len()), (memory_mb + more, 0));
    }
    shell.redescribe(1, memory_mb + 4);
    shell.redescribe(1, memory_mb + 5);
    assert_eq!((shell.memory_mb(), shell.closed.len()), (memory_mb + 5, 0));
}

#[test]
fn of_a_node_that_changes_all_the_time_the_latest_is_written_once_in_a_while() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let memory_mb = shell.memory_mb();
    let mut seen = BTreeSet::new();
    for second in 1..=60 {
        shell.redescribe(1, memory_mb + second);
        shell.pass(1);
        seen.insert(shell.memory_mb());
    }
    assert!((10..=15).contains(&seen.len()), "eight at once, then one each ten seconds: {seen:?}");
    shell.pass(10);
    assert_eq!((shell.memory_mb(), shell.closed.len()), (memory_mb + 60, 0), "the last one is not lost");
    // Nor is anybody believed whose session is not this node's.
    shell.redescribe(7, 1);
    assert_eq!(shell.memory_mb(), memory_mb + 60);
}

#[test]
fn what_waits_is_overtaken_by_a_new_session() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let memory_mb = shell.memory_mb();
    (1..=9).for_each(|more| shell.redescribe(1, memory_mb + more));
    assert_eq!(shell.memory_mb(), memory_mb + 8);
    shell.join(2, 1);
    shell.pass(30);
    assert_eq!(shell.memory_mb(), memory_mb, "as the newer hello says");
}
