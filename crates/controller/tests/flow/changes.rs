//! Nodes that change while their agents are connected.

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
fn a_node_that_grows_takes_what_waits_for_room() {
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

#[test]
fn who_changes_too_often_is_turned_away_and_may_come_again() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let memory_mb = shell.memory_mb();
    shell.redescribe(1, memory_mb + 1);
    shell.pass(9);
    shell.redescribe(1, memory_mb + 2);
    assert_eq!((shell.memory_mb(), &*shell.closed), (memory_mb + 1, &[SessionId(1)][..]));
    // Nor is anybody believed whose session is not this node's.
    shell.redescribe(7, 1);
    assert_eq!(shell.memory_mb(), memory_mb + 1);
}
