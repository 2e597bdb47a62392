//! Links that lose messages in one direction, agents that hold what they should not, and those of other clusters.

use berth_model::{
    alloc::ClientStatus::{Complete, Failed, Lost, Pending, Running},
    ids::IdSeed,
};

use super::*;

impl Shell {
    fn refusals(&self, session: u64) -> Vec<&str> {
        let of = self.told.iter().filter(|(of, _)| *of == SessionId(session));
        of.filter_map(
            |(_, m)| if let NodeMessage::Refused { reason, .. } = m { Some(reason.as_str()) } else { None },
        )
        .collect()
    }

    fn full_lists(&self, session: u64) -> usize {
        let of = self.told.iter().filter(|(of, _)| *of == SessionId(session));
        of.filter(|(_, m)| matches!(m, NodeMessage::Desired(desired) if desired.full)).count()
    }

    fn say_hello(&mut self, session: u64, change: impl FnOnce(&mut Hello)) {
        let mut hello = Hello {
            node: node(1),
            cluster: self.store.cluster().id,
            epoch: 1,
            instance: 1,
            dial: 0,
            index: Index::default(),
            seq: 0,
            desired_digest: self.desired_digest(1),
            observed_digest: 0,
            checkpoint: None,
        };
        change(&mut hello);
        self.sessions.insert(session, 1);
        self.tell(Event::SessionOpened(SessionId(session), Box::new(hello)));
    }
}

#[test]
fn a_lost_difference_heals_within_a_heartbeat() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    shell.heartbeat(1);
    assert_eq!(shell.full_lists(1), 0, "all is well");
    let desired_seq = shell.desired_seq(SessionId(1));
    let heartbeat = Heartbeat { desired_seq, desired_digest: 12345, ..Heartbeat::default() };
    shell.tell(Event::Heartbeat(SessionId(1), heartbeat));
    assert_eq!(shell.full_lists(1), 1, "it holds something else than it should");
    assert_eq!(shell.run_of(1).len(), 2);
    shell.heartbeat(1);
    assert_eq!(shell.full_lists(1), 1);
}

#[test]
fn a_link_that_swallows_what_is_sent_is_closed() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    for second in 0..40 {
        shell.tick(1);
        shell.tell(Event::Heartbeat(SessionId(1), Heartbeat::default()));
        if second < 20 {
            assert_eq!(shell.closed, [], "after {second} s: it may be on its way");
        }
    }
    assert_eq!(shell.closed, [SessionId(1)]);
    shell.tick(20);
    assert_eq!(shell.store.node(NodeId(1)).unwrap().1.status, NodeStatus::Down);
}

#[test]
fn an_agent_that_holds_what_it_never_reported_reports_all_anew() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let heartbeat = Heartbeat { seq: 1, observed_digest: 7, ..Heartbeat::default() };
    shell.tell(Event::Heartbeat(SessionId(1), heartbeat));
    assert_eq!(shell.closed, [], "an update may be on its way");
    shell.tell(Event::Heartbeat(SessionId(1), heartbeat));
    assert_eq!(shell.closed, [SessionId(1)]);
    shell.hello(2, 1, 1, 7);
    let full = |m: &NodeMessage| matches!(m, NodeMessage::Welcome { mode: WelcomeMode::Full, .. });
    assert!(shell.told.iter().any(|(session, m)| *session == SessionId(2) && full(m)));
}

/// An update that is not all of what a welcome asked for, up to a change.
fn part(session: u64, seq: u64) -> Event {
    let (allocs, resync_done) = (Vec::new(), false);
    Event::Observed { session: SessionId(session), seq, desired_seq: 0, allocs, resync_done }
}

#[test]
fn an_agent_that_never_reports_what_it_was_asked_for_says_hello_again() {
    let mut shell = Shell::new();
    shell.hello(1, 1, 1, 7);
    let holds = Heartbeat { seq: 9, observed_digest: 7, ..Heartbeat::default() };
    let heartbeat = || Event::Heartbeat(SessionId(1), holds);
    for seq in 1..6 {
        shell.tell(part(1, seq));
        shell.tell(heartbeat());
    }
    assert_eq!(shell.closed, [], "it has much to report");
    shell.tell(heartbeat());
    assert_eq!(shell.closed, [], "the next part may be on its way");
    shell.tell(heartbeat());
    assert_eq!(shell.closed, [SessionId(1)]);
}

