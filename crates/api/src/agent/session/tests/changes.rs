//! Nodes that change while their session is open.

use super::*;
use crate::agent::{NODE_CHANGED_BY_OPERATOR_EVERY_MS, NODE_CHANGED_EVERY_MS};

fn node(name: &str) -> NodeSpec {
    NodeSpec { name: name.into(), ..NodeSpec::default() }
}

/// The names of nodes that are told by `now`.
fn names_sent(session: &mut AgentSession, now_ns: u64) -> Vec<String> {
    let text = std::iter::from_fn(|| session.poll(now_ns));
    text.filter_map(|message| if let Up::Changed(changed) = message { Some(changed.node.name) } else { None })
        .collect()
}

#[test]
fn a_change_is_sent_at_once_and_the_next_after_the_interval() {
    let mut session = open_session(WelcomeMode::Equal);
    session.node_changed(node("a"));
    assert_eq!(session.deadline(), Some(0));
    assert_eq!(names_sent(&mut session, MS), ["a"]);
    session.node_changed(node("b"));
    session.node_changed(node("c"));
    let next_ns = MS + NODE_CHANGED_EVERY_MS * MS;
    assert_eq!(names_sent(&mut session, next_ns - 1), [""; 0]);
    assert_eq!(names_sent(&mut session, next_ns), ["c"]);
    assert_eq!(names_sent(&mut session, 2 * next_ns), [""; 0]);
}

#[test]
fn a_change_waits_for_a_session_and_a_hello_says_it_too() {
    let mut session = AgentSession::new(0, UPDATE_DELAY_NS);
    session.node_changed(node("a"));
    assert_eq!((session.deadline(), names_sent(&mut session, MS)), (None, Vec::new()));
    session.hello(&identity(), node("a"), 0);
    session.node_changed(node("b"));
    assert_eq!(names_sent(&mut session, MS), [""; 0]);
    let cluster_id = cluster(7).0.to_vec();
    session.on_down(Down::Welcome(Welcome { heartbeat_ms: 5_000, cluster_id, ..Welcome::default() }), MS);
    assert_eq!(names_sent(&mut session, MS), ["b"]);
}

#[test]
fn a_change_by_an_operator_waits_for_less_and_takes_others_along() {
    let mut session = open_session(WelcomeMode::Equal);
    session.node_changed(node("a"));
    assert_eq!(names_sent(&mut session, MS), ["a"]);
    session.node_changed_by_operator(node("b"));
    session.node_changed(node("c"));
    let next_ns = MS + NODE_CHANGED_BY_OPERATOR_EVERY_MS * MS;
    assert_eq!(names_sent(&mut session, next_ns - 1), [""; 0]);
    assert_eq!(names_sent(&mut session, next_ns), ["c"]);
    session.node_changed(node("d"));
    assert_eq!(names_sent(&mut session, 2 * next_ns), [""; 0], "the next one is no operator's");
    assert_eq!(names_sent(&mut session, next_ns + NODE_CHANGED_EVERY_MS * MS), ["d"]);
}
