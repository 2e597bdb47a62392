//! New versions of running allocations: no task of them is restarted, and what was found of their health counts no longer.

use expect_test::expect;
use proptest::{collection::vec, prelude::*, sample::select};

use super::story::{check, happens, id, run};
use crate::lifecycle::*;

#[test]
fn a_newer_kill_timeout_counts_at_the_stop_and_after_a_restart_of_the_agent() {
    check(
        "run 1 service web healthy=10
        started 1.0
        wait 20s
        run 1 service web:kill1 healthy=10 revision=2
        wait 5s
        restart
        found 1.0 running
        wait 10s
        stop 1
        wait 2s",
        &expect![[r#"
            > run 1 service web healthy=10
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [web Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [web Running (Started)]
            > wait 20s
              11.0 report 1 Running! healthy [web Running (Started)]
            > run 1 service web:kill1 healthy=10 revision=2
              21.0 persist 1
              21.0 report 1 Running [web Running (Started)]
            > wait 5s
            > restart
              26.0 recover 1.0#1
            > found 1.0 running
            > wait 10s
              36.0 report 1 Running! healthy [web Running (Started)]
            > stop 1
              36.0 signal 1.0#1
              36.0 persist 1
              36.0 report 1 Running healthy [web Running (Killing)]
            > wait 2s
              37.0 kill 1.0#1
        "#]],
    );
}

#[test]
fn restarts_are_counted_on_against_the_newer_policy() {
    check(
        "run 1 service web:once
        started 1.0
        run 1 service web revision=1
        exited 1.0 code=1
        wait 20s
        started 1.0
        run 1 service web:attempts5 revision=2
        exited 1.0 code=1
        run 1 service web:once revision=3
        wait 20s
        started 1.0
        exited 1.0 code=1",
        &expect![[r#"
            > run 1 service web:once
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [web Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [web Running (Started)]
            > run 1 service web revision=1
               1.0 persist 1
               1.0 report 1 Running [web Running (Started)]
            > exited 1.0 code=1
               1.0 report 1 Pending! [web Pending (Restarting)]
            > wait 20s
              13.2 persist 1
              13.2 start 1.0#2
            > started 1.0
              21.0 report 1 Running [web Running (Started)]
            > run 1 service web:attempts5 revision=2
              21.0 persist 1
              21.0 report 1 Running [web Running (Started)]
            > exited 1.0 code=1
              21.0 report 1 Pending [web Pending (Restarting)]
            > run 1 service web:once revision=3
              21.0 persist 1
              21.0 report 1 Pending [web Pending (Restarting)]
            > wait 20s
              33.3 persist 1
              33.3 start 1.0#3
            > started 1.0
              41.0 report 1 Running [web Running (Started)]
            > exited 1.0 code=1
              41.0 persist 1
              41.0 clean up 1
              41.0 report 1 Failed! [web Failed (Not Restarting)]
        "#]],
    );
}

#[test]
fn checks_that_are_new_decide_about_health_and_those_that_stay_go_on() {
    check(
        "run 1 service web check= healthy=10
        started 1.0
        answer 15s passing
        run 1 service web check=:ready check= healthy=10 revision=2
        checks 1
        answer 12s critical
        checks 1
        answer 30s passing
        run 1 service web healthy=10 revision=3
        checks 1
        wait 20s",
        &expect![[r#"
            > run 1 service web check= healthy=10
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [web Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [web Running (Started)]
            > answer 15s passing
               1.1 check 1.0 question 1
              11.1 check 1.0 question 2
              11.1 report 1 Running! healthy [web Running (Started)]
            > run 1 service web check=:ready check= healthy=10 revision=2
              16.0 persist 1
              16.0 report 1 Running [web Running (Started)]
               ready Pending ""
               alive Passing "said"
            > answer 12s critical
              16.1 check 1.0 question 3
              21.1 check 1.1 question 3
              26.1 check 1.0 question 4
               ready Critical "said"
               alive Critical "said"
            > answer 30s passing
              31.1 check 1.1 question 4
              36.1 check 1.0 question 5
              41.1 check 1.1 question 5
              46.1 check 1.0 question 6
              46.1 report 1 Running! healthy [web Running (Started)]
              51.1 check 1.1 question 6
              56.1 check 1.0 question 7
            > run 1 service web healthy=10 revision=3
              58.0 persist 1
              58.0 report 1 Running [web Running (Started)]
            > wait 20s
              68.0 report 1 Running! healthy [web Running (Started)]
        "#]],
    );
}

#[test]
fn what_is_new_before_the_start_or_after_the_end_starts_nothing() {
    check(
        "run 1 service web
        started 1.0
        run 2 service web after=1
        run 2 service web:kill1 after=1 revision=1
        stop 1
        exited 1.0 signal=15
        started 2.0
        exited 2.0 code=1
        stop 2
        run 2 service web:kill0 revision=2
        wait 20s",
        &expect![[r#"
            > run 1 service web
               1.0 persist 1
               1.0 prepare 1
               1.0 report 1 Pending [web Pending (Task Setup)]
               1.0 start 1.0#1
            > started 1.0
               1.0 report 1 Running! [web Running (Started)]
            > run 2 service web after=1
               1.0 persist 2
               1.0 report 2 Pending [web Pending (Received)]
            > run 2 service web:kill1 after=1 revision=1
               1.0 persist 2
               1.0 report 2 Pending [web Pending (Received)]
            > stop 1
               1.0 signal 1.0#1
               1.0 persist 1
               1.0 report 1 Running [web Running (Killing)]
            > exited 1.0 signal=15
               1.0 persist 1
               1.0 clean up 1
               1.0 report 1 Complete! [web Dead (Killed)]
               1.0 persist 2
               1.0 prepare 2
               1.0 report 2 Pending [web Pending (Task Setup)]
               1.0 start 2.0#1
            > started 2.0
               1.0 report 2 Running! [web Running (Started)]
            > exited 2.0 code=1
               1.0 report 2 Pending! [web Pending (Restarting)]
            > stop 2
               1.0 persist 2
               1.0 clean up 2
               1.0 report 2 Complete! [web Dead (Killed)]
            > run 2 service web:kill0 revision=2
               1.0 persist 2
               1.0 report 2 Complete [web Dead (Killed)]
            > wait 20s
        "#]],
    );
}

fn question(node: &mut Node, at_ns: u64) -> Option<CheckRef> {
    let mut actions = Vec::new();
    node.handle(Event::Tick, at_ns, &mut actions);
    actions.into_iter().find_map(|action| if let Action::Check(of) = action { Some(of) } else { None })
}

#[test]
fn an_answer_that_a_check_of_before_asked_for_is_none_of_the_check_in_its_place() {
    let mut node = Node::new(1);
    let tell = |node: &mut Node, event| happens(node, event, 1, &mut Vec::new());
    tell(&mut node, Event::Run(run(&["1", "service", "web", "check="])));
    tell(&mut node, Event::Started { of: TaskRef { alloc: id(1), task: 0, attempt: 1 }, at_ns: 1 });
    let asked = question(&mut node, 2_000_000_000).expect("the first question");
    tell(&mut node, Event::Run(run(&["1", "service", "web", "check=:ready", "check=", "revision=2"])));
    let again: Vec<CheckRef> = (0..2).filter_map(|_| question(&mut node, 4_000_000_000)).collect();
    let state = berth_api::agent::CheckState::Critical;
    let answer = CheckResult { state, code: 0, output: "late".into(), at_ns: 5 };
    tell(&mut node, Event::Checked(asked, answer));
    let checks = node.checks(&id(1).0).expect("it is known").checks;
    assert!(checks.iter().all(|check| check.output.is_empty()), "{checks:?}");
    assert!(!again.is_empty() && again.iter().all(|new| new.number > asked.number), "{asked:?} {again:?}");
}

fn words() -> impl Strategy<Value = Vec<&'static str>> {
    let task = select(vec!["web", "web:kill0", "web:kill1", "web:once", "web:attempts5", "web:delay-mode"]);
    let group = select(vec!["service", "service+3"]);
    let more =
        select(vec!["check=", "check=:ready", "check=:warns", "healthy=1", "healthy=20", "silence=900"]);
    (group, task, vec(more, 0..4))
        .prop_map(|(group, task, more)| ["1", group, task].into_iter().chain(more).collect())
}

proptest! {
    /// Whatever is new, and however often the agent is restarted: tasks run on.
    #[test]
    fn what_is_new_neither_starts_nor_ends_a_task(versions in vec((words(), 1..90_u64, any::<bool>()), 1..12)) {
        let mut node = Node::new(1);
        let mut actions = Vec::new();
        let mut now_ns = 1;
        happens(&mut node, Event::Run(run(&["1", "service", "web"])), now_ns, &mut actions);
        let of = node.alloc(id(1)).expect("it is known").task_ref(0);
        node.handle(Event::Started { of, at_ns: now_ns }, now_ns, &mut actions);
        let mut record = node.record(id(1));
        for (revision, (words, seconds, restarts)) in (1..).zip(versions) {
            actions.clear();
            now_ns += seconds * 1_000_000_000;
            let newer = RunSpec { job_version: revision, updated: true, ..run(&words) };
            node.handle(Event::Run(newer), now_ns, &mut actions);
            node.handle(Event::Tick, now_ns, &mut actions);
            let touches = |action: &&Action| !matches!(action, Action::Persist(_) | Action::Report { .. } | Action::Check(_));
            prop_assert_eq!(actions.iter().find(touches), None);
            let persists = actions.contains(&Action::Persist(id(1)));
            if persists {
                record = node.record(id(1));
            }
            prop_assert_eq!(record.as_ref().and_then(AllocRecord::revision), Some(revision));
            if restarts {
                node = Node::new(1);
                let known = record.clone().expect("it was written");
                node.restore(known, &mut GroupCache::default(), &mut Vec::new()).expect("it can be read");
                node.handle(Event::Recovered(of, FoundTask::Running { started_ns: 1 }), now_ns, &mut Vec::new());
            }
            let alloc = node.alloc(id(1)).expect("it is known");
            prop_assert_eq!(alloc.task_ref(0), of);
            prop_assert_eq!(alloc.status().revision, revision);
        }
    }
}
