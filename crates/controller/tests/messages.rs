//! The bytes of what servers say to each other, as files: what a version writes, every later one must read.
//!
//! A file changes only together with [`MESSAGE_VERSION`], or where a field is added with a new number.

use std::{fmt::Write, sync::Arc};

use berth_controller::{
    Continuation, DownFrame, DownMessage, EndSession, MESSAGE_VERSION, NodeRecovery, NodeReport,
    ObservationBatch, RecordedNode, ReportVersion, ReportedAlloc, ServerMessage, SessionId, SessionState,
    UpFrame, UpMessage,
};
use berth_model::{
    AllocId, Index, NodeId, Timestamp,
    alloc::ClientStatus,
    observed::{ObservedAlloc, ObservedTask, TaskEvent, TaskState},
    store::AllocSlot,
};
use expect_test::{ExpectFile, expect_file};

/// The message has these bytes, and they are read as this message.
fn check(message: &ServerMessage, expected: &ExpectFile) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    assert_eq!(bytes[0], MESSAGE_VERSION);
    let mut hex = String::new();
    for line in bytes.chunks(32) {
        line.iter().for_each(|byte| write!(hex, "{byte:02x}").expect("written"));
        hex.push('\n');
    }
    expected.assert_eq(&hex);
    let mut again = Vec::new();
    ServerMessage::decode(&bytes).expect("a message").encode(&mut again);
    assert_eq!(again, bytes, "it is read as another message");
}

fn report() -> Arc<NodeReport> {
    let event = TaskEvent {
        kind: "Started",
        at: Timestamp(1),
        message: "Task started by client".into(),
        ..TaskEvent::default()
    };
    let task = ObservedTask {
        name: "web".into(),
        state: TaskState::Running,
        failed: false,
        restarts: 1,
        last_restart: Timestamp(2),
        started_at: Timestamp(3),
        finished_at: Timestamp(0),
        exit: (7, 9, true),
        events: vec![event],
    };
    let alloc = ObservedAlloc {
        id: AllocId(8),
        status: ClientStatus::Running,
        description: "Tasks are running".into(),
        tasks: vec![task],
        modified_at: Timestamp(4),
        healthy: Some(true),
        health_message: "it is well".into(),
        hash: 5 << 100,
        revision: 2,
    };
    let version = Some(ReportVersion { epoch: 3, seq: 3 << 32, confirmed: true });
    let seen = vec![ReportedAlloc::new(AllocSlot(6), Arc::new(alloc))];
    Arc::new(NodeReport { node: NodeId(1), session: Some(SessionId(2)), version, seen })
}

#[test]
fn what_a_replica_says() {
    let version = ReportVersion { epoch: 3, seq: 3 << 32, confirmed: false };
    let recorded = vec![RecordedNode { node: NodeId(1), version, digest: 4 << 90 }];
    let session = SessionState {
        session: SessionId(2),
        node: NodeId(1),
        epoch: 3,
        instance: 7,
        dial: 2,
        is_open: true,
        is_new: true,
        confirmed: false,
        introduces: None,
    };
    let messages = vec![
        UpMessage::Recorded(recorded, Continuation::Follows),
        UpMessage::Session(Box::new(session)),
        UpMessage::SignsOfLife(vec![NodeId(1), NodeId(2)]),
        UpMessage::Report(report()),
    ];
    let frame = UpFrame { term: 1, attachment: 2, number: 3, as_of: Index(4), messages };
    check(&ServerMessage::Up(frame), &expect_file!["golden/messages/up.hex"]);
}

#[test]
fn what_the_leader_says() {
    let end = EndSession { node: NodeId(1), session: SessionId(2), reason: "not now".into(), retry: true };
    let messages = vec![
        DownMessage::LeadershipBegan(Index(10), Index(9)),
        DownMessage::Batch(Arc::new(ObservationBatch::new(Index(12), Index(11), vec![report()]))),
        DownMessage::UpTo(Index(13), NodeRecovery::of(1)),
        DownMessage::UpTo(
            Index(13),
            NodeRecovery {
                unconfirmed: 1,
                unheard: 2,
                grace_until: Timestamp(3),
                held: 4,
                held_nodes: vec![NodeId(5)],
            },
        ),
        DownMessage::EndSession(end),
        DownMessage::ReportNode(NodeId(1)),
    ];
    let frame = DownFrame { term: 1, attachment: 2, number: 3, messages };
    check(&ServerMessage::Down(frame), &expect_file!["golden/messages/down.hex"]);
}

#[test]
fn what_a_newer_version_wrote_is_refused_by_both_numbers() {
    let error = ServerMessage::decode(&[MESSAGE_VERSION + 1, 0]).unwrap_err().to_string();
    assert!(error.contains(&format!("version {}", MESSAGE_VERSION + 1)), "{error}");
    assert!(error.contains(&format!("up to {MESSAGE_VERSION}")), "{error}");
    assert!(ServerMessage::decode(&[]).is_err());
    assert!(ServerMessage::decode(&[MESSAGE_VERSION, 7]).is_err());
    assert!(ServerMessage::decode(&[MESSAGE_VERSION, 0, 0xff]).is_err());
}