#[test]
fn an_agent_that_reports_what_changes_and_not_what_it_was_asked_for_says_hello_again() {
    let mut shell = Shell::new();
    shell.hello(1, 1, 1, 7);
    for seq in 1..3 {
        assert_eq!(shell.closed, []);
        // All that it has to report, as it believes.
        shell.tell(part(1, seq));
        let holds = Heartbeat { seq, observed_digest: 7, ..Heartbeat::default() };
        shell.tell(Event::Heartbeat(SessionId(1), holds));
    }
    assert_eq!(shell.closed, [SessionId(1)]);
}

#[test]
fn an_agent_with_leftovers_that_holds_what_it_never_reported_reports_all_anew() {
    let mut shell = Shell::new();
    let leftover = AllocId(77);
    shell.hello(1, 1, 1, 0);
    shell.observe(1, &[(leftover, Running)]);
    let holds = |observed_digest| {
        let heartbeat = Heartbeat { seq: 1, observed_digest, ..Heartbeat::default() };
        Event::Heartbeat(SessionId(1), heartbeat)
    };
    let reported = observed(leftover, Running).hash;
    (0..5).for_each(|_| shell.tell(holds(reported)));
    assert_eq!(shell.closed, [], "it holds what it has reported, although nobody wants that");
    (0..2).for_each(|_| shell.tell(holds(reported + 1)));
    assert_eq!(shell.closed, [SessionId(1)]);
}

#[test]
fn messages_wait_for_a_full_queue_and_the_newer_replaces_the_older() {
    struct Narrow;
    impl LinkCapacity for Narrow {
        fn can_send(&self, _: SessionId) -> bool {
            false
        }
    }
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, id, _) = shell.wanted()[0];
    shell.observe(1, &[(id, Running)]);
    shell.told.clear();
    // The end comes while the connection takes nothing.
    let session = SessionId(1);
    let allocs = vec![Arc::new(observed(id, Complete))];
    let mut actions = Vec::new();
    let event = Event::Observed { session, seq: 2, desired_seq: 1, allocs, resync_done: false };
    shell.controller.handle(event, shell.clocks(), &mut actions);
    shell.controller.flush(&Narrow, &mut actions);
    let mut events = Vec::new();
    actions.into_iter().for_each(|action| shell.act(action, &mut events));
    let event = shell.write_log().unwrap();
    let mut actions = Vec::new();
    shell.controller.handle(event, shell.clocks(), &mut actions);
    shell.controller.flush(&Narrow, &mut actions);
    let sends = |actions: &[Action]| {
        actions.iter().filter(|a| matches!(a, Action::Send(_, NodeMessage::Desired(_)))).count()
    };
    assert_eq!(sends(&actions), 0);
    actions.into_iter().for_each(|action| shell.act(action, &mut events));
    let mut actions = Vec::new();
    shell.controller.flush(&Open, &mut actions);
    assert_eq!(sends(&actions), 1, "now there is room");
}

#[test]
fn an_agent_of_another_cluster_is_turned_away_unless_this_one_was_restored_from_it() {
    let mut shell = Shell::new();
    let own = shell.store.cluster().id;
    assert_ne!(own, 0, "the first leader founds the cluster");
    shell.say_hello(1, |hello| hello.cluster = own ^ 1);
    let refusal = shell.refusals(1)[0];
    assert!(refusal.contains("which was not restored from it"), "{refusal}");
    assert!(refusal.contains(&format!("{own:032x}")), "{refusal}");
    shell.say_hello(2, |hello| hello.cluster = 0);
    assert!(shell.refusals(2).is_empty());
    let welcome = shell.told.iter().find_map(|(session, m)| match m {
        NodeMessage::Welcome { cluster, restored, .. } if *session == SessionId(2) => {
            Some((*cluster, *restored))
        }
        _ => None,
    });
    assert_eq!(welcome, Some((own, false)));
}

#[test]
fn a_server_that_lags_is_no_server_of_an_agent_whether_that_knows_its_cluster_or_not() {
    let mut shell = Shell::new();
    let (own, ahead) = (shell.store.cluster().id, Index(shell.store.index().0 + 10));
    for (session, cluster) in [(1, own), (2, 0)] {
        shell.say_hello(session, |hello| (hello.cluster, hello.index) = (cluster, ahead));
        let refusal = shell.refusals(session)[0];
        assert!(refusal.contains(&format!("holds what was decided at index {ahead}")), "{refusal}");
    }
    shell.say_hello(3, |hello| hello.cluster = 0);
    assert!(shell.refusals(3).is_empty(), "it was told nothing yet");
}

