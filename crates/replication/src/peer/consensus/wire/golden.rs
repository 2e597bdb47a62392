//! What consensus engines of the first version with several servers say to each other, byte for byte: every later version
//! reads it, so that servers of two versions are one cluster while they are upgraded. Fields may be added.

use std::{collections::BTreeMap, fmt::Write};

use berth_model::{
    Index, Timestamp,
    command::{Command, Entry},
};
use openraft::{EntryPayload, raft::AppendEntriesRequest};

use super::*;
use crate::{
    runtime::Tokio,
    types::{LogEntry, Membership, Peer, Proposal, StoredMembership},
};

/// Name and bytes of each message. Written again with `BERTH_BLESS=1`, which no release allows for what another has written.
const GOLDEN: &str = include_str!("golden.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn bytes(hex: &str) -> Bytes {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn vote() -> WireVote {
    WireVote { term: 7, server: 2, granted: true }
}

const LAST: RecordName = RecordName { term: 6, index: 300 };

fn membership() -> StoredMembership {
    let peer = Peer {
        address: "127.0.0.2:4648".to_owned(),
        name: "s2".to_owned(),
        http: "127.0.0.2:4646".to_owned(),
        agent: "127.0.0.2:4647".to_owned(),
    };
    let both =
        Membership::new(vec![[1].into(), [1, 2].into()], BTreeMap::from([(1, Peer::default()), (2, peer)]));
    StoredMembership::new(Some(log_id(6, 299)), both.unwrap())
}

fn append() -> AppendEntriesRequest<Types<Tokio>> {
    // The entry's own version is not the wire's: its bytes are those of version 1, whatever is written today.
    let entry = Entry::new(Index(9), Timestamp(5), vec![Command::GrantIndexes(Index(10))]);
    let mut encoded = entry.encode();
    encoded[0] = 1;
    let payloads = [
        EntryPayload::Blank,
        EntryPayload::Membership(membership().membership().clone()),
        EntryPayload::Normal(Proposal::from_bytes(encoded.into())),
    ];
    let entries = (301..).map(|index| log_id(7, index)).zip(payloads);
    AppendEntriesRequest {
        vote: vote().into(),
        prev_log_id: Some(LAST.into()),
        entries: entries.map(|(log_id, payload)| LogEntry { log_id, payload }).collect(),
        leader_commit: Some(log_id(6, 298)),
    }
}

fn encode(message: &impl Encode<()>) -> Vec<u8> {
    let mut out = Vec::new();
    put(message, &mut out);
    out
}

/// Each message as this version writes it, and what it makes of bytes.
type Reader = fn(&Bytes) -> Vec<u8>;

fn read<T: Encode<()> + for<'b> Decode<'b, ()>>(bytes: &Bytes) -> Vec<u8> {
    encode(&get::<T>(bytes).unwrap())
}

fn messages() -> Vec<(&'static str, Vec<u8>, Reader)> {
    let mut appended = Vec::new();
    encode_append::<Tokio>(5, &append(), &mut appended);
    let read_append: Reader = |bytes| {
        let (stream, append) = decode_append::<Tokio>(bytes).unwrap();
        let mut out = Vec::new();
        encode_append::<Tokio>(stream, &append, &mut out);
        out
    };
    let meta = SnapshotCoverage { last: LAST.into(), membership: membership(), departed: Vec::new() };
    let matching = AppendReply { matching: Some(LAST), conflict: None, higher: None };
    let higher = AppendReply { matching: None, conflict: None, higher: Some(vote()) };
    let conflict = AppendReply { matching: None, conflict: Some(LAST), higher: None };
    let logs = TransferReply { votes: None, logs: Some((Some(LAST), None)) };
    let votes = TransferReply { votes: Some((vote(), WireVote { term: 8, ..vote() })), logs: None };
    vec![
        ("append", appended, read_append),
        ("appended", encode(&matching), read::<AppendReply>),
        ("appended conflict", encode(&conflict), read::<AppendReply>),
        ("appended higher", encode(&higher), read::<AppendReply>),
        (
            "ask vote",
            encode(&WireVoteRequest { vote: vote(), last: Some(LAST), transfer: true }),
            read::<WireVoteRequest>,
        ),
        ("give vote", encode(&VoteReply { vote: vote(), granted: true, last: None }), read::<VoteReply>),
        (
            "transfer",
            encode(&WireTransferRequest { from: vote(), to: 3, last: Some(LAST) }),
            read::<WireTransferRequest>,
        ),
        ("transferred", encode(&TransferReply { votes: None, logs: None }), read::<TransferReply>),
        ("transferred logs", encode(&logs), read::<TransferReply>),
        ("transferred votes", encode(&votes), read::<TransferReply>),
        ("snapshot begin", encode(&SnapshotBegin::new(&meta, 4096, vec![7; 32])), read::<SnapshotBegin>),
        ("snapshot piece", encode(&SnapshotChunk { offset: 512, bytes: vec![1, 2] }), read::<SnapshotChunk>),
        ("snapshot received", encode(&SnapshotReply { bytes: 514 }), read::<SnapshotReply>),
        ("snapshot end", encode(&SnapshotEnd { vote: vote() }), read::<SnapshotEnd>),
    ]
}

#[test]
fn what_the_first_version_says_is_said_and_read() {
    let lines = messages().iter().fold(String::new(), |mut lines, (name, encoded, _)| {
        writeln!(lines, "{name}: {}", hex(encoded)).unwrap();
        lines
    });
    if std::env::var_os("BERTH_BLESS").is_some() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/peer/consensus/wire/golden.txt");
        std::fs::write(path, &lines).unwrap();
        return;
    }
    assert_eq!(lines, GOLDEN);
    for (line, (name, _, read)) in GOLDEN.lines().zip(messages()) {
        let (named, golden) = line.split_once(": ").unwrap();
        assert_eq!((named, hex(&read(&bytes(golden)))), (name, golden.to_owned()));
    }
}
