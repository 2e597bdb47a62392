//! A snapshot takes the place of the state while the cluster works.

use berth_model::{command::RestorePart, store::snapshot};

use super::*;

impl Shell {
    /// Puts a state in the place of this one.
    fn restore(&mut self, saved: &Store) {
        let mut records = Vec::new();
        snapshot::write_records(saved, &mut records).unwrap();
        for (number, bytes) in records.chunks(500).enumerate() {
            let granted = saved.granted().max(saved.index());
            let part =
                RestorePart { number: number as u32, bytes: bytes.to_vec(), granted, revives_tokens: None };
            self.request(5000 + number as u64, Command::RestorePart(part));
        }
    }
}

/// A cluster of one node with an allocation, as it was saved.
fn saved() -> (Store, AllocId) {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    (shell.store.clone(), shell.wanted()[0].1)
}

#[test]
fn agents_come_again_and_indexes_go_on() {
    let (saved, alloc) = saved();
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    shell.register(3, 50);
    shell.restore(&saved);
    assert_eq!(shell.store.restored_at(), shell.store.index());
    assert!(shell.store.index() > saved.granted(), "an index that the restored state had may come again");
    assert_eq!(shell.closed, [SessionId(1), SessionId(2)]);
    assert_eq!(shell.wanted().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [alloc]);
    shell.told.clear();
    shell.hello(11, 1, 2, 7);
    let full = |(_, message): &(SessionId, NodeMessage)| {
        matches!(message, NodeMessage::Welcome { mode: WelcomeMode::Full, .. })
    };
    assert!(shell.told.iter().any(full), "what was observed before is forgotten: {:?}", shell.told);
}

#[test]
fn what_the_restored_state_waits_for_is_done() {
    let mut shell = Shell::new();
    shell.register(1, 100);
    let waiting = shell.store.clone();
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.restore(&waiting);
    assert_eq!(shell.wanted().len(), 0, "its node is not known to the restored state");
    shell.join(21, 1);
    assert_eq!(shell.wanted().len(), 1);
}

#[test]
fn a_plan_on_its_way_is_void() {
    let (saved, alloc) = saved();
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    shell.register(1, 100);
    shell.restore(&saved);
    for _ in 0..200 {
        shell.catch_up();
    }
    shell.slow_log = false;
    shell.catch_up();
    assert_eq!(shell.wanted().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [alloc]);
}

#[test]
fn a_node_takes_no_work_before_its_agent_has_reported_to_the_restored_state() {
    let saved = {
        let mut shell = Shell::new();
        shell.join(1, 1);
        shell.store.clone()
    };
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(2, 100);
    let left_over = shell.wanted()[0].1;
    shell.restore(&saved);
    shell.register(1, 50);
    assert_eq!(shell.wanted().len(), 0, "nobody knows what runs there");
    shell.hello(11, 1, 1, 7);
    shell.observe(11, &[(left_over, ClientStatus::Running)]);
    assert_eq!(shell.wanted().len(), 0, "what it runs is not known to the state");
    shell.observe(11, &[(left_over, ClientStatus::Complete)]);
    assert_eq!(shell.wanted().len(), 1);
}

#[test]
fn a_status_on_its_way_while_a_state_is_restored_is_void() {
    let saved = {
        let mut shell = Shell::new();
        shell.join(1, 1);
        shell.store.clone()
    };
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.request(1, Command::SetNodeStatus(NodeId(1), NodeStatus::Initializing, None));
    let restore = |shell: &mut Shell| {
        let mut records = Vec::new();
        snapshot::write_records(&saved, &mut records).unwrap();
        let part = RestorePart { number: 0, bytes: records, granted: saved.granted(), revives_tokens: None };
        shell.request(2, Command::RestorePart(part));
    };
    shell.slow_log = true;
    restore(&mut shell);
    // It is confirmed while the restore is on its way: what it confirmed is another state.
    shell.hello(11, 1, 2, 7);
    shell.observe(11, &[]);
    shell.slow_log = false;
    shell.catch_up();
    assert_eq!(shell.store.node(NodeId(1)).unwrap().1.status, NodeStatus::Initializing);
    shell.hello(12, 1, 3, 7);
    shell.observe(12, &[]);
    assert_eq!(shell.store.node(NodeId(1)).unwrap().1.status, NodeStatus::Ready);
}

#[test]
fn what_is_applied_together_with_a_restore_is_published_at_its_index() {
    let (saved, _) = saved();
    let mut shell = Shell::new();
    shell.slow_log = true;
    shell.request(1, Command::GrantIndexes(Index(1 << 30)));
    let before = shell.log.last().expect("it is proposed").index;
    let mut records = Vec::new();
    snapshot::write_records(&saved, &mut records).unwrap();
    let part = RestorePart { number: 0, bytes: records, granted: Index(0), revives_tokens: None };
    shell.request(2, Command::RestorePart(part));
    shell.slow_log = false;
    shell.catch_up();
    assert!(shell.store.restored_at() > before);
    assert!(shell.published.contains(&before), "readers wait for it: {:?}", shell.published);
}

#[test]
fn a_new_leader_gives_up_a_restore_that_nobody_goes_on_with() {
    let (saved, _) = saved();
    let mut records = Vec::new();
    snapshot::write_records(&saved, &mut records).unwrap();
    let mut shell = Shell::new();
    let first = RestorePart {
        number: 0,
        bytes: records[..100].to_vec(),
        granted: saved.granted(),
        revives_tokens: None,
    };
    shell.request(1, Command::RestorePart(first));
    assert!(shell.store.is_restoring());
    shell.published.clear();
    shell.lead(2);
    assert!(!shell.store.is_restoring());
}

/// It was told to end by a state that is gone: nobody asked for anything to take its place when its end was told.
#[test]
fn what_ended_while_a_state_was_restored_that_wants_it_is_replaced() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (saved, alloc) = (shell.store.clone(), shell.wanted()[0].1);
    shell.register(0, 100);
    assert_eq!(shell.wanted().len(), 0);
    shell.slow_log = true;
    shell.restore(&saved);
    shell.observe(1, &[(alloc, ClientStatus::Complete)]);
    shell.slow_log = false;
    shell.catch_up();
    assert!(shell.store.alloc(alloc).is_some_and(|(_, row)| row.is_terminal()), "its end came true");
    shell.join(21, 1);
    assert_eq!(shell.wanted().len(), 1);
    assert_ne!(shell.wanted()[0].1, alloc);
}
