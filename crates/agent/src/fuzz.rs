//! Fuzz tests of untrusted input, damaged and generated: it is understood or refused, and never ends the agent.
//!
//! A few hundred cases each; `PROPTEST_CASES` says how many otherwise.

use std::fs;

use prop::sample::Index;
use proptest::prelude::*;
use prost::Message;

use crate::disk;
use crate::golden;
use crate::images::fuzz::{layout, texts};
use crate::keeper::exec::plan::{ExecPlan, ExecReport, read_message};
use crate::keeper::plan::{ExitRecord, KeeperPlan, StartRecord};
use crate::lifecycle::{AllocRecord, Event, GroupCache, Node};
use crate::logs::{LogPath, LogReader};
use crate::mountinfo;

/// Bytes that are written over others.
fn damage() -> impl Strategy<Value = Vec<(Index, u8)>> {
    prop::collection::vec((any::<Index>(), any::<u8>()), 1..16)
}

fn damaged(mut bytes: Vec<u8>, damage: &[(Index, u8)]) -> Vec<u8> {
    for (at, byte) in damage {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    bytes
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// What an agent does with a record that it finds at its start.
fn take_up(record: AllocRecord) {
    let (mut node, mut actions) = (Node::new(1), Vec::new());
    if node.restore(record, &mut GroupCache::default(), &mut actions).is_err() {
        return;
    }
    for now_ns in [0, 1, 1 << 40, u64::MAX / 2] {
        node.handle(Event::Tick, now_ns, &mut actions);
    }
    let ids: Vec<_> = node.allocs().map(|alloc| alloc.id()).collect();
    for id in ids {
        node.handle(Event::Stop { alloc: id, reason: "x".into() }, 1 << 41, &mut actions);
        assert!(node.record(id).is_none_or(|record| record.encoded_len() > 0));
        node.handle(Event::Purge(id), 1 << 42, &mut actions);
    }
}

proptest! {
    #![proptest_config(cases())]

    /// On disk nothing damaged passes for a record.
    #[test]
    fn damaged_records_are_refused(damage in damage(), cut in any::<Index>(), is_cut in any::<bool>()) {
        let dir = tempfile::tempdir().expect("a directory");
        disk::write(dir.path(), "start", &golden::start()).expect("written");
        let path = dir.path().join("start");
        let good = fs::read(&path).expect("bytes");
        let mut bad = damaged(good.clone(), &damage);
        if is_cut {
            bad.truncate(cut.index(bad.len()));
        }
        // Two bytes of the header are not used.
        let is_same = bad.len() == good.len() && (0..good.len()).all(|at| at == 6 || at == 7 || bad[at] == good[at]);
        fs::write(&path, bad).expect("written");
        prop_assert_eq!(StartRecord::read(dir.path()).is_ok(), is_same);
    }

    /// And what was written by whatever else is taken up or refused.
    #[test]
    fn made_up_records_are_taken_up_or_refused(damage in damage(), noise in prop::collection::vec(any::<u8>(), 0..200)) {
        for bytes in [damaged(golden::alloc().encode_to_vec(), &damage), noise] {
            if let Ok(record) = AllocRecord::decode(bytes.as_slice()) {
                take_up(record);
            }
            let _ = StartRecord::decode(bytes.as_slice()).map(|start| start.cgroups());
            let _ = ExitRecord::decode(bytes.as_slice());
            let _ = KeeperPlan::decode(bytes.as_slice());
        }
    }

    #[test]
    fn messages_of_helpers_are_bounded(bytes in prop::collection::vec(any::<u8>(), 0..64), more in any::<u8>()) {
        let endless = || std::io::Read::chain(bytes.as_slice(), std::io::repeat(more));
        let _ = read_message::<ExecReport>(&mut endless());
        let _ = read_message::<ExecPlan>(&mut endless());
    }

    #[test]
    fn what_registries_say_is_understood_or_refused(
        damage in damage(), noise in prop::collection::vec(any::<u8>(), 0..300), text in ".{0,200}",
    ) {
        texts(&noise, &text);
        for document in crate::images::fuzz::DOCUMENTS {
            texts(&damaged(document.as_bytes().to_vec(), &damage), &text);
        }
    }

    #[test]
    fn layouts_are_understood_or_refused(damage in damage(), which in 0..3_usize) {
        let dir = tempfile::tempdir().expect("a directory");
        let _ = layout(dir.path(), which, |bytes| damaged(bytes, &damage));
    }

    #[test]
    fn lists_of_mounts_are_read(text in prop::collection::vec(any::<u8>(), 0..300), damage in damage()) {
        mountinfo::parse(&text);
        let real = fs::read("/proc/self/mountinfo").expect("mounts");
        mountinfo::parse(&damaged(real, &damage));
    }

    /// Whatever files there are, and wherever somebody wants to begin, a reader comes to an end and gives what is there.
    #[test]
    fn logs_are_read_to_their_end(
        files in prop::collection::btree_map(prop_oneof![0..5_u64, any::<u64>()], 0..40_usize, 0..5),
        offset in prop_oneof![0..200_u64, any::<u64>()], from_end in any::<bool>(), piece in 1..64_usize,
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        for (index, bytes) in &files {
            fs::write(dir.path().join(format!("t.stdout.{index}")), vec![b'x'; *bytes]).expect("written");
        }
        let log_path = LogPath::new(dir.path(), "t", "stdout", 32);
        let mut reader = LogReader::new(log_path, offset, from_end);
        let mut rounds = 0;
        while let Some(found) = reader.next_piece(piece).expect("read") {
            prop_assert!(!found.data.is_empty() && found.data.len() <= piece);
            rounds += 1;
            prop_assert!(rounds <= 5 * 32, "it never ends");
        }
    }
}

/// What the above is made of is fine before it is damaged.
#[test]
fn what_is_not_damaged_is_understood() {
    let dir = tempfile::tempdir().expect("a directory");
    for which in 0..3 {
        let parsed = layout(dir.path(), which, |bytes| bytes);
        assert!(parsed.is_ok(), "{parsed:?}");
    }
    take_up(golden::alloc());
}
