//! Allocations that are stopped.

use berth_api::agent::ClientStatus;
use expect_test::expect;

use super::story::{check, happens as told, id, run};
use crate::lifecycle::{Action, Alloc, Event, Exit, Node, TaskRef};

#[test]
fn a_stop_signals_and_then_kills() {
    check(
        "run 1 service a b:kill0 c:kill99
         started 1.0
         started 1.1
         started 1.2
         stop 1
         exited 1.1 signal=9
         wait 5s
         exited 1.0 signal=9
         wait 30s
         exited 1.2 signal=9
         stop 1
         events 1.0",
        &expect![[r#"
            > run 1 service a b:kill0 c:kill99
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup), c Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
               1.0 start 1.2#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup), c Pending (Task Setup)]
            > started 1.1
               1.0 report 1 Running [a Running (Started), b Running (Started), c Pending (Task Setup)]
            > started 1.2
               1.0 report 1 Running [a Running (Started), b Running (Started), c Running (Started)]
            > stop 1
               1.0 signal 1.0#1
               1.0 kill 1.1#1
               1.0 signal 1.2#1
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing), b Running (Started), c Running (Killing)]
            > exited 1.1 signal=9
               1.0 persist 1
               1.0 report 1 Running [a Running (Killing), b Dead (Killed), c Running (Killing)]
            > wait 5s
               6.0 kill 1.0#1
            > exited 1.0 signal=9
               6.0 persist 1
               6.0 report 1 Running [a Dead (Killed), b Dead (Killed), c Running (Killing)]
            > wait 30s
              31.0 kill 1.2#1
            > exited 1.2 signal=9
              36.0 persist 1
              36.0 clean up 1
              36.0 report 1 Complete! [a Dead (Killed), b Dead (Killed), c Dead (Killed)]
            > stop 1
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Killing: Sent interrupt. Waiting 5s before force killing
                  6.0 Terminated:  code=0 signal=9 oom=false
                  6.0 Killed: 
               = Dead failed=false restarts=0
        "#]],
    );
}

#[test]
fn a_kill_timeout_beyond_the_nodes_limit_is_cut_and_the_task_says_so() {
    const AT: u64 = 1_000_000_000;
    let mut node = Node::new(1).with_kill_timeout_max(60_000);
    let (mut actions, of) = (Vec::new(), TaskRef { alloc: id(1), task: 0, attempt: 1 });
    told(&mut node, Event::Run(run(&["1", "service", "c:kill99"])), AT, &mut actions);
    told(&mut node, Event::Started { of, at_ns: AT }, AT, &mut actions);
    told(&mut node, Event::Stop { alloc: of.alloc, reason: String::new() }, AT, &mut actions);
    assert_eq!(node.deadline(), Some(AT + 60_000_000_000));
    assert_eq!(node.alloc(of.alloc).expect("an allocation").ending_ms_max(), 60_000);
    let events = &node.alloc(of.alloc).expect("an allocation").status().tasks[0].events;
    let said = events.last().map(|event| event.message.as_str());
    let why = "this node's --max-kill-timeout cuts the task's kill_timeout of 1m39s";
    assert_eq!(said, Some(format!("Sent interrupt. Waiting 1m0s before force killing: {why}").as_str()));
}

#[test]
fn what_tasks_may_take_to_end_is_known_before_they_are_asked_to() {
    let (mut node, mut actions) = (Node::new(1), Vec::new());
    told(&mut node, Event::Run(run(&["1", "service+2", "a", "b:leader:shutdown3"])), 1, &mut actions);
    let alloc = node.alloc(id(1)).expect("an allocation");
    assert_eq!(
        alloc.ending_ms_max(),
        2_000 + (3_000 + 5_000) + 5_000,
        "the group's delay, the leader, the rest"
    );
}

