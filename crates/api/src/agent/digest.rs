//! Order-free digests of what a node should run and of what it runs, kept in O(1) on both sides.

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The sum modulo 2^128 of the hashes of a set's members: members come and go in any order, in O(1) each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest(pub u128);

impl Digest {
    /// Adds a member's hash.
    pub fn add(&mut self, hash: u128) {
        self.0 = self.0.wrapping_add(hash);
    }

    /// Takes a member's hash out again.
    pub fn remove(&mut self, hash: u128) {
        self.0 = self.0.wrapping_sub(hash);
    }

    /// The form on the wire.
    pub fn to_bytes(self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    /// Reads the form on the wire; none when it is not 16 bytes long.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(u128::from_be_bytes(bytes.try_into().ok()?)))
    }
}

const DESIRED_KEY: u64 = 0x6265_7274_682d_6465;
const OBSERVED_KEY: u64 = 0x6265_7274_682d_6f62;

/// The hash of one allocation's desired state: it should run, as [`super::RunAlloc::revision`] says, or, where that is none,
/// it should stop.
pub fn desired_hash(alloc_id: &[u8], revision: Option<u64>) -> u128 {
    let mut bytes = [0; 25];
    let len = alloc_id.len().min(16);
    bytes[..len].copy_from_slice(&alloc_id[..len]);
    bytes[16] = u8::from(revision.is_none());
    // What was never updated is hashed as it was before there were updates.
    let Some(revision) = revision.filter(|revision| *revision > 0) else {
        return xxh3_128_with_seed(&bytes[..17], DESIRED_KEY);
    };
    bytes[17..].copy_from_slice(&revision.to_be_bytes());
    xxh3_128_with_seed(&bytes, DESIRED_KEY)
}

/// The hash of one observation: the encoded [`super::AllocStatus`] as it crossed the wire.
pub fn observed_hash(encoded_status: &[u8]) -> u128 {
    xxh3_128_with_seed(encoded_status, OBSERVED_KEY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_its_members_and_not_on_their_order() {
        let (a, b) = (observed_hash(b"a"), observed_hash(b"b"));
        let mut one = Digest::default();
        one.add(a);
        one.add(b);
        let mut other = Digest::default();
        other.add(b);
        other.add(a);
        assert_eq!(one, other);
        other.remove(b);
        assert_ne!(one, other);
        assert_eq!(Digest::from_slice(&other.to_bytes()), Some(Digest(a)));
    }

    #[test]
    fn an_allocation_that_should_stop_or_is_updated_changes_the_digest() {
        let hashes = [Some(0), Some(1), Some(2), None].map(|revision| desired_hash(&[1; 16], revision));
        let distinct: std::collections::BTreeSet<u128> = hashes.into_iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }
}
