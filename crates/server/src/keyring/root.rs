//! Root keys: how one is made, and what is in it once it is unwrapped.

use std::{fmt, sync::Arc};

use berth_model::{
    Index, RootKeyId, Timestamp,
    keyring::{RootKey, RootKeyState},
};
use minicbor::{Decode, Encode};
use ring::{
    aead::LessSafeKey,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use zeroize::{Zeroize, Zeroizing};

use super::{
    kek::Kek,
    sealed::{self, KEY_BYTES, NoRandomness},
};

/// The secret part of a root key, before it is wrapped.
#[derive(Encode, Decode)]
struct Secrets {
    /// Encrypts variables.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    variables: Vec<u8>,
    /// Signs identities (ECDSA with P-256), in PKCS #8.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    signing: Vec<u8>,
}

impl Drop for Secrets {
    fn drop(&mut self) {
        self.variables.zeroize();
        self.signing.zeroize();
    }
}

/// A root key that was unwrapped.
pub(super) struct OpenedKey {
    /// Encrypts and decrypts variables.
    pub variables: LessSafeKey,
    /// Signs identities.
    pub signing: Arc<EcdsaKeyPair>,
}

impl fmt::Debug for OpenedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenedKey(..)")
    }
}

/// Makes a root key, wrapped by `kek`.
pub(super) fn make(id: RootKeyId, kek: &Kek) -> Result<RootKey, NoRandomness> {
    let random = SystemRandom::new();
    let signing = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
    let signing = signing.map_err(|_| NoRandomness)?.as_ref().to_vec();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &signing, &random);
    let signing_public = pair.map_err(|_| NoRandomness)?.public_key().as_ref().to_vec();
    let secrets = Secrets { variables: sealed::random_key()?.to_vec(), signing };
    let text = Zeroizing::new(minicbor::to_vec(&secrets).expect("encoding to memory does not fail"));
    let wrapped = sealed::seal(kek.cipher(), &context(id, &signing_public), &text)?;
    Ok(RootKey {
        id,
        state: RootKeyState::Active,
        created_at: Timestamp(0),
        signing_public,
        wrapped_by: kek.id(),
        wrapped,
        create_index: Index(0),
        modify_index: Index(0),
    })
}

/// The secret part of a root key, unwrapped with one key-encryption key and wrapped with another; none when it is not what it was
/// when it was made.
pub(super) fn rewrap(key: &RootKey, from: &Kek, to: &Kek) -> Result<Option<Vec<u8>>, NoRandomness> {
    let context = context(key.id, &key.signing_public);
    let Some(text) = sealed::open(from.cipher(), &context, &key.wrapped) else { return Ok(None) };
    sealed::seal(to.cipher(), &context, &Zeroizing::new(text)).map(Some)
}

/// Unwraps a root key; none when it is not what it was when it was made.
pub(super) fn open(key: &RootKey, kek: &Kek) -> Option<OpenedKey> {
    let text = sealed::open(kek.cipher(), &context(key.id, &key.signing_public), &key.wrapped)?;
    let secrets: Secrets = minicbor::decode(&text).ok()?;
    let variables: &[u8; KEY_BYTES] = secrets.variables.as_slice().try_into().ok()?;
    let random = SystemRandom::new();
    let signing =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &secrets.signing, &random).ok()?;
    Some(OpenedKey { variables: sealed::cipher(variables), signing: Arc::new(signing) })
}

/// What a wrapped key is bound to: its id, and the public half that stands beside it in clear.
fn context(id: RootKeyId, signing_public: &[u8]) -> Vec<u8> {
    [b"berth root key 1".as_slice(), &id.to_bytes(), signing_public].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_key_opens_with_its_own_key_encryption_key_and_as_it_was_made() {
        let kek = Kek::random().expect("there is randomness");
        let key = make(RootKeyId(1), &kek).expect("there is randomness");
        assert_eq!((key.signing_public.len(), key.signing_public[0]), (65, 4));
        let opened = open(&key, &kek).expect("it opens");
        assert_eq!(opened.signing.public_key().as_ref(), key.signing_public);
        assert!(open(&key, &Kek::random().expect("there is randomness")).is_none());
        assert!(open(&RootKey { id: RootKeyId(2), ..key.clone() }, &kek).is_none());
        let another = make(RootKeyId(1), &kek).expect("there is randomness");
        assert!(open(&RootKey { signing_public: another.signing_public, ..key.clone() }, &kek).is_none());
        assert!(open(&RootKey { wrapped: Vec::new(), ..key }, &kek).is_none());
    }
}
