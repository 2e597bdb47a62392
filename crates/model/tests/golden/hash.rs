//! The hash of a state covers all that a snapshot holds: whatever single value in it is another, the hash is.

use berth_model::store::{Store, snapshot};
use minicbor::data::Type;
use xxhash_rust::xxh3::xxh3_128;

use super::{entries, replayed};

/// The magic and the version of the format.
const HEAD_BYTES: usize = 8 + 2;
/// The sum of all bytes before it.
const SUM_BYTES: usize = 16;

/// Where the records of a snapshot are.
fn records(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut at, end, mut records) = (HEAD_BYTES, bytes.len() - SUM_BYTES, Vec::new());
    while at < end {
        let len = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        records.push(at + 4..at + 4 + len);
        at += 4 + len;
    }
    records
}

/// The last byte of each value that holds others no more, and what it is.
fn values(record: &[u8]) -> Vec<(usize, Type)> {
    let mut decoder = minicbor::Decoder::new(record);
    let mut values = Vec::new();
    while decoder.position() < record.len() {
        let kind = decoder.datatype().expect("what was written is CBOR");
        match kind {
            Type::Array => drop(decoder.array().expect("an array")),
            Type::Map => drop(decoder.map().expect("a map")),
            Type::Tag => drop(decoder.tag().expect("a tag")),
            _ => {
                decoder.skip().expect("a value");
                values.push((decoder.position() - 1, kind));
            }
        }
    }
    values
}

/// The same bytes with another value that ends there; none where there is no other of the same length.
fn with_another(bytes: &[u8], last: usize, kind: Type) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let byte = bytes[last];
    bytes[last] = match kind {
        Type::Null | Type::Undefined => return None,
        // Empty.
        Type::String | Type::Bytes if matches!(byte, 0x60 | 0x40) => return None,
        _ => byte ^ 1,
    };
    let sum = bytes.len() - SUM_BYTES;
    let written = xxh3_128(&bytes[..sum]).to_be_bytes();
    bytes[sum..].copy_from_slice(&written);
    Some(bytes)
}

fn hash_of(bytes: &[u8]) -> Option<u128> {
    snapshot::read(&mut &bytes[..]).ok().map(|store: Store| store.hash())
}

#[test]
fn no_value_of_a_snapshot_is_another_without_being_noticed() {
    let mut bytes = Vec::new();
    snapshot::write(&replayed(entries()), &mut bytes).expect("memory takes it");
    assert!(hash_of(&bytes).is_some(), "it is whole");
    let records = records(&bytes);
    let (mut changed, mut unnoticed) = (0, Vec::new());
    for (number, record) in records.iter().enumerate() {
        for (at, kind) in values(&bytes[record.clone()]) {
            let at = record.start + at;
            let Some(other) = with_another(&bytes, at, kind) else { continue };
            changed += 1;
            if hash_of(&other).is_some() {
                unnoticed.push(format!(
                    "record {number} of {}, byte {}: {kind}",
                    records.len(),
                    at - record.start
                ));
            }
        }
    }
    assert!(changed > 1_000, "{changed} values were changed");
    // What says how the hash was made is the one thing that it does not cover; it stands in the last record.
    let last = format!("record {} of {}", records.len() - 1, records.len());
    assert!(matches!(&unnoticed[..], [only] if only.starts_with(&last)), "{unnoticed:#?}");
}
