//! What servers of the first version with several ask and answer, byte for byte: every later version reads it, so that
//! servers of two versions are one cluster while they are upgraded. Variants and fields may be added.

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

fn requests() -> Vec<Request> {
    let known = Known { id: 2, peer: peer() };
    vec![
        Request::Join(Joining { id: 2, peer: peer(), member: true }),
        Request::Propose(vec![1, 2, 3]),
        Request::ReadPosition,
        Request::Change(Change::Remove(2)),
        Request::Change(Change::Promote(2)),
        Request::Change(Change::Transfer(Some(2))),
        Request::Change(Change::Transfer(None)),
        Request::Meet(Meeting { expect: 3, known: vec![known] }),
        Request::Agree(vec![1, 2, 3]),
        Request::Ping,
        Request::Kek(KekId(7)),
        Request::HoldKek(KekBytes::new(vec![1, 2])),
        Request::Stopping,
    ]
}

fn answers() -> Vec<Answer> {
    let changed =
        Refusal::JobChanged { job: JobKey::new("default", "web"), expected: Index(5), current: Index(6) };
    let refused = Refused { refusal: encode(&changed), text: changed.to_string() };
    let pulse = Pulse {
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
    let full = Pulse { disk_full: Some(true), ..pulse.clone() };
    let leading = Pulse { mean_sync_us: Some(1500), knows_you: Some(false), ..pulse.clone() };
    vec![
        Answer::Done,
        Answer::NotLeader(None),
        Answer::NotLeader(Some(Known { id: 2, peer: peer() })),
        Answer::Refused("no".to_owned()),
        Answer::Unknown("perhaps".to_owned()),
        Answer::Committed(Index(7), vec![None, Some(refused)]),
        Answer::Busy(8),
        Answer::TooLarge(9, 10),
        Answer::Position(11, Some(Index(12))),
        Answer::Met(vec![Known { id: 2, peer: peer() }]),
        Answer::Taken,
        Answer::Here(pulse),
        Answer::Here(full),
        Answer::Here(leading),
        Answer::Here(Pulse { keks: Some(vec![KekId(7)]), ..Pulse::default() }),
        Answer::Here(Pulse { majority_ms: Some(2_500), ..Pulse::default() }),
        Answer::Here(Pulse { leads: Some(false), stopping: Some(true), ..Pulse::default() }),
        Answer::Kek(None),
        Answer::Kek(Some(KekBytes::new(vec![1, 2]))),
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
fn what_the_first_version_says_is_said_and_read() {
    assert!(requests().iter().all(again) && answers().iter().all(again));
    let lines: String = requests().iter().map(line).chain(answers().iter().map(line)).collect();
    expect_file!["./golden.txt"].assert_eq(&lines);
}

#[test]
fn what_a_later_version_asks_is_refused_and_not_mistaken() {
    // A request of number 99, and an answer of the same.
    let later = [0x82, 0x18, 99, 0x81, 0x05];
    assert!(decode::<Request>(&later).unwrap_err().contains("read what another server says"));
    assert!(decode::<Answer>(&later).is_err());
    // A field that a later version adds to a known message is passed over.
    let mut pulse = encode(&Pulse { term: 7, knows_you: Some(true), ..Pulse::default() });
    assert_eq!(pulse[0], 0x87, "an array of seven");
    pulse[0] = 0x8c;
    // The fields from the eighth to the eleventh are known: none.
    pulse.extend([0xf6; 4]);
    pulse.push(0x01);
    assert_eq!(decode::<Pulse>(&pulse).unwrap().term, 7);
}
