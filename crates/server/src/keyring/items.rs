//! The items of a variable: names and values, encoded and encrypted for one variable alone.

use std::collections::BTreeMap;

use berth_model::{RootKeyId, variable::VariableKey};
use ring::aead::LessSafeKey;
use zeroize::Zeroizing;

use super::sealed::{self, NoRandomness};

/// Names and values.
pub(crate) type VariableItems = BTreeMap<String, String>;

/// Encrypts the items of a variable.
pub(super) fn seal(
    cipher: &LessSafeKey,
    root_key: RootKeyId,
    key: &VariableKey,
    items: &VariableItems,
) -> Result<Vec<u8>, NoRandomness> {
    let text = Zeroizing::new(minicbor::to_vec(items).expect("encoding to memory does not fail"));
    sealed::seal(cipher, &context(root_key, key), &text)
}

/// Decrypts the items of a variable; none when they are damaged, or another variable's.
pub(super) fn open(
    cipher: &LessSafeKey,
    root_key: RootKeyId,
    key: &VariableKey,
    sealed: &[u8],
) -> Option<VariableItems> {
    let text = sealed::open(cipher, &context(root_key, key), sealed)?;
    minicbor::decode(&text).ok()
}

/// What encrypted items are bound to. No namespace holds a NUL, so that no two variables have the same.
fn context(root_key: RootKeyId, key: &VariableKey) -> Vec<u8> {
    let parts = [b"berth variable 1".as_slice(), &root_key.to_bytes(), key.namespace.as_bytes(), &[0]];
    [&parts.concat(), key.path.as_bytes()].concat()
}
