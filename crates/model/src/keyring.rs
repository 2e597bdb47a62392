//! Root keys: what variables are encrypted and identities are signed with. Their secret parts are wrapped by a key-encryption
//! key, which is in no log and no snapshot.

use minicbor::{Decode, Encode};

use crate::{
    ids::{Index, KekId, RootKeyId},
    time::Timestamp,
};

/// Most root keys.
pub const ROOT_KEYS_MAX: usize = 256;
/// Key-encryption keys of which it is remembered that they were replaced; the oldest are dropped first.
pub const RETIRED_KEKS_MAX: usize = 256;
/// Longest wrapped part of a root key, in bytes.
pub const WRAPPED_KEY_MAX: usize = 1024;
/// Longest public part of a root key, in bytes.
pub const SIGNING_PUBLIC_MAX: usize = 256;

/// What a root key is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RootKeyState {
    /// It encrypts and signs. One key at most is active.
    #[n(0)]
    Active,
    /// It decrypts, until all that it has encrypted is encrypted with the active key.
    #[n(1)]
    Rekeying,
    /// It decrypts what it has encrypted, and decides whether what it has signed is genuine.
    #[n(2)]
    Inactive,
}

impl RootKeyState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Rekeying => "rekeying",
            Self::Inactive => "inactive",
        }
    }
}

/// A root key.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RootKey {
    /// Its id.
    #[n(0)]
    pub id: RootKeyId,
    /// What it is used for.
    #[n(1)]
    pub state: RootKeyState,
    /// When it was made.
    #[n(2)]
    pub created_at: Timestamp,
    /// The public half of its signing key (P-256): an uncompressed point, 65 bytes.
    #[n(3)]
    #[cbor(with = "minicbor::bytes")]
    pub signing_public: Vec<u8>,
    /// Which key-encryption key opens its secret part.
    #[n(4)]
    pub wrapped_by: KekId,
    /// Its secret part, encrypted.
    #[n(5)]
    #[cbor(with = "minicbor::bytes")]
    pub wrapped: Vec<u8>,
    /// Where it was made.
    #[n(6)]
    pub create_index: Index,
    /// Where its state last changed.
    #[n(7)]
    pub modify_index: Index,
}

/// A change of the keyring.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ChangeKeyring {
    /// Makes a new key the active one.
    #[n(0)]
    PutKey {
        /// The key; its state, time and indexes are set when it is applied.
        #[n(0)]
        key: Box<RootKey>,
        /// The key that must be active until then; none for no key at all.
        #[n(1)]
        replaces: Option<RootKeyId>,
        /// Whether all that older keys have encrypted is to be encrypted with the new one.
        #[n(2)]
        full: bool,
    },
    /// Takes away a key that is not active and has encrypted nothing that is still there.
    #[n(1)]
    RemoveKey(#[n(0)] RootKeyId),
    /// Has another key-encryption key open all root keys, and makes a new one the active one: the keys that opened them so far open
    /// nothing any more. Not in entries before version 6.
    #[n(2)]
    Rewrap {
        /// All root keys that there are, as the new key-encryption key opens them.
        #[n(0)]
        wrapped: Vec<WrappedKey>,
        /// The new root key, which the same one opens; as in [`Self::PutKey`].
        #[n(1)]
        key: Box<RootKey>,
        /// As in [`Self::PutKey`].
        #[n(2)]
        replaces: Option<RootKeyId>,
    },
}

/// The secret part of a root key, encrypted with another key-encryption key.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WrappedKey {
    /// Of the root key.
    #[n(0)]
    pub id: RootKeyId,
    /// Its secret part.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub wrapped: Vec<u8>,
}

/// A key-encryption key that was replaced, so that servers take it away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RetiredKek {
    /// The key.
    #[n(0)]
    pub id: KekId,
    /// Where it was replaced.
    #[n(1)]
    pub index: Index,
}
