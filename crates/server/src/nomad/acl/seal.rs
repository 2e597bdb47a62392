//! A token's secret, encrypted so that only the one-time secret opens it: servers store neither of the two in clear.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest, Sha256};

/// Keeps the key apart from the hash by which a one-time token is found.
const KEY_CONTEXT: &[u8] = b"berth one-time token";

/// Seals a secret. `about` says what it belongs to: it opens for nothing else.
pub(super) fn seal(one_time: &str, about: &[u8], secret: &str) -> Option<Vec<u8>> {
    let mut sealed = secret.as_bytes().to_vec();
    key(one_time)?.seal_in_place_append_tag(nonce(), Aad::from(about), &mut sealed).ok()?;
    Some(sealed)
}

/// Opens what was sealed with the same one-time secret, about the same thing.
pub(super) fn open(one_time: &str, about: &[u8], sealed: &[u8]) -> Option<String> {
    let mut sealed = sealed.to_vec();
    let secret = key(one_time)?.open_in_place(nonce(), Aad::from(about), &mut sealed).ok()?;
    String::from_utf8(secret.to_vec()).ok()
}

fn key(one_time: &str) -> Option<LessSafeKey> {
    let key = Sha256::new().chain_update(KEY_CONTEXT).chain_update(one_time).finalize();
    Some(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).ok()?))
}

/// Each key seals once: the one-time secret that it is made of is random, and never used again.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_the_same_secret_for_the_same_thing_and_whole() {
        let sealed = seal("once", b"one", "the secret").expect("it seals");
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
        assert_eq!(open("once", b"one", &sealed).as_deref(), Some("the secret"));
        assert_eq!(open("twice", b"one", &sealed), None);
        assert_eq!(open("once", b"other", &sealed), None);
        assert_eq!(open("once", b"one", &sealed[1..]), None);
        assert_eq!(open("once", b"one", b""), None);
    }
}