#[test]
fn shutdown_delays_add_up_and_the_leader_goes_first() {
    check(
        "run 1 service+2 a b:leader:shutdown3
         started 1.0
         started 1.1
         stop 1
         wait 5s
         exited 1.1
         wait 1s
         exited 1.0 code=130",
        &expect![[r#"
            > run 1 service+2 a b:leader:shutdown3
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > started 1.1
               1.0 report 1 Running [a Running (Started), b Running (Started)]
            > stop 1
               1.0 persist 1
            > wait 5s
               6.0 signal 1.1#1
               6.0 report 1 Running [a Running (Started), b Running (Killing)]
            > exited 1.1
               6.0 signal 1.0#1
               6.0 persist 1
               6.0 report 1 Running [a Running (Killing), b Dead (Killed)]
            > wait 1s
            > exited 1.0 code=130
               7.0 persist 1
               7.0 clean up 1
               7.0 report 1 Complete! [a Dead (Killed), b Dead (Killed)]
        "#]],
    );
}

#[test]
fn what_never_started_ends_complete() {
    check(
        "run 1 service a
         run 2 service b after=1
         stop 2
         stop 3",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > run 2 service b after=1
               1.0 persist 2
               1.0 report 2 Pending [b Pending (Received)]
            > stop 2
               1.0 persist 2
               1.0 report 2 Complete! [b Dead (Received)]
            > stop 3
               1.0 persist 3
               1.0 report 3 Complete! []
        "#]],
    );
}

#[test]
fn a_stop_during_the_start_waits_for_its_answer() {
    check(
        "run 1 service a b
         stop 1
         wait 20s
         started 1.0
         wait 1s
         exited 1.0
         failed 1.1 recoverable",
        &expect![[r#"
            > run 1 service a b
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > stop 1
               1.0 cancel 1.0#1
               1.0 cancel 1.1#1
               1.0 persist 1
            > wait 20s
            > started 1.0
              21.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > wait 1s
              21.0 signal 1.0#1
              21.0 report 1 Running [a Running (Killing), b Pending (Task Setup)]
            > exited 1.0
              22.0 persist 1
              22.0 report 1 Pending! [a Dead (Killed), b Pending (Task Setup)]
            > failed 1.1 recoverable
              22.0 persist 1
              22.0 clean up 1
              22.0 report 1 Complete! [a Dead (Killed), b Dead (Killed)]
        "#]],
    );
}

#[test]
fn a_stop_between_two_starts_is_immediate() {
    check(
        "run 1 service a
         started 1.0
         exited 1.0 code=1
         stop 1
         wait 60s",
        &expect![[r#"
            > run 1 service a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0 code=1
               1.0 report 1 Pending! [a Pending (Restarting)]
            > stop 1
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [a Dead (Killed)]
            > wait 60s
        "#]],
    );
}

#[test]
fn a_restored_server_is_sent_the_end_of_an_allocation_that_it_wants_again() {
    check(
        "run 1 batch a:once
         started 1.0
         exited 1.0 code=1
         forget 1
         restart
         run 1 batch a:once
         forget 1
         stop 1
         purge 1
         run 1 batch a:once",
        &expect![[r#"
            > run 1 batch a:once
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0 code=1
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Failed! [a Failed (Not Restarting)]
            > forget 1
               1.0 persist 1
               1.0 persist 1
            > restart
            > run 1 batch a:once
               1.0 persist 1
               1.0 report 1 Failed! [a Failed (Received)]
            > forget 1
               1.0 persist 1
               1.0 persist 1
            > stop 1
               1.0 persist 1
               1.0 report 1 Failed! []
            > purge 1
               1.0 persist 1
               1.0 remove 1
            > run 1 batch a:once
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
        "#]],
    );
}

#[test]
fn the_forgotten_are_ended_silently_and_never_run_again() {
    check(
        "run 1 batch a
         run 2 batch b
         started 1.0
         exited 1.0
         started 2.0
         forget 1
         forget 2
         exited 2.0
         run 1 batch a
         run 2 batch b
         stop 2
         purge 1",
        &expect![[r#"
            > run 1 batch a
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup)]
               1.0 start 1.0#1
            > run 2 batch b
               1.0 persist 2
               1.0 prepare 2
               1.0 report 2 Pending [b Pending (Task Setup)]
               1.0 start 2.0#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started)]
            > exited 1.0
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [a Dead (Terminated)]
            > started 2.0
               1.0 report 2 Running! [b Running (Started)]
            > forget 1
               1.0 persist 1
               1.0 persist 1
            > forget 2
               1.0 signal 2.0#1
               1.0 persist 2
            > exited 2.0
               1.0 persist 2
               1.0 clean up 2
               1.0 persist 2
            > run 1 batch a
               1.0 persist 1
               1.0 report 1 Complete! [a Dead (Received)]
            > run 2 batch b
               1.0 persist 2
               1.0 report 2 Complete! [b Dead (Received)]
            > stop 2
            > purge 1
               1.0 persist 1
               1.0 remove 1
        "#]],
    );
}

#[test]
fn an_allocation_with_a_limit_of_silence_ends_itself_and_is_reported_lost() {
    const SECOND: u64 = 1_000_000_000;
    let (mut node, mut actions) = (Node::new(1), Vec::new());
    let mut happens = |node: &mut Node, second: u64, event| {
        told(node, event, second * SECOND, &mut actions);
        std::mem::take(&mut actions)
    };
    for words in [&["1", "service", "a", "silence=8"][..], &["2", "service", "b"]] {
        happens(&mut node, 1, Event::Run(run(words)));
    }
    let of = |number| TaskRef { alloc: id(number), task: 0, attempt: 1 };
    for number in [1, 2] {
        happens(&mut node, 1, Event::Started { of: of(number), at_ns: SECOND });
    }
    happens(&mut node, 6, Event::ServerContact);
    assert_eq!(node.deadline(), Some(14 * SECOND));
    assert_eq!(happens(&mut node, 13, Event::Tick), [], "a server was heard of seven seconds ago");
    assert!(happens(&mut node, 14, Event::Tick).contains(&Action::SignalTask(of(1))));
    let stopping = |node: &Node, number| node.alloc(id(number)).is_some_and(Alloc::is_stopping);
    assert_eq!((stopping(&node, 1), stopping(&node, 2)), (true, false));
    // What has begun to end goes on to.
    happens(&mut node, 15, Event::ServerContact);
    let exit = Exit { signal: 15, at_ns: 16 * SECOND, ..Exit::default() };
    happens(&mut node, 16, Event::Exited(of(1), exit));
    let ended = node.alloc(id(1)).expect("servers are to hear of it").status();
    assert_eq!(ended.status(), ClientStatus::Lost);
    assert!(ended.description.contains("no server"), "{}", ended.description);
    assert_eq!(node.deadline(), None);
}

#[test]
fn an_agent_that_is_restarted_remembers_since_when_it_is_cut_off_and_tries_first() {
    let deserts_at = |last_contact_ns: u64, now_ns: u64| {
        let mut node = Node::new(1);
        let mut actions = Vec::new();
        told(&mut node, Event::Run(run(&["1", "service", "a", "silence=60"])), 1, &mut actions);
        node.restore_last_contact(last_contact_ns, now_ns);
        node.deadline().map(|at_ns| at_ns / 1_000_000_000)
    };
    let second = 1_000_000_000;
    assert_eq!(deserts_at(100 * second, 120 * second), Some(160));
    assert_eq!(deserts_at(100 * second, 155 * second), Some(165), "it has ten seconds to reach a server");
    assert_eq!(deserts_at(0, 120 * second), Some(180), "an older agent did not write it down");
    assert_eq!(deserts_at(500 * second, 120 * second), Some(180), "nothing is heard in the future");
}

#[test]
fn a_task_that_fails_while_it_runs_is_ended_and_its_group_with_it() {
    check(
        "run 1 service a b
         started 1.0
         started 1.1
         broke 1.0
         broke 1.0
         exited 1.0 signal=15
         exited 1.1 signal=15
         broke 1.0
         events 1.0",
        &expect![[r#"
            > run 1 service a b
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [a Pending (Task Setup), b Pending (Task Setup)]
               1.0 start 1.0#1
               1.0 start 1.1#1
            > started 1.0
               1.0 report 1 Running! [a Running (Started), b Pending (Task Setup)]
            > started 1.1
               1.0 report 1 Running [a Running (Started), b Running (Started)]
            > broke 1.0
               1.0 signal 1.0#1
               1.0 signal 1.1#1
               1.0 persist 1
               1.0 report 1 Running [a Failed (Killing), b Running (Killing)]
            > broke 1.0
            > exited 1.0 signal=15
               1.0 persist 1
               1.0 report 1 Running [a Failed (Killed), b Running (Killing)]
            > exited 1.1 signal=15
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Failed! [a Failed (Killed), b Dead (Killed)]
            > broke 1.0
                  1.0 Received: 
                  1.0 Task Setup: Building Task Directory
                  1.0 Started: 
                  1.0 Killing: Its script failed (fails the task)
                  1.0 Killing: Sent interrupt. Waiting 5s before force killing
                  1.0 Terminated:  code=0 signal=15 oom=false
                  1.0 Killed: 
               = Dead failed=true restarts=0
        "#]],
    );
}
