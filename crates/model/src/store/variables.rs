//! The table of variables, with how many each namespace has and how many each root key has encrypted.

use std::{ops::RangeBounds, sync::Arc};

use imbl::{OrdMap, OrdSet};

use super::digest::{TableDigest, hash_encoded};
use crate::{
    ids::{Index, RootKeyId},
    variable::{Variable, VariableKey},
};

/// All variables.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    rows: OrdMap<VariableKey, Arc<Variable>>,
    by_root_key: OrdSet<(RootKeyId, VariableKey)>,
    of_root_key: OrdMap<RootKeyId, usize>,
    of_namespace: OrdMap<Arc<str>, VariableTotals>,
    all: VariableTotals,
    digest: TableDigest,
    pub(super) modify_index: Index,
}

/// How many variables there are, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VariableTotals {
    /// How many.
    pub count: usize,
    /// Bytes of their encrypted items.
    pub bytes: u64,
}

impl VariableTotals {
    fn add(&mut self, variable: &Variable) {
        self.count += 1;
        self.bytes += variable.sealed.len() as u64;
    }

    fn remove(&mut self, variable: &Variable) {
        self.count -= 1;
        self.bytes -= variable.sealed.len() as u64;
    }
}

impl Variables {
    /// Where any variable was last written or taken away; 0 for never.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// A variable by its key.
    pub fn get(&self, key: &VariableKey) -> Option<&Arc<Variable>> {
        self.rows.get(key)
    }

    /// The variables whose keys are in a range, by namespace and path.
    pub fn range(
        &self,
        keys: impl RangeBounds<VariableKey>,
    ) -> impl DoubleEndedIterator<Item = (&VariableKey, &Arc<Variable>)> {
        self.rows.range(keys)
    }

    /// All variables, by namespace and path.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Variable>> {
        self.rows.values()
    }

    /// How many there are.
    pub fn held(&self) -> VariableTotals {
        self.all
    }

    /// How many a namespace has.
    pub fn held_by(&self, namespace: &str) -> VariableTotals {
        self.of_namespace.get(namespace).copied().unwrap_or_default()
    }

    /// How many are encrypted with a root key.
    pub fn encrypted_with(&self, root_key: RootKeyId) -> usize {
        self.of_root_key.get(&root_key).copied().unwrap_or_default()
    }

    /// Those that are encrypted with a root key, by namespace and path.
    pub fn of_root_key(&self, root_key: RootKeyId) -> impl Iterator<Item = &Arc<Variable>> {
        let first = (root_key, VariableKey::new("", ""));
        let keys = self.by_root_key.range(first..).take_while(move |(of, _)| *of == root_key);
        keys.filter_map(|(_, key)| self.rows.get(key))
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn put(&mut self, variable: Variable) {
        self.forget(&variable.key);
        self.touch(variable.modify_index);
        self.digest.add(hash_encoded(b'v', &variable));
        let (key, root_key) = (variable.key.clone(), variable.root_key);
        self.all.add(&variable);
        self.of_namespace.entry(key.namespace.clone()).or_default().add(&variable);
        *self.of_root_key.entry(root_key).or_default() += 1;
        self.by_root_key.insert((root_key, key.clone()));
        self.rows.insert(key, Arc::new(variable));
    }

    /// Takes a variable away; whether it was there.
    pub(super) fn remove(&mut self, key: &VariableKey, index: Index) -> Option<Arc<Variable>> {
        let old = self.forget(key)?;
        self.touch(index);
        Some(old)
    }

    fn forget(&mut self, key: &VariableKey) -> Option<Arc<Variable>> {
        let old = self.rows.remove(key)?;
        self.digest.remove(hash_encoded(b'v', &*old));
        self.all.remove(&old);
        self.by_root_key.remove(&(old.root_key, key.clone()));
        if let Some(held) = self.of_namespace.get_mut(&key.namespace) {
            held.remove(&old);
            if held.count == 0 {
                self.of_namespace.remove(&key.namespace);
            }
        }
        if let Some(count) = self.of_root_key.get_mut(&old.root_key) {
            *count -= 1;
            if *count == 0 {
                self.of_root_key.remove(&old.root_key);
            }
        }
        Some(old)
    }

    /// They replace others: whoever follows looks at them again. Where neither has any nothing is written, as before
    /// there were variables.
    pub(super) fn restored_at(&mut self, index: Index, before: &Self) {
        if self.modify_index.max(before.modify_index) != Index(0) {
            self.modify_index = index;
        }
    }

    fn touch(&mut self, index: Index) {
        self.modify_index = self.modify_index.max(index);
    }
}
