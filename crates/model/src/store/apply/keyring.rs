//! Applying changes of the keyring.

use super::Store;
use crate::{
    command::{Outcome, Refusal},
    event::Event,
    ids::RootKeyId,
    keyring::{ChangeKeyring, ROOT_KEYS_MAX, RootKey, RootKeyState, SIGNING_PUBLIC_MAX, WRAPPED_KEY_MAX},
};

impl Store {
    pub(super) fn change_keyring(&mut self, change: ChangeKeyring, events: &mut Vec<Event>) -> Outcome {
        match change {
            ChangeKeyring::PutKey { key, replaces, full } => self.put_root_key(*key, replaces, full)?,
            ChangeKeyring::RemoveKey(id) => self.remove_root_key(id)?,
        }
        events.push(Event::KeyringChanged);
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
    pub(super) fn settle_rekeying(&mut self, id: RootKeyId, events: &mut Vec<Event>) {
        let is_rekeying = self.keyring.key(id).is_some_and(|key| key.state == RootKeyState::Rekeying);
        if is_rekeying && self.variables.encrypted_with(id) == 0 {
            self.set_root_key_state(id, RootKeyState::Inactive);
            events.push(Event::KeyringChanged);
        }
    }

    fn set_root_key_state(&mut self, id: RootKeyId, state: RootKeyState) {
        if let Some(key) = self.keyring.key(id).filter(|key| key.state != state) {
            let key = RootKey { state, modify_index: self.index, ..RootKey::clone(key) };
            self.keyring.put(key);
        }
    }
}
