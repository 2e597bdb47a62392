//! A server's half, reduced to what it remembers, checks that both ends agree.

mod changes;
mod clusters;
mod parts;
mod silence;

use std::collections::BTreeMap;

use expect_test::{Expect, expect};

use super::*;
use crate::agent::{
    Ack, ClientStatus, GroupEntry, HeartbeatEvery, RunAlloc, StopAlloc, desired_hash, observed_hash,
};

const MS: u64 = 1_000_000;

fn id(number: u8) -> AllocId {
    AllocId([number; 16])
}

fn status(number: u8, description: &str) -> AllocStatus {
    AllocStatus {
        alloc_id: id(number).0.to_vec(),
        status: ClientStatus::Running as i32,
        description: description.into(),
        ..AllocStatus::default()
    }
}

fn desired(index: u64, run: &[u8], stop: &[u8], forget: &[u8]) -> Desired {
    Desired {
        term: 1,
        index,
        run: run.iter().map(|n| RunAlloc { alloc_id: id(*n).0.to_vec(), ..RunAlloc::default() }).collect(),
        stop: stop
            .iter()
            .map(|n| StopAlloc { alloc_id: id(*n).0.to_vec(), ..StopAlloc::default() })
            .collect(),
        forget: forget.iter().map(|n| id(*n).0.to_vec()).collect(),
        groups: vec![GroupEntry::default()],
        ..Desired::default()
    }
}

/// Says desired state with the number that is due.
fn tell(session: &mut AgentSession, desired: Desired, now_ns: u64) -> Option<SessionAction> {
    let seq = session.link.desired_seq() + 1;
    session.on_down(Down::Desired(Desired { seq, ..desired }), now_ns)
}

fn cluster(number: u8) -> ClusterId {
    ClusterId([number; 16])
}

fn identity() -> AgentIdentity {
    AgentIdentity { node_id: [1; 16], secret: vec![2; 16], boot_id: "boot".into(), instance: [3; 16] }
}

/// A session that was welcomed at time 0.
fn open_session(mode: WelcomeMode) -> AgentSession {
    let mut session = AgentSession::new(0, UPDATE_DELAY_NS);
    welcome(&mut session, mode, 0, 0);
    session
}

fn welcome(session: &mut AgentSession, mode: WelcomeMode, observed_seq: u64, now_ns: u64) {
    session.hello(&identity(), NodeSpec::default(), now_ns);
    let cluster_id = session.fence().cluster.unwrap_or(cluster(7)).0.to_vec();
    let welcome =
        Welcome { mode: mode as i32, observed_seq, heartbeat_ms: 5_000, cluster_id, restored: false };
    session.on_down(Down::Welcome(welcome), now_ns);
}

/// What the server hears by `now`, a line a message.
fn hear(session: &mut AgentSession, now_ns: u64) -> String {
    let mut out = String::new();
    while let Some(message) = session.poll(now_ns) {
        let line = match message {
            Up::Update(update) => update_line(&update),
            Up::Heartbeat(heartbeat) => format!("heartbeat seq={}", heartbeat.seq),
            other => format!("{other:?}"),
        };
        out += &format!("{}ms {line}\n", now_ns / MS);
    }
    out
}

fn update_line(update: &Update) -> String {
    let statuses = update.allocs.iter().map(|bytes| AllocStatus::decode(bytes.clone()).expect("a status"));
    let response: Vec<_> =
        statuses.map(|status| format!("{}:{}", status.alloc_id[0], status.description)).collect();
    let done = if update.resync_done { " resync_done" } else { "" };
    format!("update seq={} [{}]{done}", update.seq, response.join(" "))
}

fn check(actual: &str, expected: &Expect) {
    expected.assert_eq(actual);
}