#[test]
fn a_copy_of_an_agent_does_not_take_its_place() {
    let mut shell = Shell::new();
    shell.say_hello(1, |hello| hello.instance = 1);
    shell.say_hello(2, |hello| hello.instance = 2);
    let refusal = shell.refusals(2)[0];
    assert!(refusal.contains("if this agent's data directory is a copy"), "{refusal}");
    assert_eq!(shell.closed, [SessionId(2)]);
    shell.say_hello(3, |hello| hello.instance = 1);
    assert!(shell.refusals(3).is_empty(), "the same agent redialed");
    shell.say_hello(4, |hello| (hello.instance, hello.epoch) = (4, 2));
    assert!(shell.refusals(4).is_empty(), "it was started again");
    shell.say_hello(5, |hello| hello.instance = 1);
    assert!(shell.refusals(5)[0].contains("a newer start"));
}

#[test]
fn an_agent_speaks_for_its_own_node_alone() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    shell.join(2, 2);
    let (_, id, _) = shell.wanted()[0];
    shell.observe(2, &[(id, Complete)]);
    assert!(!shell.store.alloc(id).unwrap().1.is_terminal());
}

/// Whatever an agent says of what runs on another node, it goes on there, and is shown as its own agent shows it.
#[test]
fn ten_thousand_messages_about_what_runs_elsewhere_have_no_effect() {
    let mut shell = Shell::new();
    shell.join(2, 2);
    shell.register(4, 100);
    let others: Vec<_> = shell.wanted().iter().map(|(slot, id, _)| (*slot, *id)).collect();
    shell.observe(2, &others.iter().map(|(_, id)| (*id, Running)).collect::<Vec<_>>());
    let sent_runs = shell.run_of(2).len();
    let mut random = IdSeed::new(1);
    let mut draw = move |below: usize| (random.mint() % below as u128) as usize;
    let mut session = 0;
    for message in 0..10_000_u64 {
        if session == 0 || shell.closed.contains(&SessionId(session)) {
            session = 100 + message;
            shell.join(session, 1);
        }
        if shell.told.len() > 300 {
            shell.told.retain(|(of, _)| *of == SessionId(2));
        }
        let status = [Pending, Running, Complete, Failed, Lost];
        let allocs = (0..draw(5)).map(|_| {
            let (_, known) = others[draw(others.len())];
            let id = if draw(4) == 0 { AllocId(draw(usize::MAX) as u128) } else { known };
            Arc::new(ObservedAlloc {
                healthy: [None, Some(true), Some(false)][draw(3)],
                ..observed(id, status[draw(5)])
            })
        });
        let allocs: Vec<_> = allocs.collect();
        let of = SessionId(session);
        let desired_seq = if draw(3) == 0 { draw(100) as u64 } else { shell.desired_seq(of) };
        if draw(4) == 0 {
            let (seq, observed_digest) = (draw(10) as u64, draw(10) as u128);
            let desired_digest = if draw(2) == 0 { shell.desired_digest(2) } else { shell.desired_digest(1) };
            let heartbeat = Heartbeat { seq, desired_seq, desired_digest, observed_digest };
            shell.tell(Event::Heartbeat(of, heartbeat));
        } else {
            let (seq, resync_done) = (message, draw(2) == 0);
            shell.tell(Event::Observed { session: of, seq, desired_seq, allocs, resync_done });
        }
    }
    for (slot, id) in others {
        let (_, row) = shell.store.alloc(id).expect("it is there");
        assert!(row.is_desired() && !row.is_terminal(), "{row:?}");
        let seen = &shell.observed.get(slot, id).expect("its agent has told of it").alloc;
        assert_eq!((seen.status, seen.healthy), (Running, None));
    }
    assert_eq!(shell.run_of(2).len(), sent_runs, "its agent was told nothing new");
    assert!(!shell.closed.contains(&SessionId(2)), "its agent was not sent away");
}

#[test]
fn an_agent_cannot_make_up_tasks() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (slot, id, _) = shell.wanted()[0];
    let mut status = observed(id, Running);
    let task = status.tasks[0].clone();
    status.tasks =
        (0..4000).map(|number| ObservedTask { name: format!("x{number}"), ..task.clone() }).collect();
    status.tasks.push(task);
    let session = SessionId(1);
    let allocs = vec![Arc::new(status)];
    shell.tell(Event::Observed { session, seq: 2, desired_seq: 1, allocs, resync_done: false });
    let tasks = &shell.observed.get(slot, id).unwrap().alloc.tasks;
    assert_eq!(tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["t"]);
}
