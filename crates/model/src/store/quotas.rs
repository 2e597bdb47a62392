//! The table of quotas, with what the namespaces that keep to each hold.

use std::sync::Arc;

use imbl::OrdMap;
use minicbor::{Decode, Encode};

use super::digest::{TableDigest, hash_encoded};
use crate::{
    ids::Index,
    quota::{Quota, Usage},
};

/// A quota.
#[derive(Debug, Clone)]
pub struct QuotaRow {
    /// As an operator described it.
    pub quota: Arc<Quota>,
    /// What all allocations hold whose namespaces keep to it.
    pub used: Usage,
    /// Where it was made.
    pub create_index: Index,
    /// Where it was last described.
    pub modify_index: Index,
}

/// A quota as written to a snapshot; what counts for it is counted again.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) struct QuotaRecord {
    #[n(0)]
    #[cbor(with = "crate::codec::shared")]
    pub quota: Arc<Quota>,
    #[n(1)]
    pub create_index: Index,
    #[n(2)]
    pub modify_index: Index,
}

/// All quotas.
#[derive(Debug, Clone, Default)]
pub struct Quotas {
    rows: OrdMap<String, QuotaRow>,
    digest: TableDigest,
    pub(super) modify_index: Index,
}

impl Quotas {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Where the last change of any quota is.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// A quota by its name.
    pub fn get(&self, name: &str) -> Option<&QuotaRow> {
        self.rows.get(name)
    }

    /// All quotas, by name.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &QuotaRow> {
        self.rows.values()
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn records(&self) -> impl Iterator<Item = QuotaRecord> {
        self.rows.values().map(record)
    }

    /// Takes in a quota from a snapshot.
    pub(super) fn restore(&mut self, record: QuotaRecord) {
        let QuotaRecord { quota, create_index, modify_index } = record;
        self.insert(QuotaRow { quota, used: Usage::default(), create_index, modify_index });
    }

    /// Makes a quota, or describes it again.
    pub(super) fn put(&mut self, quota: Quota, index: Index) {
        let old = self.rows.get(&quota.name);
        let (used, create_index) =
            old.map_or((Usage::default(), index), |row| (row.used.clone(), row.create_index));
        self.insert(QuotaRow { quota: Arc::new(quota), used, create_index, modify_index: index });
    }

    pub(super) fn remove(&mut self, name: &str, index: Index) {
        if let Some(row) = self.rows.remove(name) {
            self.digest.remove(hash_encoded(b'q', &record(&row)));
        }
        self.modify_index = index;
    }

    /// Changes what counts for a quota.
    pub(super) fn change_used(&mut self, name: &str, change: impl FnOnce(&mut Usage)) {
        if let Some(row) = self.rows.get_mut(name) {
            change(&mut row.used);
        }
    }

    /// Counts again, from what each namespace holds and the quotas it keeps to.
    pub(super) fn count(&mut self, held: &[(Usage, Vec<String>)]) {
        let names: Vec<String> = self.rows.keys().cloned().collect();
        for name in names {
            let mut used = Usage::default();
            held.iter().filter(|(_, quotas)| quotas.contains(&name)).for_each(|(held, _)| used.add(held));
            self.change_used(&name, |before| *before = used);
        }
    }

    fn insert(&mut self, row: QuotaRow) {
        self.modify_index = self.modify_index.max(row.modify_index);
        self.digest.add(hash_encoded(b'q', &record(&row)));
        if let Some(old) = self.rows.insert(row.quota.name.clone(), row) {
            self.digest.remove(hash_encoded(b'q', &record(&old)));
        }
    }
}

fn record(row: &QuotaRow) -> QuotaRecord {
    QuotaRecord { quota: row.quota.clone(), create_index: row.create_index, modify_index: row.modify_index }
}