#[test]
fn newer_overwrites_older_and_urgent_takes_all_along() {
    let mut session = open_session(WelcomeMode::Equal);
    tell(&mut session, desired(1, &[1, 2], &[], &[]), 0);
    session.observe(id(1), &status(1, "a"), false, 0);
    session.observe(id(2), &status(2, "b"), false, 100 * MS);
    session.observe(id(1), &status(1, "c"), false, 200 * MS);
    assert_eq!(session.deadline(), Some(1_000 * MS));
    let mut response = hear(&mut session, 999 * MS) + &hear(&mut session, 1_000 * MS);
    session.observe(id(1), &status(1, "d"), false, 1_100 * MS);
    session.observe(id(2), &status(2, "e"), true, 1_200 * MS);
    response += &hear(&mut session, 1_200 * MS);
    check(
        &response,
        &expect![[r#"
            1000ms update seq=3 [2:b 1:c]
            1200ms update seq=5 [1:d 2:e]
        "#]],
    );
}

/// The most that it waits is three times as long as by itself.
#[test]
fn what_is_not_urgent_waits_for_as_long_as_the_server_asks() {
    let asks = |session: &mut AgentSession, delay_ms| {
        session.on_down(Down::Ack(Ack { seq: 0, delay_ms }), 0);
        session.observe(id(1), &status(1, &delay_ms.to_string()), false, 0);
        let due = session.deadline();
        hear(session, due.unwrap_or_default());
        due.map(|at_ns| at_ns / MS)
    };
    let mut session = open_session(WelcomeMode::Equal);
    tell(&mut session, desired(1, &[1], &[], &[]), 0);
    for (request, waits) in [(0, 1_000), (2_500, 2_500), (0, 2_500), (9_000, 3_000), (10, 1_000)] {
        assert_eq!(asks(&mut session, request), Some(waits), "{request} ms are asked for");
    }
    session.on_down(Down::Ack(Ack { seq: 0, delay_ms: 3_000 }), 0);
    session.observe(id(1), &status(1, "urgent"), true, 7 * MS);
    assert_eq!(session.deadline(), Some(7 * MS));
}

/// For experiments: what each of the ideas is worth that make updates few.
#[test]
fn each_idea_can_be_switched_off() {
    let transcript = |batching: Batching| {
        let mut session = AgentSession::with(0, UPDATE_DELAY_NS, batching);
        session.hello(&identity(), NodeSpec::default(), 0);
        welcome(&mut session, WelcomeMode::Equal, 0, 0);
        tell(&mut session, desired(1, &[1, 2], &[], &[]), 0);
        session.on_down(Down::Ack(Ack { seq: 0, delay_ms: 2_000 }), 0);
        session.observe(id(1), &status(1, "a"), false, 0);
        session.observe(id(2), &status(2, "b"), false, 0);
        let mut response = hear(&mut session, 1_000 * MS);
        session.observe(id(1), &status(1, "c"), true, 1_100 * MS);
        response += &hear(&mut session, 1_100 * MS);
        response + &hear(&mut session, 2_100 * MS)
    };
    let all = Batching::default();
    check(
        &transcript(all),
        &expect![[r#"
        1100ms update seq=3 [2:b 1:c]
    "#]],
    );
    check(
        &transcript(Batching { priority: false, ..all }),
        &expect![[r#"
        2100ms update seq=3 [2:b 1:c]
    "#]],
    );
    check(
        &transcript(Batching { shared_buffer: false, ..all }),
        &expect![[r#"
        1000ms update seq=1 [1:a]
        1000ms update seq=2 [2:b]
        1100ms update seq=3 [1:c]
    "#]],
    );
    check(
        &transcript(Batching { adaptive: false, ..all }),
        &expect![[r#"
        1000ms update seq=2 [1:a 2:b]
        1100ms update seq=3 [1:c]
    "#]],
    );
}

#[test]
fn heartbeats_go_out_every_interval_even_if_updates_flow() {
    let mut session = open_session(WelcomeMode::Equal);
    tell(&mut session, desired(1, &[1], &[], &[]), 0);
    let mut response = hear(&mut session, 5_000 * MS);
    session.observe(id(1), &status(1, "a"), true, 9_000 * MS);
    response += &hear(&mut session, 9_000 * MS);
    session.observe(id(1), &status(1, "b"), true, 10_000 * MS);
    response += &hear(&mut session, 10_000 * MS);
    response += &hear(&mut session, 14_000 * MS);
    check(
        &response,
        &expect![[r#"
            5000ms heartbeat seq=0
            9000ms update seq=1 [1:a]
            10000ms update seq=2 [1:b]
            10000ms heartbeat seq=2
        "#]],
    );
}

#[test]
fn a_server_may_ask_for_fewer_heartbeats() {
    let mut session = open_session(WelcomeMode::Equal);
    let mut response = hear(&mut session, 5_000 * MS);
    session.on_down(Down::HeartbeatEvery(HeartbeatEvery { heartbeat_ms: 10_000 }), 5_100 * MS);
    assert_eq!(session.deadline(), Some(15_000 * MS));
    response += &hear(&mut session, 14_999 * MS);
    response += &hear(&mut session, 15_000 * MS);
    check(
        &response,
        &expect![[r#"
            5000ms heartbeat seq=0
            15000ms heartbeat seq=0
        "#]],
    );
}

#[test]
fn nothing_is_sent_before_the_welcome_or_after_the_end() {
    let mut session = AgentSession::new(0, UPDATE_DELAY_NS);
    tell(&mut session, desired(1, &[1], &[], &[]), 0);
    session.observe(id(1), &status(1, "a"), true, 0);
    session.hello(&identity(), NodeSpec::default(), 0);
    assert_eq!((session.poll(u64::MAX), session.is_open()), (None, false));
    welcome(&mut session, WelcomeMode::Full, 0, 0);
    session.disconnected();
    assert_eq!((session.poll(u64::MAX), session.is_open()), (None, false));
}

#[test]
fn a_resync_tells_what_is_asked_for() {
    let script = |mode, observed_seq| {
        let mut session = open_session(WelcomeMode::Equal);
        tell(&mut session, desired(1, &[1, 2, 3], &[], &[]), 0);
        for number in 1..=3 {
            session.observe(id(number), &status(number, "x"), true, 0);
        }
        hear(&mut session, 0);
        session.disconnected();
        session.hello(&identity(), NodeSpec::default(), 0);
        session.observe(id(1), &status(1, "between hello and welcome"), false, 0);
        let welcome = Welcome { mode: mode as i32, observed_seq, heartbeat_ms: 5_000, ..Welcome::default() };
        session.on_down(Down::Welcome(welcome), MS);
        hear(&mut session, 2 * MS)
    };
    check(
        &[
            script(WelcomeMode::Equal, 0),
            script(WelcomeMode::FromSeq, 2),
            script(WelcomeMode::FromSeq, 9),
            script(WelcomeMode::Full, 0),
        ]
        .concat(),
        &expect![[r#"
            2ms update seq=4 [1:between hello and welcome]
            2ms update seq=4 [3:x 1:between hello and welcome] resync_done
            2ms update seq=4 [1:between hello and welcome] resync_done
            2ms update seq=4 [2:x 3:x 1:between hello and welcome] resync_done
        "#]],
    );
}

#[test]
fn what_the_hello_covered_is_not_said_again() {
    let mut session = open_session(WelcomeMode::Equal);
    tell(&mut session, desired(1, &[1], &[], &[]), 0);
    session.disconnected();
    session.observe(id(1), &status(1, "while away"), true, 0);
    welcome(&mut session, WelcomeMode::Equal, 0, MS);
    assert_eq!(hear(&mut session, MS), "");
}

#[test]
fn an_empty_resync_is_confirmed_too() {
    let mut session = open_session(WelcomeMode::Full);
    check(
        &hear(&mut session, 0),
        &expect![[r#"
        0ms update seq=0 [] resync_done
    "#]],
    );
}

#[test]
fn a_long_resync_comes_in_parts_that_fit_a_frame() {
    let mut session = open_session(WelcomeMode::Equal);
    let numbers: Vec<u8> = (1..=5).collect();
    tell(&mut session, desired(1, &numbers, &[], &[]), 0);
    let long = "x".repeat(UPDATE_BYTES_MAX / 3);
    numbers.iter().for_each(|number| session.observe(id(*number), &status(*number, &long), true, 0));
    session.disconnected();
    welcome(&mut session, WelcomeMode::Full, 0, 0);
    let mut parts = Vec::new();
    while let Some(Up::Update(update)) = session.poll(0) {
        assert!(update.allocs.iter().map(Bytes::len).sum::<usize>() <= UPDATE_BYTES_MAX);
        parts.push((update.seq, update.allocs.len(), update.resync_done));
    }
    assert_eq!(parts, [(2, 2, false), (4, 2, false), (5, 1, true)]);
}

#[test]
fn unacknowledged_updates_are_bounded_and_what_waits_coalesces() {
    let mut session = open_session(WelcomeMode::Equal);
    tell(&mut session, desired(1, &[1], &[], &[]), 0);
    let mut response = String::new();
    for turn in 0..10 {
        session.observe(id(1), &status(1, &turn.to_string()), true, 0);
        response += &hear(&mut session, 0);
    }
    session.on_down(Down::Ack(Ack { seq: 1, delay_ms: 0 }), 0);
    response += &hear(&mut session, 0);
    check(
        &response,
        &expect![[r#"
            0ms update seq=1 [1:0]
            0ms update seq=2 [1:1]
            0ms update seq=3 [1:2]
            0ms update seq=4 [1:3]
            0ms update seq=10 [1:9]
        "#]],
    );
}

#[test]
fn desired_state_older_than_the_last_is_dropped() {
    let mut session = open_session(WelcomeMode::Equal);
    assert!(tell(&mut session, desired(7, &[1], &[], &[]), 0).is_some());
    let before = session.digests();
    assert_eq!(tell(&mut session, desired(6, &[2], &[], &[]), 0), None);
    assert_eq!(tell(&mut session, Desired { term: 0, ..desired(9, &[2], &[], &[]) }, 0), None);
    let lagging = Desired { term: 2, ..desired(6, &[2], &[], &[]) };
    assert_eq!(tell(&mut session, lagging, 0), None, "it knows of an election, and not of what came before");
    assert_eq!(session.digests(), before);
    assert!(tell(&mut session, desired(7, &[2], &[], &[]), 0).is_some());
    let recovered = Desired { term: 1 << 32, ..desired(6, &[3], &[], &[]) };
    assert!(tell(&mut session, recovered, 0).is_some(), "the cluster has begun again");
}

#[test]
fn digests_follow_every_change_and_survive_a_restart() {
    let mut session = open_session(WelcomeMode::Equal);
    let mut observed = BTreeMap::new();
    tell(&mut session, desired(1, &[1, 2, 3, 4], &[], &[]), 0);
    for (number, text) in [(1, "a"), (2, "b"), (1, "c"), (3, "d"), (9, "never asked for")] {
        session.observe(id(number), &status(number, text), false, 0);
        observed.insert(number, status(number, text));
    }
    tell(&mut session, desired(2, &[], &[2], &[3]), 0);
    tell(&mut session, Desired { full: true, ..desired(3, &[1, 5], &[2], &[]) }, 0);

    let wanted = [(1, Some(0)), (2, None), (5, Some(0))];
    let mut expected = (Digest::default(), Digest::default());
    wanted.iter().for_each(|(number, revision)| expected.0.add(desired_hash(&id(*number).0, *revision)));
    [1, 2].iter().for_each(|number| expected.1.add(observed_hash(&observed[number].encode_to_vec())));
    assert_eq!(session.digests(), expected);

    let mut restarted = AgentSession::new(7, UPDATE_DELAY_NS);
    for (number, revision) in [(1, Some(0)), (2, None)] {
        restarted.restore(id(number), revision, &observed[&number]);
    }
    assert_eq!(restarted.digests().1, expected.1);
    assert_eq!(restarted.seq(), (7 << 32) + 2, "each counts as a change: an update may be cut between them");
}
