//! Messages of the first version about agents, byte for byte: every later version must read them. Variants and fields may be added.

use std::fmt::Write;

use expect_test::expect_file;

use super::*;

fn requests() -> Vec<RelayedRequest> {
    let (alloc, node) = (AllocId(1), NodeId(2));
    let (task, stream) = ("web".to_owned(), "stdout".to_owned());
    let log = WireRead {
        alloc,
        task: task.clone(),
        stream,
        offset: 7,
        from_end: true,
        follow: true,
        path: None,
        limit: None,
        agent_log: None,
    };
    let file = WireRead {
        alloc,
        task: String::new(),
        stream: String::new(),
        offset: 8,
        from_end: false,
        follow: false,
        path: Some("alloc/data/a".to_owned()),
        limit: Some(9),
        agent_log: None,
    };
    let lines = WireLogDetail { level: "WARN".to_owned(), json: true };
    let agent_log = WireRead { agent_log: Some(lines.clone()), path: None, limit: None, ..file.clone() };
    let exec = WireExec { alloc, task, command: vec!["sh".to_owned(), "-c".to_owned()], tty: true };
    vec![
        RelayedRequest::Find(node),
        RelayedRequest::Ask(node, vec![1, 2]),
        RelayedRequest::Read(node, log),
        RelayedRequest::Read(node, file),
        RelayedRequest::Exec(node, exec),
        RelayedRequest::Next(3),
        RelayedRequest::Input(3, WireInput::Data(vec![4])),
        RelayedRequest::Input(3, WireInput::Close),
        RelayedRequest::Input(3, WireInput::Resize(24, 80)),
        RelayedRequest::Keep(3),
        RelayedRequest::End(3),
        RelayedRequest::Read(node, agent_log),
        RelayedRequest::ServerLog(lines),
    ]
}

fn answers() -> Vec<RelayedAnswer> {
    let text = || "why".to_owned();
    let failures = [
        WireError::NotFound(text()),
        WireError::Invalid(text()),
        WireError::Busy(text()),
        WireError::NotConnected,
        WireError::Silent,
        WireError::Failed(text()),
    ];
    let mut all = vec![
        RelayedAnswer::Done,
        RelayedAnswer::NotYet,
        RelayedAnswer::Ended,
        RelayedAnswer::Outcome(vec![1, 2]),
        RelayedAnswer::Begun(3),
        RelayedAnswer::Piece(WirePiece {
            offset: 5,
            data: vec![6],
            file: "web.stdout.0".to_owned(),
            event: None,
        }),
        RelayedAnswer::Piece(WirePiece {
            offset: 0,
            data: Vec::new(),
            file: "alloc/data/a".to_owned(),
            event: Some("file truncated".to_owned()),
        }),
        RelayedAnswer::Output(WireOutput::Stdout(vec![7])),
        RelayedAnswer::Output(WireOutput::Stderr(vec![8])),
        RelayedAnswer::Output(WireOutput::Exited(-9)),
    ];
    all.extend(failures.map(RelayedAnswer::Failed));
    all
}

/// What a message is, and its bytes, which are read again as the same.
fn line<T: Encode<()> + for<'b> Decode<'b, ()> + std::fmt::Debug>(message: &T) -> String {
    let bytes = minicbor::to_vec(message).unwrap();
    let again: T = minicbor::decode(&bytes).unwrap();
    assert_eq!(minicbor::to_vec(&again).unwrap(), bytes, "{message:?}");
    let hex = bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    format!("{message:?}\n    {hex}\n")
}

#[test]
fn relayed_messages_of_the_first_version_are_read_and_written_byte_for_byte() {
    let lines: String = requests().iter().map(line).chain(answers().iter().map(line)).collect();
    expect_file!["./golden.txt"].assert_eq(&lines);
}

#[test]
fn an_unknown_relayed_request_of_a_later_version_is_refused() {
    let later = [0x82, 0x18, 99, 0x81, 0x05];
    assert!(minicbor::decode::<RelayedRequest>(&later).is_err());
    assert!(minicbor::decode::<RelayedAnswer>(&later).is_err());
    assert!(read_question(&[0xff]).is_none() && read_outcome(&[0xff]).is_none());
}
