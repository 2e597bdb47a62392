//! Which cluster a state belongs to, and whose snapshots were restored into it.

use minicbor::{Decode, Encode};

/// Clusters that are remembered as sources of restored snapshots.
pub const RESTORED_FROM_MAX: usize = 16;

/// The identity of a cluster. Agents remember it with the last term and index they saw: terms and indexes of another
/// cluster say nothing, unless that cluster was restored from a snapshot of theirs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct ClusterIdentity {
    /// Random, set once by the first leader; 0 for none yet.
    #[n(0)]
    #[cbor(with = "crate::codec::id128")]
    pub id: u128,
    /// Ids of the clusters whose snapshots were restored into this one, and of those that went into theirs. Newest last,
    /// each once, at most [`RESTORED_FROM_MAX`].
    #[n(1)]
    #[cbor(with = "crate::codec::id128_list")]
    pub restored_from: Vec<u128>,
}

impl ClusterIdentity {
    /// What this cluster's identity is once the state of `snapshot` has taken the place of its own.
    pub fn restoring(&self, snapshot: &Self) -> Self {
        let sources = self.restored_from.iter().chain(&snapshot.restored_from).chain([&snapshot.id]);
        let mut restored_from = Vec::new();
        for source in sources.rev().filter(|source| ![0, self.id].contains(source)) {
            if restored_from.len() < RESTORED_FROM_MAX && !restored_from.contains(source) {
                restored_from.push(*source);
            }
        }
        restored_from.reverse();
        Self { id: self.id, restored_from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(id: u128, restored_from: &[u128]) -> ClusterIdentity {
        ClusterIdentity { id, restored_from: restored_from.to_vec() }
    }

    #[test]
    fn a_restore_keeps_the_id_and_remembers_where_the_state_came_from() {
        let own = identity(1, &[7, 8]);
        assert_eq!(own.restoring(&identity(2, &[8, 3])), identity(1, &[7, 8, 3, 2]));
        assert_eq!(own.restoring(&identity(0, &[])), own, "a snapshot of before there were identities");
        assert_eq!(own.restoring(&identity(1, &[7])), identity(1, &[8, 7]), "its own snapshot");
        assert_eq!(identity(0, &[]).restoring(&identity(2, &[])), identity(0, &[2]));
    }

    #[test]
    fn the_newest_sources_are_remembered() {
        let mut own = identity(1, &[]);
        (100..200).for_each(|id| own = own.restoring(&identity(id, &[])));
        assert_eq!(own.restored_from, (184..200).collect::<Vec<_>>());
    }
}
