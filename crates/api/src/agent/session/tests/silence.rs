//! Servers that take everything in and say nothing.

use super::*;

#[test]
fn a_hello_that_nobody_answers_ends_in_another_connection() {
    let mut session = AgentSession::new(1, UPDATE_DELAY_NS);
    session.hello(&identity(), NodeSpec::default(), MS);
    // A server that was never heard of may want heartbeats this seldom.
    let patience_ns = 10_000 * MS;
    assert_eq!(session.deadline(), Some(patience_ns + MS));
    assert!(!session.is_deserted(patience_ns));
    assert!(session.is_deserted(patience_ns + MS));
    session.disconnected();
    assert!(!session.is_deserted(u64::MAX));
    session.hello(&identity(), NodeSpec::default(), patience_ns + MS);
    assert!(!session.is_deserted(3 * patience_ns), "a busy server is given more time the next time");
    assert!(session.is_deserted(3 * patience_ns + MS));
}

#[test]
fn an_update_that_nobody_acknowledges_ends_in_another_connection() {
    let ack_max_ns = ack_max_ns(5_000 * MS);
    let mut session = open_session(WelcomeMode::Equal);
    tell(&mut session, desired(1, &[1], &[], &[]), 0);
    assert!(!session.is_deserted(u64::MAX), "a server that owes nothing may be silent");
    session.observe(id(1), &status(1, "a"), true, 1_000 * MS);
    hear(&mut session, 1_000 * MS);
    session.observe(id(1), &status(1, "b"), true, 2_000 * MS);
    hear(&mut session, 2_000 * MS);
    assert!(session.is_deserted(1_000 * MS + ack_max_ns));
    session.on_down(Down::Ack(Ack { seq: 1, delay_ms: 0 }), 3_000 * MS);
    assert!(!session.is_deserted(1_000 * MS + ack_max_ns), "a slow server is not a silent one");
    assert!(session.is_deserted(3_000 * MS + ack_max_ns));
    session.on_down(Down::Ack(Ack { seq: 2, delay_ms: 0 }), 4_000 * MS);
    assert!(!session.is_deserted(u64::MAX));
}

#[test]
fn a_server_that_says_nothing_is_left_before_its_nodes_are_taken_for_lost() {
    let secs = |secs: u64| secs * 1_000 * MS;
    // A node is declared lost after three heartbeats without a word, and after five of a server that is gone.
    assert_eq!(ack_max_ns(secs(5)), secs(10));
    assert_eq!(ack_max_ns(secs(9)), secs(18));
    assert_eq!(ack_max_ns(secs(1)), ACK_MAX_NS_MIN, "a busy server is no silent one");
}
