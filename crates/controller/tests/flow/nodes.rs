//! Nodes that fall silent and return, and what their agents are told.

use super::*;

#[test]
fn a_silent_node_is_given_up_and_comes_back() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    shell.register(1, 100);
    let (_, id, home) = shell.wanted()[0];
    let other = 3 - home.0 as u64;
    for _ in 0..4 {
        shell.tick(5);
        shell.heartbeat(other);
    }
    assert_eq!(shell.store.node(home).unwrap().1.status, NodeStatus::Down);
    assert_eq!(shell.wanted()[0].2, NodeId(u128::from(other)));
    assert!(shell.closed.contains(&SessionId(home.0 as u64)));
    shell.told.clear();
    shell.hello(7, home.0, 1, 0);
    let welcome = |m: &NodeMessage| matches!(m, NodeMessage::Welcome { mode: WelcomeMode::Full, .. });
    assert!(shell.told.iter().any(|(s, m)| *s == SessionId(7) && welcome(m)), "{:?}", shell.told);
    shell.observe(7, &[(id, ClientStatus::Running)]);
    let status = |shell: &Shell| shell.store.node(home).unwrap().1.status;
    assert_eq!(status(&shell), NodeStatus::Down, "what was declared lost still holds its room");
    shell.observe(7, &[(id, ClientStatus::Complete)]);
    assert_eq!(status(&shell), NodeStatus::Ready);
    let forgets = shell
        .told
        .iter()
        .any(|(_, m)| matches!(m, NodeMessage::Desired(desired) if desired.forget.contains(&id)));
    assert!(forgets, "the agent was not told that its allocation was given up");
}

/// An agent that is told to remove what still runs never tells of its end, and the node would never take work again.

#[test]
fn what_still_runs_is_not_removed_before_it_has_ended() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, id, home) = shell.wanted()[0];
    shell.tick(20);
    shell.hello(7, 1, 1, 0);
    shell.observe(7, &[(id, ClientStatus::Running)]);
    shell.told.clear();
    let deregister = DeregisterJob { job: JobKey::new("default", "web"), purge: true, eval: EvalId(5) };
    shell.request(99, Command::DeregisterJob(deregister));
    shell.pass(2);
    assert!(shell.store.alloc(id).is_none(), "a purged job's allocation is still there");
    let is_removed = |shell: &Shell| {
        let removes =
            |m: &NodeMessage| matches!(m, NodeMessage::Desired(desired) if desired.purge.contains(&id));
        shell.told.iter().any(|(_, m)| removes(m))
    };
    assert!(!is_removed(&shell), "it still runs");
    shell.observe(7, &[(id, ClientStatus::Complete)]);
    assert_eq!(shell.store.node(home).unwrap().1.status, NodeStatus::Ready);
    assert!(is_removed(&shell), "its files stay for ever");
}

#[test]
fn an_agent_that_holds_the_same_tells_nothing_anew() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, id, _) = shell.wanted()[0];
    shell.observe(1, &[(id, ClientStatus::Running)]);
    let digest = observed(id, ClientStatus::Running).hash;
    shell.tell(Event::SessionClosed(SessionId(1)));
    shell.told.clear();
    shell.hello(2, 1, 1, digest);
    assert!(
        matches!(
            shell.told.as_slice(),
            [(SessionId(2), NodeMessage::Welcome { mode: WelcomeMode::Equal, .. })]
        ),
        "{:?}",
        shell.told
    );
    shell.hello(3, 1, 2, digest + 1);
    assert!(shell.told.iter().any(
        |(s, m)| *s == SessionId(3) && matches!(m, NodeMessage::Welcome { mode: WelcomeMode::Full, .. })
    ));
    shell.hello(4, 1, 1, digest);
    assert!(
        shell.told.iter().any(|(s, m)| *s == SessionId(4) && matches!(m, NodeMessage::Refused { .. })),
        "an older agent got in"
    );
}

#[test]
fn agents_are_sent_a_longer_heartbeat_interval_when_it_suffices() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let heartbeat_intervals = |shell: &Shell| {
        let every = |message: &NodeMessage| match message {
            NodeMessage::Welcome { heartbeat_ms, .. } | NodeMessage::HeartbeatEvery { heartbeat_ms } => {
                Some(*heartbeat_ms)
            }
            _ => None,
        };
        shell.told.iter().filter_map(|(_, message)| every(message)).collect::<Vec<_>>()
    };
    shell.heartbeat(1);
    assert_eq!(heartbeat_intervals(&shell), [5_000]);
    let commands: Vec<Command> = (2..=10_001).map(|id| Command::RegisterNode(Box::new(node(id)))).collect();
    for some in commands.chunks(1_000) {
        shell.tell(Event::Requested(Request { token: RequestToken(7), commands: some.to_vec().into() }));
    }
    assert_eq!(heartbeat_intervals(&shell), [5_000], "it is told when it is heard");
    shell.heartbeat(1);
    shell.heartbeat(1);
    assert_eq!(heartbeat_intervals(&shell), [5_000, 9_000]);
}

#[test]
fn a_node_that_no_entry_holds_is_refused_for_good() {
    let mut shell = Shell::new();
    let large = Node { host_ip: "x".repeat(2 << 20), ..node(1) };
    shell.hello_of(1, large, 1, 0);
    let refused = shell.told.iter().find_map(|(_, message)| match message {
        NodeMessage::Refused { reason, retry } => Some((reason.as_str(), *retry)),
        _ => None,
    });
    let (reason, retry) = refused.expect("it is told");
    assert!(reason.contains("more than an entry of the log holds") && !retry, "{reason}, again: {retry}");
}

#[test]
fn a_cluster_has_so_many_nodes_and_no_more() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let others: Vec<u128> = (2..NODES_MAX as u128).collect();
    for some in others.chunks(1_000) {
        let commands = some.iter().map(|id| Command::RegisterNode(Box::new(node(*id)))).collect();
        let index = Index(shell.store.index().0 + 1);
        shell.store.apply(Entry::new(index, Timestamp(index.0), commands));
    }
    shell.lead(2);
    let (last, more) = (NODES_MAX as u128, NODES_MAX as u128 + 1);
    let refused = |shell: &Shell, of: u64| {
        let messages = shell.told.iter().filter(|(session, _)| *session == SessionId(of));
        messages
            .filter_map(|(_, message)| match message {
                NodeMessage::Refused { reason, retry } => Some((reason.clone(), *retry)),
                _ => None,
            })
            .next()
    };
    shell.hello(2, last, 1, 0);
    assert_eq!(refused(&shell, 2), None);
    shell.hello(3, more, 1, 0);
    let reason =
        "the cluster has 200000 nodes, and takes no more: `berth system gc` removes those that are gone";
    assert_eq!(refused(&shell, 3), Some((reason.to_owned(), true)));
    shell.hello(4, 1, 2, 0);
    assert_eq!(refused(&shell, 4), None, "one that is known comes back");
    assert_eq!(shell.store.nodes().len(), NODES_MAX);
}
