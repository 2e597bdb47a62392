//! What is damaged or missing on disk is named, and the server does not start.

use std::path::Path;

use super::{Server, propose};
use crate::{OpenError, disk::Disk, log::for_tests::ALIGN_BYTES, snapshot::PREAMBLE_BYTES};

/// A server that has stopped, with several segments and two snapshots.
async fn stopped() -> Server {
    let server = Server::new();
    let (log, _) = server.open().await.unwrap();
    propose(&log, 1..300).await;
    log.snapshot_now().await.unwrap();
    propose(&log, 300..400).await;
    log.snapshot_now().await.unwrap();
    propose(&log, 400..500).await;
    log.shutdown().await.unwrap();
    assert!(server.segments().len() > 2);
    server
}

async fn refusal(server: &Server) -> String {
    match server.open().await {
        Ok(_) => panic!("opened"),
        Err(error @ OpenError::Damaged(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
    }
}

fn flip(server: &Server, path: &Path, at: usize) {
    server.disk.tamper(path, |bytes| bytes[at] ^= 0x10);
}

#[tokio::test]
async fn a_flipped_bit_in_any_segment_is_named() {
    let server = stopped().await;
    for segment in server.segments() {
        let broken = server.with(&server.disk);
        let name = segment.file_name().unwrap().to_string_lossy().into_owned();
        flip(&broken, &broken.path("log").join(&name), 200);
        let refused = refusal(&broken).await;
        assert!(refused.contains(&name) && refused.contains("log record"), "{refused}");
        assert!(
            refused.contains("berth server rejoin") && refused.contains("a backup of its directory"),
            "{refused}"
        );
    }
}

/// A power cut leaves a file of the length that was synced, so records behind a cut are lost, not torn.
#[tokio::test]
async fn a_segment_that_was_cut_short_is_named_wherever_it_is_cut() {
    let server = stopped().await;
    let newest = server.segments().pop().unwrap();
    let whole = server.disk.read(&newest).unwrap();
    let written = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert!(written < whole.len(), "the segment is full: nothing of it can be torn");
    let last = written.div_ceil(ALIGN_BYTES) * ALIGN_BYTES;
    // At the end of each record, in the middle of some, before the first and in what was not written yet.
    for end in (0..last).step_by(ALIGN_BYTES).chain([1, written - 1, whole.len() - 1]) {
        let broken = server.with(&server.disk);
        let segment = broken.segments().pop().unwrap();
        broken.disk.tamper(&segment, |bytes| bytes.truncate(end));
        let refused = refusal(&broken).await;
        assert!(refused.contains(".log") && refused.contains("cut short"), "cut at {end}: {refused}");
    }
}

#[tokio::test]
async fn a_missing_segment_is_named() {
    let server = stopped().await;
    for segment in &server.segments()[1..] {
        let broken = server.with(&server.disk);
        let name = segment.file_name().unwrap().to_string_lossy().into_owned();
        broken.disk.remove(&broken.path("log").join(&name)).unwrap();
        assert!(refusal(&broken).await.contains("missing"));
    }
}

#[tokio::test]
async fn a_damaged_or_missing_small_file_is_named() {
    let server = stopped().await;
    for name in ["server", "log/state"] {
        let broken = server.with(&server.disk);
        flip(&broken, &broken.path(name), 7);
        let refused = refusal(&broken).await;
        assert!(refused.contains(name) && refused.contains("checksum"), "{refused}");
        let broken = server.with(&server.disk);
        broken.disk.remove(&broken.path(name)).unwrap();
        let refused = refusal(&broken).await;
        assert!(refused.contains(name) && refused.contains("missing"), "{refused}");
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_replaced_by_the_one_before_it_as_long_as_the_log_reaches_back() {
    let server = stopped().await;
    let (log, whole) = server.open().await.unwrap();
    log.shutdown().await.unwrap();
    let newest = server.snapshots().pop().unwrap();
    flip(&server, &newest, 500);
    let (log, after) = server.open().await.unwrap();
    assert_eq!(after.hash(), whole.hash());
    log.shutdown().await.unwrap();
    assert_eq!(server.snapshots().len(), 1);
    // With the older one damaged too, there is no way back if the log does not begin at 0.
    flip(&server, &server.snapshots()[0], 500);
    server.disk.remove(&server.segments()[0]).unwrap();
    let refused = refusal(&server).await;
    assert!(refused.contains(".snap") && refused.contains("snapshot is damaged"), "{refused}");
}

#[tokio::test]
async fn every_byte_of_a_snapshot_is_checked() {
    let server = stopped().await;
    let newest = server.snapshots().pop().unwrap();
    let length = server.disk.read(&newest).unwrap().len();
    for at in (0..length).step_by(97).chain(0..120) {
        flip(&server, &newest, at);
        let read = crate::snapshot::read(&*server.disk, &newest).map(|_| ());
        assert!(matches!(read, Err(OpenError::Damaged(_))), "byte {at}: {read:?}");
        flip(&server, &newest, at);
    }
    for cut in (0..length).step_by(97) {
        let broken = server.with(&server.disk);
        let newest = broken.snapshots().pop().unwrap();
        broken.disk.tamper(&newest, |bytes| bytes.truncate(cut));
        let read = crate::snapshot::read(&*broken.disk, &newest).map(|_| ());
        assert!(matches!(read, Err(OpenError::Damaged(_))), "cut at {cut}: {read:?}");
    }
}

/// Makes the checksums of a snapshot that was changed right again.
fn seal(bytes: &mut [u8]) {
    let payload = payload_at(bytes);
    let crc = crc32c::crc32c(&bytes[payload..]);
    bytes[24..28].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
}

/// Where the state begins: behind the preamble, and the header with its checksum.
fn payload_at(bytes: &[u8]) -> usize {
    let header = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    PREAMBLE_BYTES + header as usize + 4
}

#[tokio::test]
async fn a_snapshot_of_a_newer_version_is_named_and_not_taken_for_damaged() {
    let server = stopped().await;
    let newer_file = |bytes: &mut Vec<u8>| bytes[8] = 9;
    // Its magic is eight bytes long.
    let newer_state = |bytes: &mut Vec<u8>| {
        let format = payload_at(bytes) + 8;
        bytes[format..format + 2].copy_from_slice(&9_u16.to_be_bytes());
    };
    for (change, sealed) in
        [(&newer_file as &dyn Fn(&mut Vec<u8>), true), (&newer_state, true), (&newer_state, false)]
    {
        let changed = server.with(&server.disk);
        let newest = changed.snapshots().pop().unwrap();
        changed.disk.tamper(&newest, |bytes| {
            change(bytes);
            if sealed {
                seal(bytes);
            }
        });
        let opened = changed.open().await.map(|_| ());
        if !sealed {
            assert!(opened.is_ok(), "what is damaged is replaced by the snapshot before it: {opened:?}");
            continue;
        }
        let refused = opened.unwrap_err();
        assert!(matches!(refused, OpenError::NewerSnapshot { .. }), "{refused}");
        let message = refused.to_string();
        assert!(
            message.contains(".snap: written by a newer version: it has format 9, this server knows up to"),
            "{message}"
        );
        assert_eq!(changed.snapshots().len(), 2, "none is set aside: the newer version needs it");
    }
}
