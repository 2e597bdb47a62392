//! The public keys with which others verify tokens.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use berth_model::{RootKeyId, keyring::RootKey, store::Store};
/// Of a coordinate of a point of P-256.
const COORDINATE_BYTES: usize = 32;
/// Before the two coordinates.
const UNCOMPRESSED: u8 = 4;

/// The public half of a key that is known by this name.
pub(super) fn public_key(store: &Store, kid: &str) -> Option<Vec<u8>> {
    let id: RootKeyId = kid.parse().ok()?;
    // One key has one name.
    let key = store.keyring().key(id).filter(|key| key.id.to_string() == kid)?;
    Some(key.signing_public.clone())
}

/// A public key, as it is published.
pub(crate) struct PublicKey {
    /// Its name in tokens.
    pub kid: String,
    /// Its coordinates, in base64.
    pub x: String,
    /// The y coordinate, in base64url.
    pub y: String,
}

/// All keys by which tokens may be signed that have not expired, the newest first.
pub(crate) fn public_keys(store: &Store) -> Vec<PublicKey> {
    let mut keys: Vec<_> = store.keyring().keys().filter_map(|key| to_api(key)).collect();
    keys.reverse();
    keys
}

fn to_api(key: &RootKey) -> Option<PublicKey> {
    let (kind, point) = key.signing_public.split_first()?;
    let (x, y) = point.split_at_checked(COORDINATE_BYTES).filter(|(_, y)| y.len() == COORDINATE_BYTES)?;
    let [x, y] = [x, y].map(|part| URL_SAFE_NO_PAD.encode(part));
    (*kind == UNCOMPRESSED).then(|| PublicKey { kid: key.id.to_string(), x, y })
}
