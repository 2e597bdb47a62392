//! The table of node pools that operators have described.

use std::sync::Arc;

use imbl::OrdMap;
use minicbor::{Decode, Encode};

use super::digest::{TableDigest, hash_encoded};
use crate::{ids::Index, node_pool::NodePool};

/// A node pool, also as it is written to a snapshot.
#[derive(Debug, Clone, Encode, Decode)]
pub struct NodePoolRow {
    /// As an operator described it.
    #[n(0)]
    #[cbor(with = "crate::codec::shared")]
    pub pool: Arc<NodePool>,
    /// Where it was made.
    #[n(1)]
    pub create_index: Index,
    /// Where it was last described.
    #[n(2)]
    pub modify_index: Index,
}

/// All node pools that were described.
#[derive(Debug, Clone, Default)]
pub struct NodePools {
    rows: OrdMap<String, NodePoolRow>,
    digest: TableDigest,
    pub(super) modify_index: Index,
}

impl NodePools {
    /// Where the last change of any pool is; 0 for nowhere yet.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// A pool by its name.
    pub fn get(&self, name: &str) -> Option<&NodePoolRow> {
        self.rows.get(name)
    }

    /// All pools, by name.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &NodePoolRow> {
        self.rows.values()
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    /// Takes in a pool from a snapshot.
    pub(super) fn restore(&mut self, row: NodePoolRow) {
        self.modify_index = self.modify_index.max(row.modify_index);
        self.digest.add(hash_encoded(b'n', &row));
        if let Some(old) = self.rows.insert(row.pool.name.clone(), row) {
            self.digest.remove(hash_encoded(b'n', &old));
        }
    }

    /// Makes a pool, or describes it again.
    pub(super) fn put(&mut self, pool: NodePool, index: Index) {
        let create_index = self.rows.get(&pool.name).map_or(index, |row| row.create_index);
        self.restore(NodePoolRow { pool: Arc::new(pool), create_index, modify_index: index });
    }

    pub(super) fn remove(&mut self, name: &str, index: Index) {
        if let Some(row) = self.rows.remove(name) {
            self.digest.remove(hash_encoded(b'n', &row));
        }
        self.modify_index = index;
    }
}
