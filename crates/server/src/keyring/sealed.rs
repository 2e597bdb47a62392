//! Authenticated encryption: AES-256-GCM, with a nonce of its own for each text, which stands before it.

use berth_api::failpoint;
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};
use zeroize::Zeroizing;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;

/// There is no randomness to be had.
#[derive(Debug)]
pub(super) struct NoRandomness;

/// A new key.
pub(super) fn random_key() -> Result<Zeroizing<[u8; KEY_BYTES]>, NoRandomness> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    SystemRandom::new().fill(&mut *key).map_err(|_| NoRandomness)?;
    Ok(key)
}

/// A key, ready to be used.
pub(super) fn cipher(key: &[u8; KEY_BYTES]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("the key has the length that it must have"))
}

/// Encrypts a text. It decrypts only with the same `context`, which is authenticated and not part of the result.
pub(super) fn seal(cipher: &LessSafeKey, context: &[u8], text: &[u8]) -> Result<Vec<u8>, NoRandomness> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| NoRandomness)?;
    let mut sealed = Vec::with_capacity(NONCE_LEN + text.len() + MAX_TAG_LEN);
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(text);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = cipher
        .seal_in_place_separate_tag(nonce, Aad::from(context), &mut sealed[NONCE_LEN..])
        .expect("no text is longer than the cipher takes");
    sealed.extend_from_slice(tag.as_ref());
    Ok(sealed)
}

/// Decrypts what [`seal`] has encrypted; none when it was modified, or sealed with another context.
pub(super) fn open(cipher: &LessSafeKey, context: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut text = Zeroizing::new(text.to_vec());
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let len = cipher.open_in_place(nonce, Aad::from(context), &mut text).ok()?.len();
    text.truncate(len);
    failpoint("keyring.open", &text);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_its_key_about_its_thing_and_whole() {
        let key = cipher(&random_key().expect("there is randomness"));
        let sealed = seal(&key, b"about", b"the secret").expect("there is randomness");
        assert_eq!(open(&key, b"about", &sealed).as_deref().map(Vec::as_slice), Some(&b"the secret"[..]));
        assert_eq!(open(&key, b"other", &sealed), None);
        assert_eq!(open(&cipher(&[7; KEY_BYTES]), b"about", &sealed), None);
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            assert_eq!(open(&key, b"about", &flipped), None, "byte {at}");
            assert_eq!(open(&key, b"about", &sealed[..at]), None, "cut at {at}");
        }
        let again = seal(&key, b"about", b"the secret").expect("there is randomness");
        assert_ne!(sealed, again, "each has a nonce of its own");
    }
}
