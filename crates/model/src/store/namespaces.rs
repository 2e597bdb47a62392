//! The table of namespaces, with what the allocations of each hold.

use std::{collections::BTreeSet, sync::Arc};

use imbl::OrdMap;
use minicbor::{Decode, Encode};

use super::{
    digest::{TableDigest, hash_encoded},
    slab::{Slab, slot},
};
use crate::{
    ids::Index,
    namespace::{NAMESPACE_DEFAULT, Namespace},
    quota::Usage,
};

slot!(
    /// Where a namespace is in the store.
    NamespaceSlot
);

/// A namespace.
#[derive(Debug, Clone)]
pub struct NamespaceRow {
    /// As an operator described it.
    pub namespace: Arc<Namespace>,
    /// What the allocations of its own jobs hold; not of those below it.
    pub used: Usage,
    /// Where it was made.
    pub create_index: Index,
    /// Where it was last described.
    pub modify_index: Index,
}

/// A namespace as written to a snapshot; what its allocations hold is counted again.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) struct NamespaceRecord {
    #[n(0)]
    #[cbor(with = "crate::codec::shared")]
    pub namespace: Arc<Namespace>,
    #[n(1)]
    pub create_index: Index,
    #[n(2)]
    pub modify_index: Index,
}

/// All namespaces; `default` is always among them.
#[derive(Debug, Clone)]
pub struct Namespaces {
    rows: Slab<NamespaceSlot, NamespaceRow>,
    by_name: OrdMap<String, NamespaceSlot>,
    digest: TableDigest,
    pub(super) modify_index: Index,
}

impl Default for Namespaces {
    fn default() -> Self {
        let mut table = Self {
            rows: Slab::default(),
            by_name: OrdMap::new(),
            digest: TableDigest::default(),
            modify_index: Index::default(),
        };
        let description = "Default shared namespace".to_owned();
        table.put(Namespace { description, ..Namespace::new(NAMESPACE_DEFAULT) }, Index::default());
        table
    }
}

impl Namespaces {
    /// Where the last change of any namespace is.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// Where a namespace is.
    pub fn find(&self, name: &str) -> Option<NamespaceSlot> {
        self.by_name.get(name).copied()
    }

    /// A namespace by its slot.
    pub fn row(&self, slot: NamespaceSlot) -> Option<&NamespaceRow> {
        self.rows.get(slot)
    }

    /// A namespace by its name.
    pub fn get(&self, name: &str) -> Option<&NamespaceRow> {
        self.row(self.find(name)?)
    }

    /// All namespaces, by name.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &NamespaceRow> {
        self.by_name.values().filter_map(|slot| self.rows.get(*slot))
    }

    /// A namespace and those above it, the top one last.
    pub fn path<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a NamespaceRow> + 'a {
        let above =
            |row: &&'a NamespaceRow| row.namespace.parent.as_deref().and_then(|parent| self.get(parent));
        std::iter::successors(self.get(name), above)
    }

    /// The quotas that a namespace keeps to, its own and those of the namespaces above it.
    pub fn quotas(&self, name: &str) -> BTreeSet<&str> {
        self.path(name).filter_map(|row| row.namespace.quota.as_deref()).collect()
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.rows.copied_bytes()
    }

    pub(super) fn records(&self) -> impl Iterator<Item = NamespaceRecord> {
        self.iter().map(record)
    }

    /// Takes in a namespace from a snapshot.
    pub(super) fn restore(&mut self, record: NamespaceRecord) {
        let NamespaceRecord { namespace, create_index, modify_index } = record;
        let slot = self.put(Namespace::clone(&namespace), modify_index);
        self.update(slot, |row| row.create_index = create_index);
    }

    /// Makes a namespace, or describes it again.
    pub(super) fn put(&mut self, namespace: Namespace, index: Index) -> NamespaceSlot {
        self.modify_index = index;
        if let Some(slot) = self.find(&namespace.name) {
            self.update(slot, |row| {
                row.namespace = Arc::new(namespace);
                row.modify_index = index;
            });
            return slot;
        }
        let name = namespace.name.clone();
        let row = NamespaceRow {
            namespace: Arc::new(namespace),
            used: Usage::default(),
            create_index: index,
            modify_index: index,
        };
        self.digest.add(hash_encoded(b's', &record(&row)));
        let slot = self.rows.insert(row);
        self.by_name.insert(name, slot);
        slot
    }

    pub(super) fn remove(&mut self, name: &str, index: Index) {
        let Some(slot) = self.by_name.remove(name) else { return };
        if let Some(row) = self.rows.remove(slot) {
            self.digest.remove(hash_encoded(b's', &record(&row)));
        }
        self.modify_index = index;
    }

    /// Changes what the allocations of a namespace hold.
    pub(super) fn change_used(&mut self, name: &str, change: impl FnOnce(&mut Usage)) {
        if let Some(row) = self.find(name).and_then(|slot| self.rows.get_mut(slot)) {
            change(&mut row.used);
        }
    }

    fn update(&mut self, slot: NamespaceSlot, change: impl FnOnce(&mut NamespaceRow)) {
        let Some(row) = self.rows.get_mut(slot) else { return };
        self.digest.remove(hash_encoded(b's', &record(row)));
        change(row);
        self.digest.add(hash_encoded(b's', &record(row)));
    }
}

fn record(row: &NamespaceRow) -> NamespaceRecord {
    let NamespaceRow { namespace, create_index, modify_index, .. } = row;
    NamespaceRecord { namespace: namespace.clone(), create_index: *create_index, modify_index: *modify_index }
}
