//! The predecessors whose files an allocation takes over.

use std::sync::Arc;

use berth_api::agent::AllocId;

use super::story::{happens, id, run};
use crate::lifecycle::*;

fn replaces(number: u8, previous: u8) -> RunSpec {
    let spec = run(&[&number.to_string(), "service", "a"]);
    RunSpec { previous: [id(previous)].into(), ..spec }
}

fn line(node: &Node, number: u8) -> Vec<AllocId> {
    node.spec_to_start(id(number)).expect("it is there").previous.to_vec()
}

fn ended(node: &mut Node, number: u8) {
    let mut actions = Vec::new();
    happens(node, Event::Stop { alloc: id(number), reason: String::new() }, 1, &mut actions);
    let of = TaskRef { alloc: id(number), task: 0, attempt: 1 };
    happens(node, Event::Exited(of, Exit::default()), 2, &mut actions);
    assert!(node.alloc(id(number)).is_some_and(Alloc::has_ended));
}

#[test]
fn who_never_started_hands_on_what_it_would_have_taken_over() {
    let (mut node, mut actions) = (Node::new(1), Vec::new());
    happens(&mut node, Event::Run(run(&["1", "service", "a"])), 1, &mut actions);
    for (number, previous) in [(2, 1), (3, 2), (4, 3)] {
        let mut spec = replaces(number, previous);
        spec.after = (1..number).map(id).collect();
        happens(&mut node, Event::Run(spec), u64::from(number), &mut actions);
    }
    // None of them has ended: nothing of theirs may be moved.
    assert_eq!(line(&node, 4), []);
    let stop = |alloc| Event::Stop { alloc: id(alloc), reason: String::new() };
    for number in [2, 3] {
        happens(&mut node, stop(number), 10, &mut actions);
    }
    ended(&mut node, 1);
    assert_eq!(line(&node, 4), [id(3), id(2), id(1)]);
    // It is told again, by a server that knows of the last one only; and an agent that is restarted still knows.
    happens(&mut node, Event::Run(replaces(4, 3)), 11, &mut actions);
    let record = node.record(id(4)).expect("written");
    let mut restarted = Node::new(1);
    restarted.restore(record, &mut GroupCache::default(), &mut actions).expect("restored");
    assert_eq!(line(&restarted, 4), [id(3), id(2), id(1)]);
}

#[test]
fn nothing_is_taken_from_who_still_runs() {
    let (mut node, mut actions) = (Node::new(1), Vec::new());
    let first = run(&["1", "service", "a"]);
    happens(&mut node, Event::Run(first), 1, &mut actions);
    happens(&mut node, Event::Run(replaces(2, 1)), 1, &mut actions);
    assert_eq!(line(&node, 2), []);
    ended(&mut node, 1);
    assert_eq!(line(&node, 2), [id(1)]);
}

#[test]
fn a_long_line_keeps_its_latest_and_its_oldest() {
    let (mut node, mut actions) = (Node::new(1), Vec::new());
    for number in 2..40 {
        happens(&mut node, Event::Run(replaces(number, number - 1)), u64::from(number), &mut actions);
        happens(&mut node, Event::Stop { alloc: id(number), reason: String::new() }, 50, &mut actions);
    }
    let group = Arc::clone(&node.alloc(id(39)).expect("it is there").spec().group);
    assert!(!group.tasks.is_empty());
    let known = &node.alloc(id(39)).expect("it is there").spec().previous;
    assert_eq!((known.len(), known[0], known[known.len() - 1]), (16, id(38), id(1)));
}

#[test]
fn predecessors_are_waited_for_even_if_a_later_update_omits_them() {
    let (mut node, mut actions) = (Node::new(1), Vec::new());
    happens(&mut node, Event::Run(run(&["1", "service", "a"])), 1, &mut actions);
    happens(&mut node, Event::Stop { alloc: id(1), reason: String::new() }, 2, &mut actions);
    let after = |ids: &[u8]| RunSpec {
        after: ids.iter().copied().map(id).collect(),
        ..run(&["2", "service", "a", "revision=2"])
    };
    happens(
        &mut node,
        Event::Run(RunSpec { after: [id(1)].into(), ..run(&["2", "service", "a"]) }),
        3,
        &mut actions,
    );
    actions.clear();
    happens(&mut node, Event::Run(after(&[3])), 4, &mut actions);
    let starts = |actions: &[Action]| {
        actions.iter().any(|action| matches!(action, Action::StartTask(of) if of.alloc == id(2)))
    };
    assert!(!starts(&actions), "{actions:?}");
    assert_eq!(*node.alloc(id(2)).expect("it is there").spec().after, [id(1), id(3)]);
    let of = TaskRef { alloc: id(1), task: 0, attempt: 1 };
    happens(&mut node, Event::Exited(of, Exit::default()), 5, &mut actions);
    assert!(starts(&actions), "{actions:?}");
}

#[test]
fn what_waits_for_others_has_no_files_before_it_is_prepared() {
    let (mut node, mut actions) = (Node::new(1), Vec::new());
    happens(&mut node, Event::Run(run(&["1", "service", "a"])), 1, &mut actions);
    let heir = RunSpec { after: [id(1)].into(), ..replaces(2, 1) };
    happens(&mut node, Event::Run(heir), 1, &mut actions);
    let has_files = |node: &Node, number| node.alloc(id(number)).is_some_and(Alloc::has_files);
    assert!(has_files(&node, 1) && !has_files(&node, 2));
    ended(&mut node, 1);
    assert!(!has_files(&node, 1) && has_files(&node, 2));
}
