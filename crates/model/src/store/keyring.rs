//! The table of root keys.

use std::sync::Arc;

use imbl::OrdMap;

use super::digest::{TableDigest, hash_encoded};
use crate::{
    ids::{Index, KekId, RootKeyId},
    keyring::{RETIRED_KEKS_MAX, RetiredKek, RootKey, RootKeyState},
};

/// All root keys.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    keys: OrdMap<RootKeyId, Arc<RootKey>>,
    active: Option<RootKeyId>,
    retired: OrdMap<KekId, Index>,
    digest: TableDigest,
    pub(super) modify_index: Index,
}

impl Keyring {
    /// Where any key last changed; 0 for never.
    pub fn modify_index(&self) -> Index {
        self.modify_index
    }

    /// A key by its id.
    pub fn key(&self, id: RootKeyId) -> Option<&Arc<RootKey>> {
        self.keys.get(&id)
    }

    /// The key that encrypts and signs.
    pub fn active(&self) -> Option<&Arc<RootKey>> {
        self.key(self.active?)
    }

    /// All keys, the oldest first.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<RootKey>> {
        let mut keys: Vec<_> = self.keys.values().collect();
        keys.sort_by_key(|key| (key.create_index, key.id));
        keys.into_iter()
    }

    /// Key-encryption keys that were replaced, as far as that is remembered.
    pub fn retired(&self) -> impl ExactSizeIterator<Item = RetiredKek> {
        self.retired.iter().map(|(id, index)| RetiredKek { id: *id, index: *index })
    }

    /// Whether a key-encryption key was replaced.
    pub fn is_retired(&self, id: KekId) -> bool {
        self.retired.contains_key(&id)
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest.value()
    }

    pub(super) fn put(&mut self, key: RootKey) {
        self.touch(key.modify_index);
        match key.state {
            RootKeyState::Active => self.active = Some(key.id),
            _ if self.active == Some(key.id) => self.active = None,
            _ => {}
        }
        self.digest.add(hash_encoded(b'k', &key));
        if let Some(old) = self.keys.insert(key.id, Arc::new(key)) {
            self.digest.remove(hash_encoded(b'k', &*old));
        }
    }

    pub(super) fn retire(&mut self, retired: RetiredKek) {
        self.touch(retired.index);
        self.digest.add(hash_encoded(b'u', &retired));
        if let Some(index) = self.retired.insert(retired.id, retired.index) {
            self.digest.remove(hash_encoded(b'u', &RetiredKek { index, ..retired }));
        }
        while self.retired.len() > RETIRED_KEKS_MAX
            && let Some(oldest) = self.retired().min_by_key(|retired| (retired.index, retired.id))
        {
            self.retired.remove(&oldest.id);
            self.digest.remove(hash_encoded(b'u', &oldest));
        }
    }

    pub(super) fn remove(&mut self, id: RootKeyId, index: Index) {
        if let Some(old) = self.keys.remove(&id) {
            self.digest.remove(hash_encoded(b'k', &*old));
            self.touch(index);
        }
    }

    /// It replaces another: whoever follows looks at it again. Where neither has a key nothing is written, as before
    /// there were any.
    pub(super) fn restored_at(&mut self, index: Index, before: &Self) {
        if self.modify_index.max(before.modify_index) != Index(0) {
            self.modify_index = index;
        }
    }

    fn touch(&mut self, index: Index) {
        self.modify_index = self.modify_index.max(index);
    }
}
