//! Applying changes of the keyring.

use std::collections::{BTreeMap, BTreeSet};

use super::Store;
use crate::{
    command::{Outcome, Refusal},
    event::StateChange,
    ids::RootKeyId,
    keyring::{
        ChangeKeyring, ROOT_KEYS_MAX, RetiredKek, RootKey, RootKeyState, SIGNING_PUBLIC_MAX, WRAPPED_KEY_MAX,
        WrappedKey,
    },
};

impl Store {
    pub(super) fn change_keyring(&mut self, change: ChangeKeyring, events: &mut Vec<StateChange>) -> Outcome {
        match change {
            ChangeKeyring::PutKey { key, replaces, full } => self.put_root_key(*key, replaces, full)?,
            ChangeKeyring::RemoveKey(id) => self.remove_root_key(id)?,
            ChangeKeyring::Rewrap { wrapped, key, replaces } => self.rewrap(wrapped, *key, replaces)?,
        }
        events.push(StateChange::KeyringChanged);
        Ok(())
    }

    fn put_root_key(&mut self, key: RootKey, replaces: Option<RootKeyId>, full: bool) -> Outcome {
        let refuse = |why: String| Err(Refusal::BadRootKey(key.id, why));
        if self.keyring.active().map(|active| active.id) != replaces {
            return Err(Refusal::RootKeyChanged);
        }
        if self.keyring.key(key.id).is_some() {
            return refuse("another one has this id".to_owned());
        }
        if self.keyring.is_retired(key.wrapped_by) {
            return refuse("the key-encryption key that opens it was replaced".to_owned());
        }
        if key.wrapped.len() > WRAPPED_KEY_MAX || key.signing_public.len() > SIGNING_PUBLIC_MAX {
            return refuse("it is too long".to_owned());
        }
        if self.keyring.keys().len() >= ROOT_KEYS_MAX {
            return refuse(format!(
                "there are {ROOT_KEYS_MAX} root keys, the most there may be: take unused ones away with \
                 `berth operator root keyring remove`"
            ));
        }
        let older: Vec<_> = self.keyring.keys().cloned().collect();
        for old in older {
            let is_used = self.variables.encrypted_with(old.id) > 0;
            let state = match old.state {
                _ if full && is_used => RootKeyState::Rekeying,
                RootKeyState::Active => RootKeyState::Inactive,
                unchanged => unchanged,
            };
            self.set_root_key_state(old.id, state);
        }
        let (state, created_at) = (RootKeyState::Active, self.at);
        let (create_index, modify_index) = (self.index, self.index);
        self.keyring.put(RootKey { state, created_at, create_index, modify_index, ..key });
        Ok(())
    }

    /// All that is checked is checked before anything changes.
    fn rewrap(&mut self, wrapped: Vec<WrappedKey>, key: RootKey, replaces: Option<RootKeyId>) -> Outcome {
        let (kek, index) = (key.wrapped_by, self.index);
        let old: Vec<RootKey> = self.keyring.keys().map(|key| RootKey::clone(key)).collect();
        let mut wrapped: BTreeMap<RootKeyId, Vec<u8>> =
            wrapped.into_iter().map(|key| (key.id, key.wrapped)).collect();
        let there: BTreeSet<RootKeyId> = old.iter().map(|key| key.id).collect();
        // One that was made or taken away meanwhile: whoever asks looks again.
        if !there.iter().eq(wrapped.keys()) {
            return Err(Refusal::RootKeyChanged);
        }
        let refuse = |why: &str| Err(Refusal::BadRootKey(key.id, why.to_owned()));
        if old.iter().any(|old| old.wrapped_by == kek) {
            return refuse("the key-encryption key that is to open it opens others already");
        }
        if wrapped.values().any(|wrapped| wrapped.len() > WRAPPED_KEY_MAX) {
            return refuse("another one is too long once it is wrapped again");
        }
        self.put_root_key(key, replaces, true)?;
        for id in there {
            let (Some(key), Some(wrapped)) = (self.keyring.key(id), wrapped.remove(&id)) else { continue };
            let key = RootKey { wrapped_by: kek, wrapped, modify_index: index, ..RootKey::clone(key) };
            self.keyring.put(key);
        }
        let replaced: BTreeSet<_> = old.into_iter().map(|key| key.wrapped_by).collect();
        replaced.into_iter().for_each(|id| self.keyring.retire(RetiredKek { id, index }));
        Ok(())
    }

    fn remove_root_key(&mut self, id: RootKeyId) -> Outcome {
        let Some(key) = self.keyring.key(id) else { return Err(Refusal::NoRootKey(id)) };
        if key.state == RootKeyState::Active {
            let why = "it is active, and cannot be taken away: make another one active first with \
                       `berth operator root keyring rotate`";
            return Err(Refusal::BadRootKey(id, why.to_owned()));
        }
        let used = self.variables.encrypted_with(id);
        if used > 0 {
            let why = format!(
                "{used} variables are encrypted with it: `berth operator root keyring rotate -full` encrypts them with a new key, \
                 after which it can be taken away"
            );
            return Err(Refusal::BadRootKey(id, why));
        }
        self.keyring.remove(id, self.index);
        Ok(())
    }

    /// A key that is being replaced has nothing to do any more once nothing is encrypted with it.
    pub(super) fn settle_rekeying(&mut self, id: RootKeyId, events: &mut Vec<StateChange>) {
        let is_rekeying = self.keyring.key(id).is_some_and(|key| key.state == RootKeyState::Rekeying);
        if is_rekeying && self.variables.encrypted_with(id) == 0 {
            self.set_root_key_state(id, RootKeyState::Inactive);
            events.push(StateChange::KeyringChanged);
        }
    }

    fn set_root_key_state(&mut self, id: RootKeyId, state: RootKeyState) {
        if let Some(key) = self.keyring.key(id).filter(|key| key.state != state) {
            let key = RootKey { state, modify_index: self.index, ..RootKey::clone(key) };
            self.keyring.put(key);
        }
    }
}
