//! Every bit and every length of a small segment: what was synced is read as it was written or refused, never skipped.

use openraft::entry::RaftEntry;

use super::support;
use crate::{
    log::for_tests::{Marks, ScannedSegment, encode, scan},
    types::{LogEntry, Payload, Proposal, log_id},
};

const RECORDS: u64 = 6;
/// That many are at least a mebibyte.
const MEBIBYTE_RECORDS: u64 = 12_000;

/// Records as they are written one by one, each after a sync of the one before; and where each begins.
fn segment() -> (Vec<u8>, Vec<usize>) {
    segment_of(RECORDS)
}

fn segment_of(records: u64) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut starts) = (Vec::new(), Vec::new());
    for index in 0..records {
        let payload = match index {
            0 => Payload::Blank,
            1 => Payload::Normal(Proposal::new(support::register(index).into())),
            _ => Payload::Normal(Proposal::new(support::grant(index).into())),
        };
        starts.push(bytes.len());
        let marks = Marks { durable: index, committed: index };
        encode(&LogEntry::new(log_id(1, index), payload), marks, &mut bytes);
    }
    starts.push(bytes.len());
    (bytes, starts)
}

fn count(scanned: &ScannedSegment) -> u64 {
    scanned.records.len() as u64
}

#[test]
fn a_whole_segment_is_read() {
    let (mut bytes, _) = segment();
    assert_eq!(count(&scan(&bytes, 0, 0).unwrap()), RECORDS);
    bytes.resize(bytes.len() + 4096, 0);
    let scanned = scan(&bytes, 0, 0).unwrap();
    assert_eq!((count(&scanned), scanned.torn), (RECORDS, false));
}

#[test]
fn every_flipped_bit_is_found() {
    for ahead in [0, 4096] {
        let (mut bytes, starts) = segment();
        let written = bytes.len();
        bytes.resize(written + ahead, 0);
        for bit in 0..written * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let flaw = scan(&bytes, 0, 0).expect_err(&format!("bit {bit} of {written} bytes was flipped"));
            let record = starts.partition_point(|start| *start <= bit / 8) - 1;
            assert_eq!(flaw.index, record as u64, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Of a mebibyte, every `step`-th bit: all of them in the long run, which takes a release build.
#[test]
fn every_flipped_bit_of_a_mebibyte_is_found() {
    let is_long = std::env::var_os("BERTH_TEST_ROUNDS").is_some();
    let step = if is_long { 1 } else { 100_003 };
    let (bytes, starts) = segment_of(MEBIBYTE_RECORDS);
    assert!(bytes.len() >= 1 << 20, "{} bytes", bytes.len());
    let of_thread = |thread: usize, threads: usize| {
        let mut bytes = bytes.clone();
        for bit in (0..bytes.len() * 8).step_by(step).skip(thread).step_by(threads) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let flaw = scan(&bytes, 0, 0).expect_err(&format!("bit {bit} was flipped"));
            let record = starts.partition_point(|start| *start <= bit / 8) - 1;
            assert_eq!(flaw.index, record as u64, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || of_thread(thread, 2));
        }
    });
}

#[test]
fn every_cut_of_the_last_record_is_a_torn_write() {
    let (bytes, starts) = segment();
    for end in 0..bytes.len() {
        let whole = starts.partition_point(|start| *start <= end) as u64 - 1;
        let scanned = scan(&bytes[..end], 0, 0).unwrap();
        assert_eq!((count(&scanned), scanned.end), (whole, starts[whole as usize]), "cut at {end}");
    }
}

#[test]
fn a_lost_sector_is_a_torn_write_only_if_nobody_knows_that_it_was_synced() {
    let entry = |index| {
        LogEntry::new(log_id(1, index), Payload::Normal(Proposal::new(support::register(index).into())))
    };
    let batch = |durable_of_last: u64| {
        let mut bytes = Vec::new();
        for index in 0..10 {
            let durable = if index == 9 { durable_of_last } else { 0 };
            encode(&entry(index), Marks { durable, committed: 0 }, &mut bytes);
        }
        bytes[1024..1536].fill(0);
        bytes
    };
    let torn = scan(&batch(0), 0, 0).unwrap();
    assert!(torn.torn && count(&torn) < 9);
    assert!(scan(&batch(9), 0, 0).is_err());
}
