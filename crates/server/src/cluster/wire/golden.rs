//! Messages of the first version, byte for byte: every later version must read them, so that servers of two versions are one
//! cluster during an upgrade. Variants and fields may be added.

use std::fmt::Write;

use berth_model::ids::JobKey;
use expect_test::expect_file;

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn peer() -> Peer {
    Peer {
        address: "127.0.0.2:4648".to_owned(),
        name: "s2".to_owned(),
        http: "127.0.0.2:4646".to_owned(),
        agent: "127.0.0.2:4647".to_owned(),
    }
}

fn requests() -> Vec<PeerRequest> {
    let known = KnownServer { id: 2, peer: peer() };
    vec![
        PeerRequest::Join(JoinRequest { id: 2, peer: peer(), member: true }),
        PeerRequest::Propose(vec![1, 2, 3]),
        PeerRequest::ReadPosition,
        PeerRequest::Change(MembershipChange::Remove(2)),
        PeerRequest::Change(MembershipChange::Promote(2)),
        PeerRequest::Change(MembershipChange::Transfer(Some(2))),
        PeerRequest::Change(MembershipChange::Transfer(None)),
        PeerRequest::Meet(FoundingPeers { expect: 3, known: vec![known] }),
        PeerRequest::Agree(vec![1, 2, 3]),
        PeerRequest::Ping,
        PeerRequest::Kek(KekId(7)),
        PeerRequest::HoldKek(KekBytes::new(vec![1, 2])),
        PeerRequest::Stopping,
    ]
}

fn answers() -> Vec<PeerAnswer> {
    let changed =
        Refusal::JobChanged { job: JobKey::new("default", "web"), expected: Index(5), current: Index(6) };
    let refused = CommandRefusal { refusal: encode(&changed), text: changed.to_string() };
    let pulse = ServerPulse {
        slow_sync_ms: Some(900),
        log_index: 300,
        term: 7,
        version: "1.2.3".to_owned(),
        disk_full: None,
        mean_sync_us: None,
        knows_you: None,
        keks: None,
        majority_ms: None,
        leads: None,
        stopping: None,
    };
    let full = ServerPulse { disk_full: Some(true), ..pulse.clone() };
    let leading = ServerPulse { mean_sync_us: Some(1500), knows_you: Some(false), ..pulse.clone() };
    vec![
        PeerAnswer::Done,
        PeerAnswer::NotLeader(None),
        PeerAnswer::NotLeader(Some(KnownServer { id: 2, peer: peer() })),
        PeerAnswer::Refused("no".to_owned()),
        PeerAnswer::Unknown("perhaps".to_owned()),
        PeerAnswer::Committed(Index(7), vec![None, Some(refused)]),
        PeerAnswer::Busy(8),
        PeerAnswer::TooLarge(9, 10),
        PeerAnswer::Position(11, Some(Index(12))),
        PeerAnswer::Met(vec![KnownServer { id: 2, peer: peer() }]),
        PeerAnswer::Taken,
        PeerAnswer::Here(pulse),
        PeerAnswer::Here(full),
        PeerAnswer::Here(leading),
        PeerAnswer::Here(ServerPulse { keks: Some(vec![KekId(7)]), ..ServerPulse::default() }),
        PeerAnswer::Here(ServerPulse { majority_ms: Some(2_500), ..ServerPulse::default() }),
        PeerAnswer::Here(ServerPulse { leads: Some(false), stopping: Some(true), ..ServerPulse::default() }),
        PeerAnswer::Kek(None),
        PeerAnswer::Kek(Some(KekBytes::new(vec![1, 2]))),
    ]
}

/// What a message is, and its bytes.
fn line(message: &(impl Encode<()> + std::fmt::Debug)) -> String {
    format!("{message:?}\n    {}\n", hex(&encode(message)))
}

fn again<T: Encode<()> + for<'b> Decode<'b, ()>>(message: &T) -> bool {
    let bytes = encode(message);
    encode(&decode::<T>(&bytes).unwrap()) == bytes
}

#[test]
fn messages_of_the_first_version_are_read_and_written_byte_for_byte() {
    assert!(requests().iter().all(again) && answers().iter().all(again));
    let lines: String = requests().iter().map(line).chain(answers().iter().map(line)).collect();
    expect_file!["./golden.txt"].assert_eq(&lines);
}

#[test]
fn an_unknown_request_of_a_later_version_is_refused() {
    // A request of number 99, and an answer of the same.
    let later = [0x82, 0x18, 99, 0x81, 0x05];
    assert!(decode::<PeerRequest>(&later).unwrap_err().contains("read what another server says"));
    assert!(decode::<PeerAnswer>(&later).is_err());
    // A field that a later version adds to a known message is passed over.
    let mut pulse = encode(&ServerPulse { term: 7, knows_you: Some(true), ..ServerPulse::default() });
    assert_eq!(pulse[0], 0x87, "an array of seven");
    pulse[0] = 0x8c;
    // The fields from the eighth to the eleventh are known: none.
    pulse.extend([0xf6; 4]);
    pulse.push(0x01);
    assert_eq!(decode::<ServerPulse>(&pulse).unwrap().term, 7);
}
